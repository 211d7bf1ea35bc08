// `downpour sim`: runs a job on a simulated cluster with faults.
#include <algorithm>
#include <charconv>
#include <chrono>
#include <fstream>
#include <optional>

#include "chief/runtime/job_setup.h"
#include "shared/base/error_text.h"
#include "shared/data/reading/dataset.h"
#include "shared/env/process.h"
#include "tools/cli/run.h"
#include "tools/cli/sim_summary.h"
#include "tools/cli/verbs.h"
#include "tools/sim/model_job.h"
#include "tools/sim/profiles.h"
#include "tools/sim/simulator.h"

namespace downpour::tools {
namespace {

struct SimFlags {
  CommonFlags common;
  std::string job;
  bool counter = false, model = false;
  uint64_t seed = 1;
  std::string seeds;
  std::string profile;
  std::string faults = "none";
  std::string trace;
  std::string without;
  std::string moments;
  uint32_t ps = 0, workers = 0;
  std::optional<uint32_t> inputs;
  uint32_t ps_cores = 0;
  uint64_t message_bytes = 0;
  sim::JobSize size;  // of a built-in job
  double batch_ms = 0;
  double limit_s = 0;
  bool fresh = false;
  bool no_shrink = false;
  uint64_t failures = 3;
  bool built_in() const { return counter || model; }
};

constexpr uint32_t kShrinkRuns = 200;
constexpr uint64_t kHashEvery = 100;  // every hundredth seed is run twice, to compare the hashes

Result<std::pair<uint64_t, uint64_t>> seed_range(const SimFlags& flags) {
  if (flags.seeds.empty()) return std::pair(flags.seed, flags.seed);
  const size_t dots = flags.seeds.find("..");
  uint64_t first = 0, last = 0;
  const char* begin = flags.seeds.data();
  const char* end = begin + flags.seeds.size();
  if (dots != std::string::npos &&
      std::from_chars(begin, begin + dots, first).ptr == begin + dots &&
      std::from_chars(begin + dots + 2, end, last).ptr == end && first <= last) {
    return std::pair(first, last);
  }
  return Error{ErrorCode::kUsage, str("--seeds needs FIRST..LAST, not `", flags.seeds, "`"), "",
               "for example --seeds 1..1000", ""};
}

template <typename Visit>
void for_each_item(std::string_view list, Visit&& visit) {
  while (!list.empty()) {
    const size_t comma = list.find(',');
    visit(list.substr(0, comma));
    list.remove_prefix(comma == std::string_view::npos ? list.size() : comma + 1);
  }
}

Result<sim::Selection> selection_of(const SimFlags& flags) {
  sim::Selection selection;
  std::string unknown;
  for_each_item(flags.without, [&](std::string_view name) {
    if (const auto kind = sim::parse_fault(name)) {
      selection.without.push_back(*kind);
    } else {
      unknown = name;
    }
  });
  if (!unknown.empty())
    return Error{ErrorCode::kUsage, str("--without: there is no fault `", unknown, "`")};
  if (flags.moments.empty()) return selection;
  selection.moments.emplace();
  for_each_item(flags.moments, [&](std::string_view text) {
    uint32_t moment = 0;
    if (std::from_chars(text.data(), text.data() + text.size(), moment).ptr ==
        text.data() + text.size())
      selection.moments->push_back(moment);
  });
  return selection;
}

/// Returns the flags that give a built-in job this size.
std::string size_flags(const sim::JobSize& size) {
  const sim::JobSize usual;
  std::string flags;
  if (size.sharding != usual.sharding) flags += " --sharding " + size.sharding;
  if (size.files != usual.files) flags += str(" --files ", size.files);
  if (size.mix) flags += " --mix";
  if (size.program) flags += " --program";
  if (size.cycle != usual.cycle) flags += str(" --cycle ", size.cycle);
  if (size.window != usual.window) flags += str(" --window ", size.window);
  if (size.steps != usual.steps) flags += str(" --steps ", size.steps);
  if (size.replicas != usual.replicas) flags += str(" --replicas ", size.replicas);
  if (size.backups != usual.backups) flags += str(" --backups ", size.backups);
  if (size.sync_every != usual.sync_every) flags += str(" --sync-every ", size.sync_every);
  if (size.whole_epochs) flags += " --whole-epochs";
  if (size.touched) flags += " --touched";
  if (size.mixed) flags += " --mixed";
  return flags;
}

std::string replay_command(const SimFlags& flags, uint64_t seed, const sim::Selection& selection) {
  std::string command = str("downpour sim --seed ", seed);
  if (!flags.profile.empty()) {
    command += " --profile " + flags.profile;
  } else {
    if (!flags.job.empty()) command += " " + flags.job;
    if (flags.built_in()) command += flags.counter ? " --counter" : " --model";
    if (flags.built_in()) command += size_flags(flags.size);
    command += str(" --faults ", flags.faults, " --ps ", flags.ps, " --workers ", flags.workers,
                   " --ps-cores ", flags.ps_cores);
    if (flags.inputs.value_or(0) > 0) command += str(" --inputs ", *flags.inputs);
    if (flags.message_bytes > 0) command += str(" --message-bytes ", flags.message_bytes);
  }
  std::string names;
  for (const sim::FaultKind kind : selection.without)
    names += str(names.empty() ? "" : ",", sim::fault_name(kind));
  if (!names.empty()) command += " --without " + names;
  if (selection.moments) {
    std::string moments;
    for (const uint32_t moment : *selection.moments)
      moments += str(moments.empty() ? "" : ",", moment);
    command += " --moments " + (moments.empty() ? std::string("none") : moments);
  }
  return command;
}

/// Runs a failed seed again with a trace, and with as few faults as still break the invariant.
void explain_failure(const sim::Simulator& simulator, const SimFlags& flags, uint64_t seed,
                     const sim::Outcome& outcome, const sim::Selection& given) {
  std::fprintf(stderr, "seed %llu: %s\n", static_cast<unsigned long long>(seed),
               outcome.violation.c_str());
  sim::Selection selection = given;
  if (!flags.no_shrink) selection = simulator.shrink(seed, outcome.violation, kShrinkRuns);
  sim::Trace trace(!flags.trace.empty());
  const sim::Outcome again = simulator.run(seed, {.selection = selection, .trace = &trace});
  for (const std::string& line : trace.tail()) std::fprintf(stderr, "  %s\n", line.c_str());
  std::fprintf(stderr, "violated: %s\nreplay: %s\n", again.violation.c_str(),
               replay_command(flags, seed, selection).c_str());
  if (!flags.trace.empty()) std::ofstream(flags.trace) << trace.json();
}

/// Returns the events that must happen in at least 1 % of the seeds. Otherwise the run proves
/// nothing.
std::vector<std::string> wanted_counts(const sim::FaultSpec& faults) {
  std::vector<std::string> wanted = {"duplicate part", "gap", "view mismatch", "repeated lease",
                                     "round void"};
  for (const auto& [kind, setting] : faults.kinds) wanted.emplace_back(sim::fault_name(kind));
  return wanted;
}

/// The number of seeds in which each event happened.
struct Met {
  uint64_t seeds = 0, failed = 0;
  std::map<std::string, uint64_t> with;
  DefenceCounts defences{};
};

Met run_seeds(const sim::Simulator& simulator, const SimFlags& flags, uint64_t first, uint64_t last,
              const sim::Selection& selection) {
  Met met;
  const auto begin = std::chrono::steady_clock::now();
  double virtual_s = 0;
  uint64_t steps = 0;
  for (uint64_t seed = first; seed <= last; ++seed) {
    ++met.seeds;
    const sim::Outcome outcome = simulator.run(seed, {.selection = selection});
    virtual_s += double(outcome.virtual_ns) / 1e9;
    steps += outcome.steps;
    for (const auto& [name, n] : outcome.counts) ++met.with[name];
    for (size_t d = 0; d < kDefences; ++d) met.defences[d] += outcome.defences[d] > 0 ? 1 : 0;
    if (!outcome.violation.empty()) {
      ++met.failed;
      explain_failure(simulator, flags, seed, outcome, selection);
      if (met.failed >= flags.failures) break;
      continue;
    }
    if (seed % kHashEvery == 0 &&
        simulator.run(seed, {.selection = selection}).hash != outcome.hash) {
      std::fprintf(stderr, "seed %llu: two runs with this seed differ\n",
                   static_cast<unsigned long long>(seed));
      ++met.failed;
    }
  }
  const double wall_s =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  const double seeds = double(met.seeds);
  std::printf(
      "%.0f seeds, %llu with a violation; %.1f seeds/s; %.1f virtual s and %.0f events a seed\n",
      seeds, static_cast<unsigned long long>(met.failed), seeds / wall_s, virtual_s / seeds,
      double(steps) / seeds);
  return met;
}

void print_met(const Met& met) {
  const auto print = [&](std::string_view name, uint64_t n) {
    std::printf("  %-70.*s in %5.1f %% of seeds\n", int(name.size()), name.data(),
                100.0 * double(n) / double(met.seeds));
  };
  for (const auto& [name, n] : met.with) print(name, n);
  for (size_t d = 0; d < kDefences; ++d) {
    if (met.defences[d] > 0) print(kDefenceTexts[d], met.defences[d]);
  }
}

int run_many(const sim::Simulator& simulator, const SimFlags& flags, const sim::FaultSpec& faults,
             uint64_t first, uint64_t last, const sim::Selection& selection) {
  Met met = run_seeds(simulator, flags, first, last, selection);
  print_met(met);
  bool vacuous = false;
  if (faults.swarm && met.seeds >= 100 && met.failed == 0) {
    for (const std::string& name : wanted_counts(faults)) {
      if (100 * met.with[name] >= met.seeds) continue;
      vacuous = true;
      std::fprintf(stderr, "too rare: `%s` happened in only %llu of %llu seeds\n", name.c_str(),
                   static_cast<unsigned long long>(met.with[name]),
                   static_cast<unsigned long long>(met.seeds));
    }
  }
  return met.failed > 0 || vacuous ? exit_code(ErrorCode::kBug) : 0;
}

/// Runs one profile or all of them. Fails if a fence of a profile acted in less than 1 % of its
/// seeds.
int run_profiles(SimFlags flags, uint64_t first, uint64_t last, const sim::Selection& selection) {
  const bool all = flags.profile == "all";
  bool failed = false;
  for (const sim::Profile& profile : sim::profiles()) {
    if (!all && profile.name != flags.profile) continue;
    flags.profile = profile.name;
    const auto simulator = sim::make_simulator(profile);
    if (!simulator) return report(simulator.error(), console_options(flags.common));
    std::printf("%.*s (%.*s): ", int(profile.name.size()), profile.name.data(),
                int(profile.says.size()), profile.says.data());
    std::fflush(stdout);
    const Met met = run_seeds(*simulator, flags, first, last, selection);
    print_met(met);
    failed = failed || met.failed > 0;
    if (met.seeds < 100) continue;
    for (const Defence defence : sim::too_rare(profile, met.defences, met.seeds)) {
      failed = true;
      const std::string_view text = kDefenceTexts[size_t(defence)];
      std::fprintf(stderr, "too rare: profile %s: `%.*s` happened in only %llu of %llu seeds\n",
                   flags.profile.c_str(), int(text.size()), text.data(),
                   static_cast<unsigned long long>(met.defences[size_t(defence)]),
                   static_cast<unsigned long long>(met.seeds));
    }
  }
  return failed ? exit_code(ErrorCode::kBug) : 0;
}

/// Runs one seed. Without faults it really trains the job, in the job's own run folder.
int run_one(const sim::Simulator& simulator, const SimFlags& flags, const sim::FaultSpec& faults,
            const sim::Selection& selection) {
  PosixStorage posix;
  sim::Trace trace(true);
  const chief::ConsoleOptions console_flags = console_options(flags.common);
  chief::Console console(console_flags, simulator.plan().job);
  sim::Simulator::RunOptions options{.selection = selection,
                                     .trace = flags.trace.empty() ? nullptr : &trace,
                                     .fresh = flags.fresh};
  if (faults.empty() && !flags.built_in()) options.storage = &posix;
  if (!flags.built_in()) {
    options.console = &console;
    chief::StartInfo info;
    info.run_dir = simulator.plan().job.run_dir;
    info.cluster =
        str("simulated: ", flags.ps, " ps + ", flags.workers, " workers, seed ", flags.seed);
    info.train_bytes = simulator.plan().train_bytes();
    info.data = data::text_of(simulator.plan().train_files);
    info.train_files = uint32_t(simulator.plan().train_files.size());
    info.shards = simulator.plan().shards;
    info.sharding = data::sharding_text(simulator.plan().job.data, simulator.plan().train_files,
                                        simulator.plan().job.train.replicas);
    console.start(info);
  }
  const sim::Outcome outcome = simulator.run(flags.seed, options);
  if (!flags.trace.empty()) std::ofstream(flags.trace) << trace.json();
  if (!outcome.violation.empty()) {
    if (faults.empty())
      std::fprintf(stderr, "%s\n", outcome.violation.c_str());
    else
      explain_failure(simulator, flags, flags.seed, outcome, selection);
    return exit_code(ErrorCode::kBug);
  }
  if (options.console != nullptr && outcome.finish)
    console.finish(*outcome.finish, {.run_dir = simulator.plan().job.run_dir,
                                     .command = {"downpour train " + flags.job, ""},
                                     .linear = std::nullopt});
  print_summary(outcome, options.storage == nullptr);
  return 0;
}

Result<sim::SimulatorOptions> built_in_options(const SimFlags& flags) {
  return sim::options_of({.model = flags.model, .size = flags.size, .faults = flags.faults});
}

/// Returns the options for the user's job, whose values are not checked.
Result<sim::SimulatorOptions> job_options(const SimFlags& flags) {
  if (flags.job.empty()) {
    return Error{ErrorCode::kUsage, "a job file, --counter or --model is required", "",
                 "downpour sim --help", ""};
  }
  DP_TRY(const auto overrides, overrides_of(flags.common));
  DP_TRY(auto given, chief::load_given_job(flags.job, overrides));
  sim::SimulatorOptions options;
  options.job = std::move(given.loaded.job);
  options.ps = options.job.cluster.ps;
  options.workers = std::max(1U, options.job.cluster.workers);
  return options;
}

int simulate(const SimFlags& given) {
  SimFlags flags = given;
  const chief::ConsoleOptions console = console_options(flags.common);
  auto faults = sim::parse_faults(flags.faults);
  if (!faults) return report(faults.error(), console);
  const auto range = seed_range(flags);
  if (!range) return report(range.error(), console);
  const auto selection = selection_of(flags);
  if (!selection) return report(selection.error(), console);
  if (!flags.profile.empty()) {
    if (flags.profile != "all" && sim::find_profile(flags.profile) == nullptr) {
      std::string known;
      for (const sim::Profile& profile : sim::profiles()) known += str(profile.name, ", ");
      return report(Error{ErrorCode::kUsage, str("--profile: there is no `", flags.profile, "`"),
                          "", str(known, "or all"), ""},
                    console);
    }
    return run_profiles(flags, range->first, range->second, *selection);
  }
  auto options = flags.built_in() ? built_in_options(flags) : job_options(flags);
  if (!options) return report(options.error(), console);
  // Set the flags that the user did not give, so that the replay command contains all values.
  const auto settle = [](auto& flag, auto& option) {
    if (flag == 0) flag = option;
    option = flag;
  };
  settle(flags.ps, options->ps);
  settle(flags.workers, options->workers);
  settle(flags.ps_cores, options->ps_cores);
  if (flags.message_bytes > 0) options->message_bytes_max = flags.message_bytes;
  if (!flags.inputs) flags.inputs = options->job.cluster.input_workers;
  if (*flags.inputs == 0) sim::leave_out_inputs(*faults);
  options->inputs = *flags.inputs;
  options->faults = *faults;
  if (flags.batch_ms > 0) options->batch_ns = int64_t(flags.batch_ms * 1e6);
  if (flags.limit_s > 0) options->limit_ns = int64_t(flags.limit_s * 1e9);
  auto simulator = sim::Simulator::make(std::move(*options));
  if (!simulator) return report(simulator.error(), console);
  if (range->first != range->second)
    return run_many(*simulator, flags, *faults, range->first, range->second, *selection);
  flags.seed = range->first;
  return run_one(*simulator, flags, *faults, *selection);
}

/// Adds the flags that choose a built-in job. Options get the default group of the verb.
void add_built_in_flags(CLI::App& verb, SimFlags& flags) {
  verb.option_defaults()->group("Simulation");
  verb.add_flag(
      "--counter", flags.counter,
      "Run the built-in counter model, in which each weight must equal the number of epochs");
  verb.add_flag("--model", flags.model,
                "Run the built-in model job (Adam, two tables and dense variables), and check "
                "values and optimizer state");
  verb.option_defaults()->group("Built-in job");
  verb.add_option("--sharding", flags.size.sharding, "data.sharding of the built-in job")
      ->check(CLI::IsMember({"auto", "file", "data", "off"}));
  verb.add_option("--files", flags.size.files, "Number of data files of the built-in job")
      ->check(CLI::Range(1, 16));
  verb.add_flag("--mix", flags.size.mix, "Use the files as sources of equal weight");
  verb.add_flag("--program", flags.size.program, "Let a program write the data");
  verb.add_option("--cycle", flags.size.cycle, "Number of ranges that a shard joins")
      ->check(CLI::Range(1, 16));
  verb.add_option("--window", flags.size.window,
                  "Number of records of the shuffle window (0: the whole shard)");
  verb.add_option("--steps", flags.size.steps,
                  "Number of batches after which the job ends (0: no limit)");
  verb.add_option("--replicas", flags.size.replicas,
                  "Train synchronously with so many replicas (0: asynchronously)")
      ->check(CLI::Range(0, 256));
  verb.add_option("--backups", flags.size.backups,
                  "Number of replicas that a synchronous step may leave out")
      ->check(CLI::Range(0, 255));
  verb.add_option("--sync-every", flags.size.sync_every,
                  "Number of batches that a replica trains alone (0: synchronous steps)")
      ->check(CLI::Range(0, 1024));
  verb.add_flag("--whole-epochs", flags.size.whole_epochs,
                "Let each replica train its share of an epoch alone");
  verb.add_flag(
      "--touched", flags.size.touched,
      "With --sync-every or --whole-epochs: average a row over the replicas that have touched it");
  verb.add_flag("--mixed", flags.size.mixed,
                "Give the counter a bias, which is trained in steps, and apply its weights on "
                "arrival");
}

void add_cluster_flags(CLI::App& verb, SimFlags& flags) {
  verb.option_defaults()->group("Simulation");
  verb.add_option("--seed", flags.seed, "Seed of the simulation; the same seed gives the same run");
  verb.add_option(
          "--seeds", flags.seeds,
          "Run all seeds FIRST..LAST; the faults of a failing seed are minimized and reported")
      ->default_str("");
  verb.add_option("--faults", flags.faults,
                  "none, light, chaos, or a list: kill-ps=10m,drop=1%,power=1h,tiny-queues");
  verb.add_option("--profile", flags.profile,
                  "Run a built-in job with its faults: chaos, moves, damage, ..., or all")
      ->default_str("");
  verb.add_option("--ps", flags.ps,
                  "Number of parameter servers (0: the value in the job; counter: 4; model: 2)");
  verb.add_option("--workers", flags.workers,
                  "Number of workers (0: the value in the job; counter: 8; model: 6)");
  verb.add_option("--ps-cores", flags.ps_cores, "Cores of each ps (0: 1; model: 2)");
  verb.add_option("--message-bytes", flags.message_bytes,
                  "Maximum size in bytes of a worker's pull or push; larger ones are split (0: 1 "
                  "MiB; model: 96)");
  verb.add_option("--inputs", flags.inputs,
                  "Input processes (default: cluster.input_workers of the job; counter: 0)")
      ->default_str("");
  verb.add_option("--batch-ms", flags.batch_ms,
                  "Time in milliseconds to compute a batch (0: chosen by the seed)");
  verb.add_option("--limit", flags.limit_s,
                  "Maximum simulated time of the job in seconds (0: no limit)");
  verb.add_option("--trace", flags.trace, "Write a trace for Perfetto or chrome://tracing")
      ->default_str("");
}

void add_replay_flags(CLI::App& verb, SimFlags& flags) {
  verb.option_defaults()->group("Replay");
  verb.add_option("--without", flags.without, "Kinds of faults to omit")->default_str("");
  verb.add_option("--moments", flags.moments, "Inject only these of the seed's timed faults")
      ->default_str("");
  verb.add_flag("--no-shrink", flags.no_shrink, "Report a failure without minimizing its faults");
  verb.add_option("--failures", flags.failures, "Stop after this number of failing seeds");
}

void add_run_flags(CLI::App& verb, SimFlags& flags) {
  verb.option_defaults()->group("Job");
  verb.add_flag("--fresh", flags.fresh,
                "Start a new run: remove the contents of the run folder (only without faults)");
  verb.add_option("--set", flags.common.set, "Override a key of the job")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
}

}  // namespace

void declare_sim(CLI::App* verb, int& status) {
  auto* const flags = set_run(verb, status, simulate);
  verb->option_defaults()->always_capture_default();
  verb->add_option("job", flags->job, "A job (.toml) or a data file")->default_str("");
  add_built_in_flags(*verb, *flags);
  add_cluster_flags(*verb, *flags);
  add_replay_flags(*verb, *flags);
  add_run_flags(*verb, *flags);
  add_output_flags(*verb, flags->common);
  verb->footer(
      "Examples:\n  downpour sim job.toml --workers 8 --ps 4                         train in "
      "virtual time and save a model\n  downpour sim job.toml --workers 8 --ps 4 --faults "
      "kill-ps=10m    kill a ps every ten minutes\n  downpour sim job.toml --seed 7 --faults chaos "
      "--trace out.json   inject all common faults, write a trace\n  downpour sim --counter "
      "--seeds 1..1000 --faults chaos            check that no record is lost or counted twice\n  "
      "downpour sim --model --seeds 1..100 --faults chaos               check the optimizer "
      "state\n  downpour sim --profile all --seeds 1..1000                       run every fault "
      "profile, check all fences");
}

}  // namespace downpour::tools
