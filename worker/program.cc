// downpour-worker: reads, computes and pushes. With --role input it reads for other workers. It
// needs only the chief's address and receives everything else from the chief.
#include "worker/program.h"

#include <cstdio>
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
  std::string bind = "tcp://127.0.0.1:*";
  std::string advertise_host;
  transport::KeyFlags keys;
  uint32_t cpu_parts = 1;
};

// The first signal is reported to the chief; the second ends the process at once.
template <typename Node>
Result<int> run_node(transport::Transport& transport, Node& node, const std::string& chief) {
  const PosixClock clock;
  DP_TRY_VOID(node.start(clock.now_ns()));
  const SignalWatcher signals([&](int signal) {
    node.leave(signal);
    transport.wake();
  });
  transport::Reactor reactor(transport, clock);
  reactor.add(node);
  reactor.run();
  transport.shutdown(node.exit_code() == 0 ? 2 * kSecond : 0);
  return report_end(node.exit_code(), node.exit_reason(), chief);
}

void tell_threads(const char* role, uint32_t threads, const char* kind) {
  std::fprintf(stderr, "%s: %u %s thread%s\n", role, threads, kind, threads == 1 ? "" : "s");
}

Result<int> run_worker(worker::WorkerOptions options) {
  auto transport = transport::make_zmq_transport({.keyring = options.keyring});
  options.say = [](const std::string& line) {
    std::fprintf(stderr, "worker: %s\n", printable(line).c_str());
  };
  worker::WorkerNode node(*transport, options);
  tell_threads("worker", options.threads, "compute");
  return run_node(*transport, node, options.chief);
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
  tell_threads("input", flags.worker.threads, "reading");
  return run_node(*transport, node, flags.worker.chief);
}

Result<int> run(Flags flags) {
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
  return flags.reads_for_others ? run_input(flags) : run_worker(flags.worker);
}

}  // namespace

int run_program(int argc, char** argv) {
  block_stop_signals();  // before any thread starts; the watcher receives pending signals
  Flags flags;
  worker::WorkerOptions& options = flags.worker;
  options.threads = 0;
  std::string role = "worker";
  int64_t connect_s = 10;
  const auto ended = parse_flags(
      {.purpose =
           "Runs a worker: leases data shards from the chief, computes gradients, and pushes "
           "them to the ps. Exits when the job ends.",
       .examples = "Examples:\n"
                   "  downpour-worker --chief 10.0.0.1:7000 --keys keys --threads 4\n"
                   "  downpour-worker --role input --chief 10.0.0.1:7000 --keys keys --bind "
                   "'tcp://0.0.0.0:*' --advertise 10.0.0.3"},
      {chief_flag(options.chief),
       {.name = "--role",
        .target = &role,
        .help = "worker: trains. input: reads, parses and batches records for workers, without "
                "training",
        .group = "Cluster",
        .allowed = {"worker", "input"}},
       {.name = "--index",
        .target = &options.index,
        .help = "Index of this process; default: assigned by the chief",
        .group = "Cluster",
        .default_shown = false},
       connect_timeout_flag(connect_s),
       cluster_flag("--bind", &flags.bind,
                    "input: address at which the process accepts workers; * chooses a free port"),
       cluster_flag(
           "--advertise", &flags.advertise_host,
           "input: host name or address that workers use for this process, needed if --bind "
           "is 0.0.0.0"),
       keys_flag(flags.keys.keys),
       insecure_flag(flags.keys.insecure),
       local_flag(options.local),
       cpu_parts_flag(flags.cpu_parts),
       resource_flag(
           "--threads", &options.threads,
           "Number of compute threads; input: of reading threads (0: all cores that affinity "
           "and cgroup allow)"),
       resource_flag("--readers", &options.reader_threads,
                     "Number of reading threads of a worker (0: the value in the job, or tuned at "
                     "runtime if the job has none)"),
       resource_flag("--allow-exec", &options.allow_exec,
                     "Allow this process to start the programs that the job uses to read data")},
      argc, argv);
  if (ended) return *ended;
  options.connect_timeout_ns = connect_s * kSecond;
  flags.reads_for_others = role == "input";
  const auto status = run(std::move(flags));
  return status ? *status : report_error(status.error());
}

}  // namespace downpour::worker
