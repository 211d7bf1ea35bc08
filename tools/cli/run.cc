#include "tools/cli/run.h"

#include <algorithm>
#include <memory>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "chief/core/run/selection.h"
#include "chief/runtime/chief_node.h"
#include "chief/runtime/classes.h"
#include "chief/runtime/history_file.h"
#include "chief/runtime/learn.h"
#include "chief/runtime/report_text.h"
#include "chief/runtime/run_lock.h"
#include "chief/runtime/run_setup.h"
#include "chief/runtime/slices.h"
#include "chief/runtime/warm_start.h"
#include "ps/runtime/ps_node.h"
#include "shared/base/error_text.h"
#include "shared/env/clock.h"
#include "shared/env/descriptors.h"
#include "shared/env/process.h"
#include "shared/env/queued_stream.h"
#include "shared/env/signals.h"
#include "shared/job/workers.h"
#include "shared/transport/member_keys.h"
#include "shared/transport/reactor.h"
#include "tools/cli/dry_run.h"
#include "tools/cli/local_cluster.h"
#include "tools/cli/socket_dir.h"
#include "worker/runtime/worker_node.h"

namespace downpour::tools {
namespace {

constexpr int64_t kLingerNs = 2 * kSecond;

/// A ps core or a worker with its own thread and transport.
template <typename Node>
class NodeThread {
 public:
  /// Takes the arguments of the node's constructor that follow its transport.
  template <typename... Args>
  explicit NodeThread(const Clock& clock, Args&&... args)
      : transport_(transport::make_zmq_transport()),
        node_(*transport_, std::forward<Args>(args)...),
        clock_(clock) {}
  Result<void> start() {
    DP_TRY_VOID(node_.start(clock_.now_ns()));
    thread_ = std::thread([this] {
      transport::Reactor reactor(*transport_, clock_);
      reactor.add(node_);
      reactor.run();
      transport_->shutdown(kLingerNs);
    });
    return {};
  }
  ~NodeThread() {
    if (thread_.joinable()) thread_.join();
  }

 private:
  std::unique_ptr<transport::Transport> transport_;
  Node node_;
  const Clock& clock_;
  std::thread thread_;
};

struct Layout {
  bool one_process = true;
  uint32_t workers = 1;  // processes, or threads of one process; 0: programs of the user
  uint32_t ps_cores = 1;
  uint32_t cores_allowed = 1;
  uint32_t worker_threads = 1;  // per worker or input process
};

Layout choose_layout(const Job& job) {
  Layout layout;
  layout.cores_allowed = job.cluster.threads > 0 ? job.cluster.threads : allowed_cpus();
  // Programs of the user compute a model of variables.
  layout.workers = job.model.is_custom() ? 0 : workers_of(job, layout.cores_allowed);
  const bool threads = job.cluster.workers == 0 || layout.workers == 1;
  layout.one_process =
      job.cluster.ps == 1 && layout.workers > 0 && threads && job.cluster.input_workers == 0;
  layout.ps_cores = job.cluster.ps * std::max(1U, job.cluster.ps_threads);
  // Local ps processes need cores, too. Workers and input processes share the remaining cores.
  const uint32_t left = layout.one_process ? layout.cores_allowed
                        : layout.cores_allowed > layout.ps_cores
                            ? layout.cores_allowed - layout.ps_cores
                            : 1;
  layout.worker_threads =
      std::max(1U, left / std::max(1U, layout.workers + job.cluster.input_workers));
  return layout;
}

std::string count(uint64_t n, const char* noun) { return str(n, " ", noun, n == 1 ? "" : "s"); }

std::string describe(const Layout& layout, const Job& job) {
  const uint32_t workers = layout.workers;
  const uint32_t compute = layout.worker_threads * workers;
  const std::string threads = str(count(compute, "compute thread"), " in total (",
                                  count(layout.cores_allowed, "core"), " allowed)");
  if (layout.one_process && workers == 1) return str("one process, ", threads);
  if (layout.one_process) return str("one process with ", workers, " workers, ", threads);
  const uint32_t inputs = job.cluster.input_workers;
  const std::string reading =
      inputs == 0 ? "" : str(" + ", inputs, " input process", inputs == 1 ? "" : "es");
  if (workers == 0) {
    return str(job.cluster.ps, " ps", reading, " over ", job.cluster.transport,
               "; programs compute the gradients (downpour.Client)");
  }
  if (job.cluster.ps_in_workers) {
    return str(count(workers, "worker"), ", each with a ps,", reading, " over ",
               job.cluster.transport, ", ", threads);
  }
  return str(job.cluster.ps, " ps + ", count(workers, "worker"), reading, " over ",
             job.cluster.transport, ", ", threads);
}

chief::StartInfo start_info(const chief::RunPlan& plan, const chief::ChiefConfig& config,
                            const Layout& layout) {
  chief::StartInfo info;
  info.run_dir = plan.job.run_dir;
  info.cluster = describe(layout, plan.job);
  info.train_bytes = plan.train_bytes();
  info.data = data::text_of(plan.train_files);
  info.train_files = uint32_t(plan.train_files.size());
  info.shards = plan.shards;
  info.sharding = data::sharding_text(plan.job.data, plan.train_files, plan.job.train.replicas);
  for (const std::string& path : plan.job.eval.source.paths)
    info.evaluation += (info.evaluation.empty() ? "" : ", ") + path;
  if (plan.job.eval.source.is_program()) info.evaluation = data::text_of(plan.eval_files);
  info.predicts = config.mode == wire::Purpose::kPredict;
  if (info.evaluation.empty() && plan.job.eval.holdout > 0)
    info.evaluation = str(plan.job.eval.holdout * 100, " % held out");
  if (config.resume && config.mode == wire::Purpose::kTrain) {
    info.resumed =
        config.resume->checkpoint == chief::kWarmStartCheckpoint
            ? str("starts with the variables of ", plan.job.train.warm_start.source())
            : str("continues from checkpoint ", config.resume->checkpoint, ", after epoch ",
                  config.resume->sealed_epochs,
                  plan.job.train.epochs == kEpochsMax ? "" : str(" of ", plan.job.train.epochs));
  }
  if (config.resume && config.mode != wire::Purpose::kTrain &&
      config.resume->best.checkpoint != ViewId{}) {
    const bool best = config.resume->best.checkpoint == config.resume->checkpoint;
    info.model = str("checkpoint ", config.resume->checkpoint, ", after epoch ",
                     config.resume->sealed_epochs, ": ",
                     best ? str(chief::best_text(config.job), " of the run") : "the newest one");
  }
  return info;
}

/// Trains a linear model for comparison after a training, for a fifth of its time.
std::optional<chief::LinearBaseline> compare(const RunRequest& request, const Job& job,
                                             const chief::Finish& finish, chief::Console& console,
                                             const std::function<bool()>& stop) {
  constexpr int64_t kLeast = 5 * kSecond, kNoticed = 6 * kSecond;
  const chief::JobSummary& s = finish.summary;
  if (!request.baseline || finish.code != 0 || s.already_finished || s.evaluations.empty())
    return std::nullopt;
  const int64_t limit_ns = std::max(kLeast, s.train_ns / 5);
  if (limit_ns >= kNoticed) {
    console.show(chief::Notice{chief::NoticeLevel::kInfo,
                               str("trains a linear model for comparison, for at most ",
                                   chief::human_time(chief::seconds_of(limit_ns)))});
  }
  return request.baseline(job, limit_ns, stop);
}

}  // namespace

int report(const Error& error, const chief::ConsoleOptions& console) {
  if (console.format == chief::LogFormat::kJson) {
    const nlohmann::ordered_json line = {{"event", "error"},
                                         {"id", error_id(error)},
                                         {"what", error.what},
                                         {"where", error.where},
                                         {"hint", error.hint}};
    std::fprintf(
        console.err, "%s\n",
        line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace).c_str());
  } else {
    std::fputs(format_error(error, console.color).c_str(), console.err);
  }
  std::fflush(console.err);
  return exit_code(error.code);
}

/// Returns the error of a member of this process that has ended on its own.
Result<void> check_member(const char* role, const transport::MemberNode* member) {
  if (member == nullptr || !member->finished() || member->exit_code() == 0) return {};
  return Error{error_code_of(member->exit_code()),
               str("the ", role, " of this process has ended: ", member->exit_reason())};
}

int run_job(RunRequest request) {
  exit_on_stop_signals();
  const auto fail = [&](const Error& error) {
    return report(located(error, request.origins), request.console);
  };
  const Job& job = request.job;
  const Layout layout = choose_layout(job);
  auto plan = chief::plan_run(job, request.mode);
  if (!plan) return fail(plan.error());
  if (request.dry_run) {
    print_dry_run(*plan, request.origins, describe(layout, job), request.console.out);
    for (const std::string& note : request.notes)
      if (!request.console.quiet) std::fprintf(request.console.err, "warning: %s\n", note.c_str());
    return 0;
  }
  if (request.mode != wire::Purpose::kPredict) {
    auto checked = chief::check_labels(job);
    if (!checked) return fail(checked.error());
    if (!checked->empty()) request.notes.push_back(std::move(*checked));
  }
  if (request.mode == wire::Purpose::kTrain) {
    if (auto learned = chief::learn_statistics(*plan, request.fresh); !learned)
      return fail(learned.error());
    if (auto checked = chief::check_evaluation(*plan); !checked) return fail(checked.error());
  }
  if (request.mode != wire::Purpose::kPredict) {
    if (auto chosen = chief::choose_slices(*plan, request.mode); !chosen)
      return fail(chosen.error());
  }
  PosixStorage storage;
  const PosixClock clock;
  if (request.mode == wire::Purpose::kTrain && !request.lock.held()) {
    auto locked = chief::lock_run(storage, job.run_dir, request.takeover);
    if (!locked) return fail(locked.error());
    request.lock = std::move(*locked);
  }
  std::vector<std::string> notices = std::move(request.notes);
  auto config = chief::open_run(storage, *plan,
                                {.mode = request.mode,
                                 .fresh = request.fresh,
                                 .ps_cores = layout.ps_cores,
                                 .workers = layout.workers},
                                &notices);
  if (!config) return fail(config.error());
  // A client that leaves must not stop the job.
  config->local = !layout.one_process && !job.model.is_custom();
  if (layout.one_process) config->lease_retry_ns = chief::kLocalLeaseRetryNs;
  if (request.mode == wire::Purpose::kTrain) {
    auto warning = chief::restore_history(storage, job.run_dir, *config);
    if (!warning) return fail(warning.error());
    if (!warning->empty()) notices.push_back(std::move(*warning));
  }

  // Each object is constructed after the objects that it uses, and destroyed before them.
  block_stop_signals();
  transport::tune_malloc_for_frames();
  raise_descriptor_limit();
  prefer_throughput();
  // A terminal that is stopped must not stop the chief.
  QueuedStream messages(STDERR_FILENO);
  chief::ConsoleOptions shown = request.console;
  shown.err = messages.file();
  shown.messages = &messages;
  chief::Console console(shown, plan->job);
  for (const std::string& notice : notices)
    console.show(chief::Notice{chief::NoticeLevel::kWarning, notice});
  notices.clear();
  console.start(start_info(*plan, *config, layout));
  SocketDir sockets;
  const bool over_ipc = !layout.one_process && job.cluster.transport != "tcp";
  // Evaluation and prediction must not change the run folder, so their keys are in this folder,
  // too.
  const bool trains = request.mode == wire::Purpose::kTrain;
  if (over_ipc || (!layout.one_process && !trains)) {
    auto made = SocketDir::create(socket_dir_parents());
    if (!made) return fail(made.error());
    sockets = std::move(*made);
  }
  const std::string name = str(hex(config->run), "-", getpid());
  const std::string endpoint = layout.one_process ? "inproc://chief-" + name
                               : over_ipc         ? "ipc://" + sockets.path() + "/chief"
                                                  : "tcp://127.0.0.1:*";
  auto keyring = transport::chief_keyring({}, endpoint, trains ? job.run_dir : sockets.path());
  if (!keyring) return fail(keyring.error());
  auto transport = transport::make_zmq_transport({.keyring = *keyring});
  const SignalWatcher signals([&](int) { transport->wake(); });
  LocalCluster cluster;

  chief::ChiefOptions options;
  options.run_dir = job.run_dir;
  if (trains) options.events_path = job.run_dir + "/events.jsonl";
  options.keeps_history = trains;
  options.stop_signal = &signals.signal();
  options.on_prediction = request.on_prediction;
  options.endpoint = endpoint;
  const chief::ChiefCore* core = nullptr;  // set when the chief is constructed
  std::unique_ptr<ps::PsNode> first_ps;
  std::unique_ptr<worker::WorkerNode> worker;
  std::vector<chief::EndedProcess> ended;
  if (!layout.one_process) {
    options.watch = [&]() -> Result<void> {
      if (core->phase() >= chief::Phase::kStopping) cluster.expect_end();
      auto watched = cluster.watch(clock.now_ns(), core->progress(), notices, ended);
      for (const std::string& notice : notices)
        console.show(chief::Notice{chief::NoticeLevel::kWarning, notice});
      notices.clear();
      return watched;
    };
    options.ended_processes = [&] { return std::exchange(ended, {}); };
  } else {
    options.watch = [&]() -> Result<void> {
      if (core->phase() >= chief::Phase::kStopping) return {};
      DP_TRY_VOID(check_member("ps", first_ps.get()));
      return check_member("worker", worker.get());
    };
  }
  chief::ChiefNode chief(*transport, storage, std::move(*config), plan->tables, std::move(options),
                         &console);
  core = &chief.core();
  if (auto started = chief.start(clock.now_ns()); !started) return fail(started.error());

  transport::Reactor reactor(*transport, clock);
  reactor.add(chief);
  std::vector<std::unique_ptr<NodeThread<ps::PsNode>>> ps_threads;
  std::vector<std::unique_ptr<NodeThread<worker::WorkerNode>>> worker_threads;
  if (chief.finished()) {
    // There is nothing to do. The summary reports it.
  } else if (layout.one_process) {
    const Incarnation incarnation{random_id()};
    const auto ps_options = [&](uint32_t thread) {
      return ps::PsOptions{.chief = chief.endpoint(),
                           .endpoint = str("inproc://ps-", name, "-", thread),
                           .index = 0,
                           .thread = thread,
                           .cores = layout.ps_cores,
                           .incarnation = incarnation};
    };
    first_ps = std::make_unique<ps::PsNode>(*transport, storage, ps_options(0));
    if (auto started = first_ps->start(clock.now_ns()); !started) return fail(started.error());
    reactor.add(*first_ps);
    for (uint32_t t = 1; t < layout.ps_cores; ++t) {
      ps_threads.push_back(std::make_unique<NodeThread<ps::PsNode>>(clock, storage, ps_options(t)));
      if (auto started = ps_threads.back()->start(); !started) return fail(started.error());
    }
    const auto worker_options = [&](uint32_t index) {
      return worker::WorkerOptions{
          .chief = chief.endpoint(),
          .index = index,
          .threads = layout.worker_threads,
          .allow_exec = true};  // the user who runs this process chose the job
    };
    for (uint32_t w = 1; w < layout.workers; ++w) {
      worker_threads.push_back(
          std::make_unique<NodeThread<worker::WorkerNode>>(clock, worker_options(w)));
      if (auto started = worker_threads.back()->start(); !started) return fail(started.error());
    }
    worker = std::make_unique<worker::WorkerNode>(*transport, worker_options(0));
    if (auto started = worker->start(clock.now_ns()); !started) return fail(started.error());
    reactor.add(*worker);
  } else {
    // Remove the chief's key from the endpoint, because the key folder contains it, too.
    auto started = cluster.start({.chief = transport::split_key(chief.endpoint())->endpoint,
                                  .transport = job.cluster.transport,
                                  .keys = *keyring == nullptr ? "" : (*keyring)->folder(),
                                  .socket_dir = sockets.path(),
                                  .run_dir = job.run_dir,
                                  .ps = job.cluster.ps,
                                  .ps_threads = std::max(1U, job.cluster.ps_threads),
                                  .ps_in_workers = job.cluster.ps_in_workers,
                                  .workers = layout.workers,
                                  .worker_threads = layout.worker_threads,
                                  .inputs = job.cluster.input_workers,
                                  .input_threads = layout.worker_threads,
                                  .allow_exec = true,
                                  .restarts = job.cluster.restarts});
    if (!started) return fail(started.error());
    if (job.model.is_custom()) {
      console.accepts_clients(transport::split_key(chief.endpoint())->endpoint,
                              *keyring == nullptr ? "" : (*keyring)->folder());
    }
  }
  reactor.run();
  cluster.expect_end();
  chief::Finish finish = chief.finish();
  finish.summary.restarts = cluster.restarts();
  const auto linear =
      compare(request, plan->job, finish, console, [&] { return signals.signal() != 0; });
  console.finish(finish, {job.run_dir, request.command, linear});
  if (finish.error) report(located(*finish.error, request.origins), request.console);
  const int code = finish.code;
  transport->shutdown(kLingerNs);
  cluster.end();
  return code;
}

}  // namespace downpour::tools
