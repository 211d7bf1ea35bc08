// downpour-ps: a process that holds partitions of the variables. It needs only the chief's address
// and receives everything else from the chief.
#include "ps/program.h"

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "ps/runtime/ps_node.h"
#include "shared/base/error_text.h"
#include "shared/base/human.h"
#include "shared/env/clock.h"
#include "shared/env/descriptors.h"
#include "shared/env/process.h"
#include "shared/env/signals.h"
#include "shared/flags/member_end.h"
#include "shared/flags/member_flags.h"
#include "shared/transport/endpoint.h"
#include "shared/transport/member_keys.h"
#include "shared/transport/reactor.h"

namespace downpour::ps {
namespace {

// One core: a thread, a transport and an endpoint.
struct Core {
  std::unique_ptr<transport::Transport> transport;
  std::unique_ptr<ps::PsNode> node;
  std::thread thread;
};

/// Returns how much memory the gradients of synchronous steps took.
uint64_t step_bytes_of(const Core& core) {
  return core.node->core() == nullptr ? 0 : core.node->core()->stats().step_bytes_max;
}

class Cores final : public PsProcess {
 public:
  /// Binds the endpoint of the next core.
  Result<void> add(const PsOptions& options, const std::shared_ptr<transport::Keyring>& keyring) {
    Core& core = cores_.emplace_back();
    core.transport = transport::make_zmq_transport({.keyring = keyring});
    core.node = std::make_unique<ps::PsNode>(*core.transport, storage_, options);
    return core.node->start(clock_.now_ns());
  }

  void run(const std::function<void(int code, const std::string& reason)>& on_failed) {
    for (Core& core : cores_) {
      core.thread = std::thread([this, &core, on_failed] {
        transport::Reactor reactor(*core.transport, clock_);
        reactor.add(*core.node);
        reactor.run();
        const int code = core.node->exit_code();
        core.transport->shutdown(code == 0 ? 2 * kSecond : 0);
        if (code != 0) on_failed(code, core.node->exit_reason());
      });
    }
  }

  void leave(int signal) override {
    for (const Core& core : cores_) {
      core.node->leave(signal);
      core.transport->wake();
    }
  }

  void join() override {
    uint64_t step_bytes = 0;
    for (Core& core : cores_) {
      core.thread.join();
      step_bytes += step_bytes_of(core);
    }
    if (step_bytes == 0) return;
    std::fprintf(stderr, "ps: the gradients of synchronous steps took at most %s\n",
                 human_bytes(step_bytes).c_str());
  }

 private:
  const PosixClock clock_;
  PosixStorage storage_;
  std::vector<Core> cores_;  // does not change once run() was called
};

struct Flags {
  PsProcessOptions process;
  uint32_t cpu_parts = 1;
};

Result<int> run(Flags flags) {
  transport::tune_malloc_for_frames();
  raise_descriptor_limit();
  prefer_throughput();
  keep_to_part(flags.process.index, flags.cpu_parts);
  flags.process.incarnation = Incarnation{random_id()};
  FirstEnd end(flags.process.chief);
  flags.process.on_failed = [&end](int code, const std::string& reason) { end.add(code, reason); };
  DP_TRY(const auto ps, start_ps(flags.process));
  // The first signal is reported to the chief; the second ends the process at once.
  const SignalWatcher signals([&ps](int signal) { ps->leave(signal); });
  ps->join();
  return end.code();
}

/// Returns where a thread of a ps listens: at the next port or socket.
Result<std::string> endpoint_of_thread(const std::string& bind, uint32_t thread) {
  if (thread == 0 || bind.ends_with(":*")) return bind;
  if (bind.starts_with("ipc://")) return str(bind, "-", thread);
  const size_t port_at = bind.rfind(':') + 1;
  const uint64_t port = std::strtoul(bind.c_str() + port_at, nullptr, 10) + thread;
  if (port <= 65'535) return str(bind.substr(0, port_at), port);
  return Error{ErrorCode::kUsage, str("thread ", thread, " of the ps would listen at port ", port),
               bind, "choose a smaller port: each thread takes the next one"};
}

}  // namespace

Result<std::unique_ptr<PsProcess>> start_ps(const PsProcessOptions& given) {
  const transport::KeyFlags keys{.keys = given.keys, .insecure = given.insecure};
  PsOptions options{.advertise_host = given.advertise_host,
                    .index = given.index,
                    .cores = given.threads,
                    .incarnation = given.incarnation,
                    .connect_timeout_ns = given.connect_s * kSecond,
                    .notice =
                        [](const std::string& text) {
                          std::fprintf(stderr, "note: %s\n", printable(text).c_str());
                        },
                    .in_worker = given.in_worker,
                    .local = given.local};
  DP_TRY(options.chief, transport::normalize_endpoint(given.chief));
  DP_TRY(const std::shared_ptr<transport::Keyring> keyring,
         transport::member_keyring(keys, wire::Role::kPs, given.index, options.connect_timeout_ns,
                                   options.chief));
  DP_TRY(const std::string bind,
         transport::normalize_bind_endpoint(given.bind, given.insecure || keyring != nullptr));
  auto cores = std::make_unique<Cores>();
  for (uint32_t t = 0; t < given.threads; ++t) {
    options.thread = t;
    DP_TRY(options.endpoint, endpoint_of_thread(bind, t));
    DP_TRY_VOID(cores->add(options, keyring));
  }
  cores->run(given.on_failed);
  return std::unique_ptr<PsProcess>(std::move(cores));
}

int run_program(int argc, char** argv) {
  prepare_process();
  block_stop_signals();  // before any thread starts; the watcher receives pending signals
  Flags flags;
  PsProcessOptions& options = flags.process;
  const auto ended = parse_flags(
      {.purpose = "Runs a parameter server: stores hash-partitioned variables, answers pulls and "
                  "applies pushes. Exits when the job ends.",
       .examples = "Example:\n  downpour-ps --chief 10.0.0.1:7000 --keys keys --bind "
                   "'tcp://0.0.0.0:*' --advertise 10.0.0.2"},
      {chief_flag(options.chief),
       cluster_flag(
           "--bind", &options.bind,
           "Address at which the ps accepts workers; each thread takes the next port, and * "
           "chooses free ports"),
       cluster_flag(
           "--advertise", &options.advertise_host,
           "Host name or address that workers use for this ps, needed if --bind is 0.0.0.0"),
       {.name = "--index",
        .target = &options.index,
        .help = "Index of this ps; default: assigned by the chief",
        .group = "Cluster",
        .default_shown = false},
       connect_timeout_flag(options.connect_s),
       keys_flag(options.keys),
       insecure_flag(options.insecure),
       local_flag(options.local),
       cpu_parts_flag(flags.cpu_parts),
       {.name = "--threads",
        .target = &options.threads,
        .help = "Number of ps cores: threads that each own some of the partitions",
        .group = "Resources",
        .range = {{1, 256}}}},
      argc, argv);
  if (ended) return *ended;
  const auto status = run(std::move(flags));
  return status ? *status : report_error(status.error());
}

}  // namespace downpour::ps
