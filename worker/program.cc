// downpour-worker: reads, computes and pushes. With --role input it reads for other workers. It
// needs only the chief's address and receives everything else from the chief.
#include "worker/program.h"

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <thread>
#include <unistd.h>
#include <utility>

#include "shared/base/error_text.h"
#include "shared/env/clock.h"
#include "shared/env/descriptors.h"
#include "shared/env/process.h"
#include "shared/env/signals.h"
#include "shared/flags/member_end.h"
#include "shared/flags/member_flags.h"
#include "shared/transport/endpoint.h"
#include "shared/transport/member_keys.h"
#include "shared/transport/reactor.h"
#include "worker/runtime/input_node.h"
#include "worker/runtime/worker_node.h"

namespace downpour::worker {
namespace {

struct Flags {
  worker::WorkerOptions worker;
  bool reads_for_others = false;  // --role input
  bool with_ps = false;
  uint32_t ps_threads = 1;
  int64_t connect_s = 10;
  std::string bind = "tcp://127.0.0.1:*";
  std::string advertise_host;
  transport::KeyFlags keys;
  uint32_t cpu_parts = 1;
};

/// Ends the process with `code` in 2 s, unless it has ended by then. Until then, other threads can
/// still send what the chief waits for.
void end_soon(int code) {
  std::thread([code] {
    std::this_thread::sleep_for(std::chrono::seconds(2));
    ::_exit(code);
  }).detach();
}

/// Runs a node that was started, and returns the exit status. The first signal is reported to the
/// chief; the second ends the process at once. `ps`: the ps of this process; null: none. If one of
/// them fails, the other ends, too.
template <typename Node>
int run_node(transport::Transport& transport, Node& node, FirstEnd& end, PsProcess* ps = nullptr) {
  const PosixClock clock;
  const SignalWatcher signals([&](int signal) {
    node.leave(signal);
    transport.wake();
    if (ps != nullptr) ps->leave(signal);
  });
  transport::Reactor reactor(transport, clock);
  reactor.add(node);
  reactor.run();
  transport.shutdown(node.exit_code() == 0 ? 2 * kSecond : 0);
  end.add(node.exit_code(), node.exit_reason());
  if (ps == nullptr) return end.code();
  if (node.exit_code() != 0) end_soon(node.exit_code());
  ps->join();
  return end.code();
}

void tell_threads(const char* role, uint32_t threads, const char* kind) {
  std::fprintf(stderr, "%s: %u %s thread%s\n", role, threads, kind, threads == 1 ? "" : "s");
}

/// Runs a worker, and a ps if `ps_options` is given.
Result<int> run_worker(worker::WorkerOptions options, std::optional<PsProcessOptions> ps_options,
                       StartPs start_ps) {
  auto transport = transport::make_zmq_transport({.keyring = options.keyring});
  options.say = [](const std::string& line) {
    std::fprintf(stderr, "worker: %s\n", printable(line).c_str());
  };
  if (ps_options) options.own_ps = ps_options->incarnation;
  worker::WorkerNode node(*transport, options);
  DP_TRY_VOID(node.start(PosixClock().now_ns()));
  FirstEnd end(options.chief);
  std::unique_ptr<PsProcess> ps;
  if (ps_options) {
    ps_options->on_failed = [&end](int code, const std::string& reason) {
      end.add(code, reason);
      end_soon(code);
    };
    DP_TRY(ps, start_ps(*ps_options));
  }
  tell_threads("worker", options.threads, "compute");
  return run_node(*transport, node, end, ps.get());
}

Result<int> run_input(const Flags& flags) {
  DP_TRY(const std::string endpoint,
         transport::normalize_bind_endpoint(
             flags.bind, flags.keys.insecure || flags.worker.keyring != nullptr));
  auto transport = transport::make_zmq_transport({.keyring = flags.worker.keyring});
  worker::InputNode node(*transport, {.chief = flags.worker.chief,
                                      .endpoint = endpoint,
                                      .advertise_host = flags.advertise_host,
                                      .index = flags.worker.index,
                                      .threads = flags.worker.threads,
                                      .local = flags.worker.local,
                                      .allow_exec = flags.worker.allow_exec,
                                      .connect_timeout_ns = flags.worker.connect_timeout_ns});
  DP_TRY_VOID(node.start(PosixClock().now_ns()));
  tell_threads("input", flags.worker.threads, "reading");
  FirstEnd end(flags.worker.chief);
  return run_node(*transport, node, end);
}

/// Returns the options of the ps of --with-ps. It joins the job as a ps with the worker's index.
PsProcessOptions own_ps(const Flags& flags) {
  return {.chief = flags.worker.chief,
          .bind = flags.bind,
          .advertise_host = flags.advertise_host,
          .index = flags.worker.index,
          .threads = flags.ps_threads,
          .connect_s = flags.connect_s,
          .keys = flags.keys.keys,
          .insecure = flags.keys.insecure,
          .local = flags.worker.local,
          .incarnation = Incarnation{random_id()},
          .in_worker = true};
}

Result<int> run(Flags flags, StartPs start_ps) {
  std::optional<PsProcessOptions> ps;
  if (!flags.with_ps && flags.ps_threads != 1) {
    return Error{ErrorCode::kUsage, "a worker without a ps has no ps threads", "--ps-threads",
                 "leave it out, or add --with-ps"};
  }
  if (flags.with_ps) {
    if (flags.reads_for_others) {
      return Error{ErrorCode::kUsage, "an input process has no ps", "--with-ps",
                   "leave it out, or set --role worker"};
    }
    if (std::filesystem::is_regular_file(flags.keys.keys)) {
      return Error{ErrorCode::kUsage,
                   "one key file has the key of one role, but --with-ps needs those of a worker "
                   "and of a ps",
                   str("--keys ", flags.keys.keys), "give the folder that has both keys",
                   "DP-1000"};
    }
    ps = own_ps(flags);
  }
  DP_TRY(flags.worker.chief, transport::normalize_endpoint(flags.worker.chief));
  const wire::Role role = flags.reads_for_others ? wire::Role::kInput : wire::Role::kWorker;
  DP_TRY(flags.worker.keyring,
         transport::member_keyring(flags.keys, role, flags.worker.index,
                                   flags.worker.connect_timeout_ns, flags.worker.chief));
  if (flags.worker.threads == 0) flags.worker.threads = allowed_cpus();
  transport::tune_malloc_for_frames();
  raise_descriptor_limit();
  prefer_throughput();
  keep_to_part(flags.worker.index, flags.cpu_parts);
  if (flags.reads_for_others) return run_input(flags);
  return run_worker(flags.worker, std::move(ps), start_ps);
}

}  // namespace

int run_program(int argc, char** argv, StartPs start_ps) {
  prepare_process();
  block_stop_signals();  // before any thread starts; the watcher receives pending signals
  Flags flags;
  worker::WorkerOptions& options = flags.worker;
  options.threads = 0;
  std::string role = "worker";
  const auto ended = parse_flags(
      {.purpose =
           "Runs a worker: leases data shards from the chief, computes gradients, and pushes "
           "them to the ps. Exits when the job ends.",
       .examples = "Examples:\n"
                   "  downpour-worker --chief 10.0.0.1:7000 --keys keys --threads 4\n"
                   "  downpour-worker --with-ps --chief 10.0.0.1:7000 --keys keys --bind "
                   "'tcp://0.0.0.0:*' --advertise 10.0.0.2\n"
                   "  downpour-worker --role input --chief 10.0.0.1:7000 --keys keys --bind "
                   "'tcp://0.0.0.0:*' --advertise 10.0.0.3"},
      {chief_flag(options.chief),
       {.name = "--role",
        .target = &role,
        .help = "worker: trains. input: reads, parses and batches records for workers, without "
                "training",
        .group = "Cluster",
        .allowed = {"worker", "input"}},
       cluster_flag("--with-ps", &flags.with_ps,
                    "Also run a ps in this process, as for a job with cluster.ps = "
                    "\"in_workers\". If the process dies, both are lost"),
       {.name = "--index",
        .target = &options.index,
        .help = "Index of this process; default: assigned by the chief",
        .group = "Cluster",
        .default_shown = false},
       connect_timeout_flag(flags.connect_s),
       cluster_flag("--bind", &flags.bind,
                    "input and --with-ps: address at which the process accepts workers; * chooses "
                    "a free port"),
       cluster_flag(
           "--advertise", &flags.advertise_host,
           "input and --with-ps: host name or address that workers use for this process, needed if "
           "--bind is 0.0.0.0"),
       keys_flag(flags.keys.keys),
       insecure_flag(flags.keys.insecure),
       local_flag(options.local),
       cpu_parts_flag(flags.cpu_parts),
       resource_flag(
           "--threads", &options.threads,
           "Number of compute threads; input: of reading threads (0: all cores that affinity "
           "and cgroup allow)"),
       {.name = "--ps-threads",
        .target = &flags.ps_threads,
        .help = "--with-ps: number of ps cores",
        .group = "Resources",
        .range = {{1, 256}}},
       resource_flag("--readers", &options.reader_threads,
                     "Number of reading threads of a worker (0: the value in the job, or tuned at "
                     "runtime if the job has none)"),
       resource_flag("--allow-exec", &options.allow_exec,
                     "Allow this process to start the programs that the job uses to read data")},
      argc, argv);
  if (ended) return *ended;
  options.connect_timeout_ns = flags.connect_s * kSecond;
  flags.reads_for_others = role == "input";
  const auto status = run(std::move(flags), start_ps);
  return status ? *status : report_error(status.error());
}

}  // namespace downpour::worker
