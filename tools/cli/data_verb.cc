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
  uint32_t epoch = 0, workers = 0, rounds = 3;
  bool json = false;
  CommonFlags common;
};

using Look = std::function<Result<Rejected>(const DataSet&, const LookOptions&, std::ostream& out)>;

Result<Rejected> look_at_set(const DataFlags& flags, const chief::ConsoleOptions& console,
                             const std::shared_ptr<data::ProgramPool>& programs,
                             const SignalWatcher& watcher, const Look& body) {
  LookOptions options{.json = flags.json, .columns = console.columns, .epoch = flags.epoch};
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

CLI::App* add_look(CLI::App& data, const char* name, const char* help, DataFlags& flags) {
  CLI::App* verb = data.add_subcommand(name, help);
  verb->option_defaults()->always_capture_default();
  add_data_names(*verb, flags.names);
  add_data_format(*verb, flags.format);
  add_data_set_flag(*verb, flags.common);
  verb->add_flag("--json", flags.json, "As JSON on stdout")->group("Output");
  add_output_flags(*verb, flags.common);
  return verb;
}

void add_worker_flags(CLI::App& verb, DataFlags& flags) {
  verb.add_option("--worker", flags.worker,
                  "Index/count: what that worker is given, in its order, if all are equally fast")
      ->type_name("I/N")
      ->default_str("")
      ->group("Data");
  verb.add_option("--epoch", flags.epoch, "With --worker: of which epoch, from 0")->group("Data");
}

void add_head(CLI::App& data, DataFlags& flags, int& status) {
  CLI::App* verb =
      add_look(data, "head", "The first records, taken apart as the job or the file says", flags);
  verb->add_option("-n,--records", flags.records, "How many")->group("Data");
  verb->add_option("--skip", flags.skip, "Records to go over first")->group("Data");
  add_worker_flags(*verb, flags);
  verb->footer(
      "Values stand as they are in the file, before transforms; `-` is a missing one.\n\n"
      "Examples:\n"
      "  downpour data head clicks.tsv\n"
      "  downpour data head 'train-*.tfrecord.gz' -n 3 --json\n"
      "  downpour data head job.toml --worker 1/4         what worker 1 of 4 begins with");
  verb->callback([&flags, &status] {
    status = look(flags, /*tell=*/true,
                  [&](const DataSet& set, const LookOptions& options, std::ostream& out) {
                    return show_head(set, flags.records, flags.skip, options, out);
                  });
  });
}

void add_count(CLI::App& data, DataFlags& flags, int& status) {
  CLI::App* verb = add_look(data, "count", "Records and bytes of each file", flags);
  verb->footer(
      "Finds where records begin and end, and parses nothing: a bad record counts as well.\n\n"
      "Examples:\n"
      "  downpour data count 'train-*.tfrecord'\n"
      "  downpour data count job.toml --json");
  verb->callback([&flags, &status] {
    status = look(
        flags, /*tell=*/false,
        [](const DataSet& set, const LookOptions& options, std::ostream& out) -> Result<Rejected> {
          DP_TRY_VOID(show_count(set, options, out));
          return Rejected{};
        });
  });
}

void add_validate(CLI::App& data, DataFlags& flags, int& status) {
  CLI::App* verb = add_look(data, "validate",
                            "Read every record as a training would, and name each bad one", flags);
  verb->add_option("--limit", flags.limit, "Bad records to name (0: all)")->group("Output");
  verb->footer(
      "Checks every checksum, every value's type and range and every target, of a job also those\n"
      "of its evaluation's source. Exit status 65 if anything is bad.\n\n"
      "Examples:\n"
      "  downpour data validate clicks.tsv\n"
      "  downpour data validate job.toml --limit 0 > bad.txt");
  verb->callback([&flags, &status] {
    status = look(flags, /*tell=*/false,
                  [&](const DataSet& set, const LookOptions& options, std::ostream& out) {
                    return validate(set, flags.limit, options, out);
                  });
  });
}

void add_stats(CLI::App& data, DataFlags& flags, int& status) {
  flags.records = 0;
  CLI::App* verb =
      add_look(data, "stats",
               "Every field's missing and different values, spread, and frequent values", flags);
  verb->add_option("-n,--records", flags.records, "Of the first so many records (0: all)")
      ->group("Data");
  add_worker_flags(*verb, flags);
  verb->footer(
      "Different values are estimated to about 2 %, frequent ones to a 1,000th of all.\n\n"
      "Examples:\n"
      "  downpour data stats clicks.tsv\n"
      "  downpour data stats job.toml -n 100000 --json");
  verb->callback([&flags, &status] {
    status = look(flags, /*tell=*/true,
                  [&](const DataSet& set, const LookOptions& options, std::ostream& out) {
                    return show_stats(set, flags.records, options, out);
                  });
  });
}

void add_plan(CLI::App& data, DataFlags& flags, int& status) {
  CLI::App* verb = add_look(data, "plan", "The shards of an epoch: who would read what", flags);
  verb->add_option("--workers", flags.workers, "How many there are; otherwise as the job says")
      ->default_str("")
      ->group("Data");
  verb->add_option("--epoch", flags.epoch, "Of which epoch, from 0")->group("Data");
  verb->add_option("--limit", flags.limit, "Shards to show (0: all)")->group("Output");
  verb->footer(
      "Examples:\n"
      "  downpour data plan job.toml --workers 4\n"
      "  downpour data plan 'train-*.tfrecord.gz' --limit 0");
  verb->callback([&flags, &status] {
    status = look(
        flags, /*tell=*/false,
        [&](const DataSet& set, const LookOptions& options, std::ostream& out) -> Result<Rejected> {
          DP_TRY_VOID(show_plan(set, flags.workers, flags.limit, options, out));
          return Rejected{};
        });
  });
}

void add_data_bench(CLI::App& data, DataFlags& flags, int& status) {
  CLI::App* verb =
      add_look(data, "bench",
               "Read all that a training reads, and nothing else: what each stage costs", flags);
  verb->add_option("--rounds", flags.rounds, "The best of so many is shown")
      ->check(CLI::Range(1, 1000))
      ->group("Data");
  verb->footer(
      "One thread; a training reads with several. downpour bench input measures every format.\n\n"
      "Examples:\n"
      "  downpour data bench clicks.tsv\n"
      "  downpour data bench job.toml --rounds 5 --json");
  verb->callback([&flags, &status] {
    status = look(
        flags, /*tell=*/false,
        [&](const DataSet& set, const LookOptions& options, std::ostream& out) -> Result<Rejected> {
          DP_TRY_VOID(bench_data(set, flags.rounds, options, out));
          return Rejected{};
        });
  });
}

}  // namespace

void add_data(CLI::App& app, int& status) {
  struct AllFlags {
    DataFlags head, count, stats, validate, plan, bench;
  };
  auto flags = std::make_shared<AllFlags>();
  CLI::App* verb = app.add_subcommand(
      "data", "Look at data: records, counts, statistics, what is bad, who reads what");
  verb->require_subcommand(1);
  add_head(*verb, flags->head, status);
  add_count(*verb, flags->count, status);
  add_stats(*verb, flags->stats, status);
  add_validate(*verb, flags->validate, status);
  add_plan(*verb, flags->plan, status);
  add_data_bench(*verb, flags->bench, status);
  verb->footer(
      "Each takes data files, whose format is found out, or a job file, whose declarations then\n"
      "hold. downpour data LOOK --help says more.\n\n"
      "Examples:\n"
      "  downpour data head clicks.tsv\n"
      "  downpour data count 'train-*.tfrecord'\n"
      "  downpour data validate job.toml");
  verb->callback([flags] {});  // keeps the flags alive
}

}  // namespace downpour::tools
