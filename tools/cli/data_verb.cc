#include <cstdio>
#include <functional>
#include <memory>
#include <sstream>

#include "chief/runtime/job_setup.h"
#include "shared/env/signals.h"
#include "tools/cli/data_bench.h"
#include "tools/cli/live_line.h"
#include "tools/cli/run.h"
#include "tools/cli/verbs.h"
#include "tools/data/look.h"

namespace downpour::tools {
namespace {

struct DataFlags {
  std::vector<std::string> names;
  std::string format = "auto", worker;
  uint64_t records = 10, skip = 0, limit = 20;
  uint32_t epoch = 1, workers = 0, rounds = 3;
  bool json = false;
  CommonFlags common;
};

using Look = std::function<Result<Rejected>(const DataSet&, const LookOptions&, std::ostream& out)>;

Result<Rejected> look_at_set(const DataFlags& flags, const chief::ConsoleOptions& console,
                             const std::shared_ptr<data::ProgramPool>& programs,
                             const SignalWatcher& watcher, const Look& body) {
  LookOptions options{
      .json = flags.json, .columns = console.columns, .epoch_index = flags.epoch - 1};
  if (!flags.worker.empty()) {
    DP_TRY(options.worker, parse_worker(flags.worker));
  }
  DP_TRY(std::vector<Override> overrides, overrides_of(flags.common));
  // The number of streams defaults to the number of workers.
  if (flags.workers > 0) overrides.push_back({"cluster.workers", str(flags.workers), "--workers"});
  if (options.worker.count > 0)
    overrides.push_back({"cluster.workers", str(options.worker.count), "--worker"});
  DP_TRY(DataSet set, open_data_set(flags.names, {.format = *format_named(flags.format),
                                                  .overrides = overrides}));
  set.programs = programs;
  if (!set.found.empty() && !console.quiet) std::fprintf(stderr, "data: %s\n", set.found.c_str());
  LiveLine line(console);
  options.stopped = [&] { return watcher.signal() != 0; };
  options.progress = [&](uint64_t records, uint64_t bytes, uint64_t of_bytes) {
    line.tell(records, bytes, of_bytes);
  };
  std::ostringstream out;
  Result<Rejected> rejected = body(set, options, out);
  line.clear();
  const std::string text = std::move(out).str();
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
  return rejected;
}

/// Runs the body of a verb. Returns the exit status, which is 65 if there were bad records. With
/// `tell` it prints them as errors.
int look(const DataFlags& flags, bool tell, const Look& body) {
  const chief::ConsoleOptions console = console_options(flags.common);
  const auto programs = data::make_program_pool();
  // Stop the programs on a signal, because a read from a silent program would not return.
  const SignalWatcher watcher([&](int) { data::stop_programs(*programs); });
  auto rejected = look_at_set(flags, console, programs, watcher, body);
  if (!rejected) {
    const bool interrupted =
        watcher.signal() != 0 && (rejected.error().code == ErrorCode::kInterrupted ||
                                  rejected.error().code == ErrorCode::kUnavailable);
    const int status = report(interrupted ? interrupted_error() : rejected.error(), console);
    return interrupted ? 128 + watcher.signal() : status;
  }
  for (size_t i = 0; tell && i < rejected->first.size(); ++i) report(rejected->first[i], console);
  return rejected->count == 0 ? 0 : exit_code(ErrorCode::kBadData);
}

/// The result of a verb that does not parse records.
Result<Rejected> none_rejected(const Result<void>& shown) {
  if (!shown) return shown.error();
  return Rejected{};
}

/// Adds a verb that looks at the data set with `body`, and prints bad records as errors with
/// `tell`.
CLI::App* add_look(CLI::App& data, const char* name, const char* help, DataFlags& flags,
                   int& status, bool tell, Look body) {
  CLI::App* verb = data.add_subcommand(name, help);
  verb->callback(
      [&flags, &status, tell, body = std::move(body)] { status = look(flags, tell, body); });
  verb->option_defaults()->always_capture_default();
  add_data_names(*verb, flags.names);
  add_data_format(*verb, flags.format);
  add_data_set_flag(*verb, flags.common);
  verb->add_flag("--json", flags.json, "Print the result as JSON on stdout")->group("Output");
  add_output_flags(*verb, flags.common);
  return verb;
}

void add_epoch_flag(CLI::App& verb, DataFlags& flags, const char* help) {
  verb.add_option("--epoch", flags.epoch, help)->check(CLI::Range(1U, kEpochsMax))->group("Data");
}

void add_worker_flags(CLI::App& verb, DataFlags& flags) {
  verb.add_option("--worker", flags.worker,
                  "INDEX/COUNT: the records of this worker in their order, if all workers are "
                  "equally fast; INDEX starts at 0")
      ->type_name("I/N")
      ->default_str("")
      ->group("Data");
  add_epoch_flag(verb, flags, "With --worker: the epoch, starting at 1");
}

void add_head(CLI::App& data, DataFlags& flags, int& status) {
  CLI::App* verb = add_look(
      data, "head", "Show the first records, parsed as the job or the file declares", flags, status,
      /*tell=*/true, [&flags](const DataSet& set, const LookOptions& options, std::ostream& out) {
        return show_head(set, flags.records, flags.skip, options, out);
      });
  verb->add_option("-n,--records", flags.records, "Number of records")->group("Data");
  verb->add_option("--skip", flags.skip, "Number of records to skip first")->group("Data");
  add_worker_flags(*verb, flags);
  verb->footer(
      "Values are shown as in the file, before transforms; `-` is a missing value.\n\nExamples:\n  "
      "downpour data head clicks.tsv\n  downpour data head 'train-*.tfrecord.gz' -n 3 --json\n  "
      "downpour data head job.toml --worker 1/4         the first records of worker 1 of 4");
}

void add_count(CLI::App& data, DataFlags& flags, int& status) {
  CLI::App* verb = add_look(data, "count", "Count the records and bytes of each file", flags,
                            status, /*tell=*/false,
                            [](const DataSet& set, const LookOptions& options, std::ostream& out) {
                              return none_rejected(show_count(set, options, out));
                            });
  verb->footer(
      "Finds the boundaries of records without parsing them, so bad records count, "
      "too.\n\nExamples:\n  downpour data count 'train-*.tfrecord'\n  downpour data count job.toml "
      "--json");
}

void add_validate(CLI::App& data, DataFlags& flags, int& status) {
  CLI::App* verb = add_look(
      data, "validate", "Read every record as training does, and list each bad one", flags, status,
      /*tell=*/false, [&flags](const DataSet& set, const LookOptions& options, std::ostream& out) {
        return validate(set, flags.limit, options, out);
      });
  verb->add_option("--limit", flags.limit, "Number of bad records to list (0: all)")
      ->group("Output");
  verb->footer(
      "Checks every checksum, the type and range of every value, and every target. For a job, "
      "also\nchecks its evaluation source. The exit status is 65 if a record is "
      "bad.\n\nExamples:\n  downpour data validate clicks.tsv\n  downpour data validate job.toml "
      "--limit 0 > bad.txt");
}

void add_stats(CLI::App& data, DataFlags& flags, int& status) {
  flags.records = 0;
  CLI::App* verb = add_look(
      data, "stats",
      "Show the missing, distinct and most frequent values and the distribution of each field",
      flags, status, /*tell=*/true,
      [&flags](const DataSet& set, const LookOptions& options, std::ostream& out) {
        return show_stats(set, flags.records, options, out);
      });
  verb->add_option("-n,--records", flags.records, "Number of records to read (0: all)")
      ->group("Data");
  add_worker_flags(*verb, flags);
  verb->footer(
      "The number of distinct values is an estimate within about 2 %. The counts of frequent "
      "values are exact\nto 1/1000 of all values.\n\nExamples:\n  downpour data stats clicks.tsv\n "
      " downpour data stats job.toml -n 100000 --json");
}

void add_plan(CLI::App& data, DataFlags& flags, int& status) {
  CLI::App* verb = add_look(
      data, "plan", "Show the shards of an epoch, and which worker would read each", flags, status,
      /*tell=*/false, [&flags](const DataSet& set, const LookOptions& options, std::ostream& out) {
        return none_rejected(show_plan(set, flags.workers, flags.limit, options, out));
      });
  verb->add_option("--workers", flags.workers, "Number of workers; default: the value in the job")
      ->default_str("")
      ->group("Data");
  add_epoch_flag(*verb, flags, "Epoch, starting at 1");
  verb->add_option("--limit", flags.limit, "Number of shards to show (0: all)")->group("Output");
  verb->footer(
      "Examples:\n"
      "  downpour data plan job.toml --workers 4\n"
      "  downpour data plan 'train-*.tfrecord.gz' --limit 0");
}

void add_data_bench(CLI::App& data, DataFlags& flags, int& status) {
  CLI::App* verb = add_look(
      data, "bench", "Measure the cost of each stage of reading, without training", flags, status,
      /*tell=*/false, [&flags](const DataSet& set, const LookOptions& options, std::ostream& out) {
        return none_rejected(bench_data(set, flags.rounds, options, out));
      });
  verb->add_option("--rounds", flags.rounds, "Number of rounds; the fastest one is shown")
      ->check(CLI::Range(1, 1000))
      ->group("Data");
  verb->footer(
      "Uses one thread; training uses several. downpour bench input measures every "
      "format.\n\nExamples:\n  downpour data bench clicks.tsv\n  downpour data bench job.toml "
      "--rounds 5 --json");
}

}  // namespace

void declare_data(CLI::App* verb, int& status) {
  struct AllFlags {
    DataFlags head, count, stats, validate, plan, bench;
  };
  auto flags = std::make_shared<AllFlags>();
  verb->require_subcommand(1);
  add_head(*verb, flags->head, status);
  add_count(*verb, flags->count, status);
  add_stats(*verb, flags->stats, status);
  add_validate(*verb, flags->validate, status);
  add_plan(*verb, flags->plan, status);
  add_data_bench(*verb, flags->bench, status);
  verb->footer(
      "Each subcommand reads either data files, whose format is detected, or a job file, "
      "whose\ndeclarations apply. See downpour data SUBCOMMAND --help.\n\nExamples:\n  downpour "
      "data head clicks.tsv\n  downpour data count 'train-*.tfrecord'\n  downpour data validate "
      "job.toml");
  verb->callback([flags] {});  // keeps the flags alive
}

}  // namespace downpour::tools
