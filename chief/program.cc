// downpour-chief: runs the chief of a job whose ps and workers are started by hand. It leases data
// shards, publishes views, and ends the job.
#include "chief/program.h"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <unistd.h>

#include "chief/runtime/chief_node.h"
#include "chief/runtime/classes.h"
#include "chief/runtime/history_file.h"
#include "chief/runtime/job_setup.h"
#include "chief/runtime/learn.h"
#include "chief/runtime/run_lock.h"
#include "chief/runtime/run_setup.h"
#include "chief/runtime/slices.h"
#include "shared/base/error_text.h"
#include "shared/data/reading/dataset.h"
#include "shared/env/clock.h"
#include "shared/env/descriptors.h"
#include "shared/env/process.h"
#include "shared/env/queued_stream.h"
#include "shared/env/signals.h"
#include "shared/flags/member_flags.h"
#include "shared/transport/endpoint.h"
#include "shared/transport/member_keys.h"

namespace downpour::chief {
namespace {

struct Flags {
  std::string job;
  std::string bind = "tcp://127.0.0.1:7000";
  std::vector<std::string> set, set_default;
  bool fresh = false;
  bool takeover = false;
  transport::KeyFlags keys;
  bool json = false;
};

Result<int> run(const Flags& flags) {
  raise_descriptor_limit();
  std::vector<Override> overrides = chief::environment_overrides();
  for (const std::string& text : flags.set) {
    DP_TRY(Override override, chief::parse_set(text));
    overrides.push_back(std::move(override));
  }
  for (const std::string& text : flags.set_default) {
    DP_TRY(Override override, chief::parse_set(text));
    override.origin = "--set-default";
    override.if_absent = true;
    overrides.push_back(std::move(override));
  }
  // Without --insecure a TCP port always uses keys.
  DP_TRY(const std::string endpoint, transport::normalize_bind_endpoint(flags.bind, true));
  if (endpoint.ends_with(":*")) {
    return Error{ErrorCode::kUsage, "the chief needs a port that its ps and workers know",
                 str("--bind ", flags.bind), "name a port, for example 127.0.0.1:7000"};
  }
  DP_TRY(auto given, chief::load_given_job(flags.job, overrides,
                                           {.begins = true,
                                            .fresh = flags.fresh,
                                            .takeover = flags.takeover,
                                            .progress = chief::print_spooling}));
  const Job& job = given.loaded.job;
  DP_TRY(auto plan, chief::plan_run(job, wire::Purpose::kTrain));
  DP_TRY(std::string unknown, chief::check_labels(job));
  DP_TRY_VOID(chief::learn_statistics(plan, flags.fresh));
  DP_TRY_VOID(chief::check_evaluation(plan));
  DP_TRY_VOID(chief::choose_slices(plan, wire::Purpose::kTrain));
  PosixStorage storage;
  const uint32_t cores = job.cluster.ps * std::max(1U, job.cluster.ps_threads);
  if (!given.lock.held()) {
    DP_TRY(given.lock, chief::lock_run(storage, job.run_dir, flags.takeover));
  }
  std::vector<std::string> notes = given.notes;
  if (!unknown.empty()) notes.push_back(std::move(unknown));
  for (const Override& override : overrides) {
    const auto origin = given.loaded.origins.find(override.key);
    if (override.if_absent && origin != given.loaded.origins.end() &&
        origin->second.from == override.origin)
      notes.push_back(str(override.key, " is ", override.value, ": the job does not set it"));
  }
  DP_TRY(auto config, chief::open_run(storage, plan,
                                      {.fresh = flags.fresh,
                                       .ps_cores = cores,
                                       .workers = std::max(1U, job.cluster.workers)},
                                      &notes));
  DP_TRY(std::string warning, chief::restore_history(storage, job.run_dir, config));
  if (!warning.empty()) notes.push_back(std::move(warning));

  DP_TRY(const std::shared_ptr<transport::Keyring> keyring,
         transport::chief_keyring(flags.keys, endpoint, job.run_dir));

  config.late_wait_ns = 10 * kSecond;  // as long as a ps or worker tries to reach the chief
  block_stop_signals();
  const PosixClock clock;
  QueuedStream messages(STDERR_FILENO);
  chief::Console console({.format = flags.json ? chief::LogFormat::kJson : chief::LogFormat::kText,
                          .err = messages.file(),
                          .messages = &messages},
                         plan.job);
  chief::StartInfo info{
      .run_dir = job.run_dir,
      .train_files = uint32_t(plan.train_files.size()),
      .shards = plan.shards,
      .insecure = flags.keys.insecure,
      .sharding = data::sharding_text(job.data, plan.train_files, job.train.replicas)};
  info.train_bytes = plan.train_bytes();
  info.data = data::text_of(plan.train_files);
  const uint32_t workers = std::max(1U, job.cluster.workers);
  const std::string members = job.cluster.ps_in_workers
                                  ? str(workers, " workers, each with a ps")
                                  : str(job.cluster.ps, " ps and ", workers, " workers");
  info.cluster = str("listens at ", endpoint, " and waits for ", members,
                     keyring == nullptr ? "" : str(", with --keys ", keyring->folder()));
  if (flags.keys.insecure) notes.emplace_back(transport::kInsecureNote);
  for (const std::string& note : notes)
    console.show(chief::Notice{chief::NoticeLevel::kWarning, note});
  console.start(info);
  auto transport = transport::make_zmq_transport({.keyring = keyring});
  const SignalWatcher signals([&](int) { transport->wake(); });
  chief::ChiefNode node(*transport, storage, std::move(config), plan.tables,
                        {.endpoint = endpoint,
                         .run_dir = job.run_dir,
                         .events_path = job.run_dir + "/events.jsonl",
                         .keeps_history = true,
                         .stop_signal = &signals.signal()},
                        &console);
  DP_TRY_VOID(node.start(clock.now_ns()));
  transport::Reactor reactor(*transport, clock);
  reactor.add(node);
  reactor.run();
  console.finish(node.finish(), {job.run_dir, {"downpour train " + flags.job, ""}, std::nullopt});
  transport->shutdown(2 * kSecond);
  if (node.finish().error) {
    report_error(located(*node.finish().error, given.loaded.origins));
  }
  return node.finish().code;
}

}  // namespace

int run_program(int argc, char** argv) {
  prepare_process();
  exit_on_stop_signals();
  Flags flags;
  const auto ended = parse_flags(
      {.purpose =
           "Runs the chief of a job. Start its ps and workers by hand, on any machines, with "
           "--chief HOST:PORT.",
       .examples = "Example:\n  downpour-chief job.toml --bind 0.0.0.0:7000 --set cluster.ps=2 "
                   "--set cluster.workers=4"},
      {{.name = "job", .target = &flags.job, .help = "Job file (.toml)", .required = true},
       cluster_flag("--bind", &flags.bind, "Address at which the chief accepts ps and workers"),
       cluster_flag("--keys", &flags.keys.keys,
                    "Folder with the keys of the job, created by `downpour keys`; default: "
                    "RUN_DIR/keys, created if it does not exist"),
       insecure_flag(flags.keys.insecure),
       {"--set", &flags.set, "Override a key of the job, e.g. cluster.workers=4"},
       {"--set-default", &flags.set_default, "Set a key that the job does not set"},
       {"--fresh", &flags.fresh, "Start a new run: remove the contents of the run folder"},
       {"--takeover", &flags.takeover,
        "Take over the run from a chief that hangs and can't be stopped"},
       {.name = "--json",
        .target = &flags.json,
        .help = "Write progress (stderr) and the summary (stdout) as JSON",
        .group = "Output"}},
      argc, argv);
  if (ended) return *ended;
  const auto status = run(flags);
  return checked_output(status ? *status : report_error(status.error()));
}

}  // namespace downpour::chief
