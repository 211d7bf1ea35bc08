#include <algorithm>
#include <cstdio>

#include <nlohmann/json.hpp>

#include "shared/env/signals.h"
#include "tools/cli/live_line.h"
#include "tools/cli/run.h"
#include "tools/cli/verbs.h"
#include "tools/data/shard.h"

namespace downpour::tools {
namespace {

struct ShardFlags {
  std::vector<std::string> names;
  std::string format = "auto", to = "auto", by = "records", compress = "none", bad = "fail";
  ShardRequest request;
  bool json = false;
  CommonFlags common;
};

Result<ShardSummary> run_shard(const ShardFlags& flags, const chief::ConsoleOptions& console,
                               const SignalWatcher& watcher) {
  DP_TRY(const std::vector<Override> overrides, overrides_of(flags.common));
  DP_TRY(const DataSet set, open_data_set(flags.names, {.format = *format_named(flags.format),
                                                        .overrides = overrides}));
  if (!console.quiet) {
    if (!set.found.empty()) std::fprintf(stderr, "data: %s\n", set.found.c_str());
    if (!set.data().filter.empty())
      std::fprintf(stderr, "note: data.filter is not applied; all records are written\n");
    if (!set.data().program.empty())
      std::fprintf(stderr, "note: data.program is not applied; the original records are written\n");
  }
  ShardRequest request = flags.request;
  request.by_bytes = flags.by == "bytes";
  request.to = *format_named(flags.to);
  request.compression = flags.compress == "gzip"   ? data::Compression::kGzip
                        : flags.compress == "zstd" ? data::Compression::kZstd
                                                   : data::Compression::kNone;
  request.skip_bad = flags.bad == "skip";
  LiveLine line(console);
  request.stopped = [&] { return watcher.signal() != 0; };
  request.progress = [&](uint64_t records, uint64_t bytes, uint64_t of_bytes) {
    line.tell(records, bytes, of_bytes);
  };
  return shard(set, request);
}

void print_json(const ShardSummary& summary) {
  nlohmann::ordered_json files = nlohmann::ordered_json::array();
  for (const ShardSummary::File& file : summary.files)
    files.push_back({{"path", file.path}, {"records", file.records}, {"bytes", file.bytes}});
  const nlohmann::ordered_json json = {{"format", format_name(summary.format)},
                                       {"converted", summary.converted},
                                       {"records", summary.records},
                                       {"skipped", summary.skipped},
                                       {"files", std::move(files)}};
  std::printf("%s\n",
              json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace).c_str());
}

void print_text(const ShardSummary& summary) {
  const auto by_records =
      std::minmax_element(summary.files.begin(), summary.files.end(),
                          [](const auto& a, const auto& b) { return a.records < b.records; });
  const auto by_bytes =
      std::minmax_element(summary.files.begin(), summary.files.end(),
                          [](const auto& a, const auto& b) { return a.bytes < b.bytes; });
  const auto span = [](const std::string& low, const std::string& high) {
    return low == high ? low : low + " to " + high;
  };
  const size_t count = summary.files.size();
  std::string text = str(
      count, count == 1 ? " shard of " : " shards of ",
      span(grouped(by_records.first->records), grouped(by_records.second->records)), " records, ",
      span(human_bytes(by_bytes.first->bytes), human_bytes(by_bytes.second->bytes)), "\n");
  text += str(
      grouped(summary.records), " records in total, ",
      summary.converted ? str("written as ", format_name(summary.format)) : "with unchanged bytes",
      summary.skipped == 0 ? "" : str("; ", grouped(summary.skipped), " bad records skipped"),
      "\n");
  text += str("first: ", summary.files.front().path, "\n");
  std::fputs(text.c_str(), stdout);
}

int shard_verb(const ShardFlags& flags) {
  const chief::ConsoleOptions console = console_options(flags.common);
  const SignalWatcher watcher([](int) {});
  const auto summary = run_shard(flags, console, watcher);
  if (!summary) {
    const int status = report(summary.error(), console);
    return summary.error().code == ErrorCode::kInterrupted ? 128 + watcher.signal() : status;
  }
  flags.json ? print_json(*summary) : print_text(*summary);
  return 0;
}

void add_shard_flags(CLI::App& verb, ShardFlags& flags) {
  ShardRequest& request = flags.request;
  verb.add_option("-n,--shards", request.shards,
                  "Number of files to write; 1 merges all files into one")
      ->group("Shards");
  verb.add_option("--by", flags.by,
                  "Whether all shards have about the same number of records or of bytes")
      ->check(CLI::IsMember({"records", "bytes"}))
      ->group("Shards");
  verb.add_option("--names", request.names,
                  "Pattern of the file names; default: {name}-{index:05}-of-{count:05} and the "
                  "extension of the format")
      ->default_str("")
      ->group("Shards");
  verb.add_flag(
          "--index", request.index,
          "Also write an index of each TFRecord file, so that it can be split without being read")
      ->group("Shards");
  verb.add_option("--to", flags.to,
                  "Format to write; auto: the same format, with the bytes of each record unchanged")
      ->check(CLI::IsMember({"auto", "tfrecord", "jsonl", "csv", "tsv", "libsvm", "npy"}))
      ->group("Format");
  verb.add_option("--target", request.target, "Field that becomes the label of libsvm")
      ->default_str("")
      ->group("Format");
  verb.add_option("--compress", flags.compress, "Compression of the output files")
      ->check(CLI::IsMember({"none", "gzip", "zstd"}))
      ->group("Format");
  verb.add_option("--level", request.level, "Compression level (0: gzip 6, zstd 3)")
      ->check(CLI::Range(0, 19))
      ->group("Format");
  verb.add_flag("--shuffle", request.shuffle, "Write the records in random order")->group("Order");
  verb.add_option("--seed", request.seed, "Seed of the shuffle: the same seed gives the same order")
      ->group("Order");
  verb.add_option("--memory", request.memory_bytes, "Memory limit of the shuffle, as 256MB or 2GB")
      ->transform(CLI::AsSizeValue(/*kb_is_1000=*/true))
      ->group("Order");
  verb.add_option("--temporary", request.temporary,
                  "Folder for temporary files of the shuffle, as large as the data; default: next "
                  "to the output folder")
      ->default_str("")
      ->group("Order");
}

}  // namespace

void declare_shard(CLI::App* verb, int& status) {
  auto* const flags = set_run(verb, status, shard_verb);
  verb->option_defaults()->always_capture_default();
  add_data_names(*verb, flags->names);
  verb->add_option("-o,--out", flags->request.out, "Output folder, which must be new or empty")
      ->required()
      ->default_str("");
  add_data_format(*verb, flags->format);
  verb->add_option("--bad-records", flags->bad,
                   "fail: stop at a record that can't be read; skip: leave it out")
      ->check(CLI::IsMember({"fail", "skip"}))
      ->group("Data");
  add_data_set_flag(*verb, flags->common);
  add_shard_flags(*verb, *flags);
  verb->add_flag("--json", flags->json, "Print a summary as JSON on stdout")->group("Output");
  add_output_flags(*verb, flags->common);
  verb->footer(
      "Every record is written once. The output folder appears when all files are complete; after "
      "an\nerror or Ctrl-C no files remain.\n\nExamples:\n  downpour shard clicks.tsv -o clicks -n "
      "16             split into 16 files of equal record counts\n  downpour shard "
      "'part-*.tfrecord' -o one               merge\n  downpour shard clicks.csv -o shuffled -n 8 "
      "--shuffle  shuffle data of any size in 256 MB of memory\n  downpour shard clicks.csv -o "
      "records --to tfrecord --compress zstd\n  downpour shard train-images-idx3-ubyte.gz -o "
      "arrays --to npy");
}

}  // namespace downpour::tools
