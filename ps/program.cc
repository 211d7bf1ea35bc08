// downpour-ps: a process that holds partitions of the variables. It needs only the chief's address
// and receives everything else from the chief.
#include "ps/program.h"

#include <cstdio>
#include <memory>
#include <thread>
#include <vector>

#include "ps/runtime/ps_node.h"
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

namespace downpour::ps {
namespace {

// One core: a thread, a transport and an endpoint.
struct Core {
  std::unique_ptr<transport::Transport> transport;
  std::unique_ptr<ps::PsNode> node;
  std::thread thread;
};

struct Flags {
  std::string chief;
  std::string bind = "tcp://127.0.0.1:*";
  std::string advertise_host;
  uint32_t index = UINT32_MAX;
  uint32_t threads = 1;
  int64_t connect_s = 10;
  transport::KeyFlags keys;
  bool local = false;
  uint32_t cpu_parts = 1;
};

Result<int> run(const Flags& flags) {
  ps::PsOptions options;
  DP_TRY(options.chief, transport::normalize_endpoint(flags.chief));
  DP_TRY(const std::shared_ptr<transport::Keyring> keyring,
         transport::member_keyring(flags.keys, wire::Role::kPs, flags.index,
                                   flags.connect_s * kSecond, options.chief));
  DP_TRY(options.endpoint,
         transport::normalize_bind_endpoint(flags.bind, flags.keys.insecure || keyring != nullptr));
  options.advertise_host = flags.advertise_host;
  options.index = flags.index;
  options.cores = flags.threads;
  options.connect_timeout_ns = flags.connect_s * kSecond;
  options.local = flags.local;
  options.notice = [](const std::string& text) {
    std::fprintf(stderr, "note: %s\n", printable(text).c_str());
  };
  transport::tune_malloc_for_frames();
  raise_descriptor_limit();
  prefer_throughput();
  keep_to_part(flags.index, flags.cpu_parts);
  const PosixClock clock;
  PosixStorage storage;
  const std::string base = options.endpoint;
  options.incarnation = Incarnation{random_id()};
  std::vector<Core> cores(flags.threads);
  for (uint32_t t = 0; t < flags.threads; ++t) {
    options.thread = t;
    if (t > 0 && base.starts_with("ipc://")) options.endpoint = str(base, "-", t);
    cores[t].transport = transport::make_zmq_transport({.keyring = keyring});
    cores[t].node = std::make_unique<ps::PsNode>(*cores[t].transport, storage, options);
    DP_TRY_VOID(cores[t].node->start(clock.now_ns()));
  }
  // The first signal is reported to the chief; the second ends the process at once.
  const SignalWatcher signals([&cores](int signal) {
    for (const Core& core : cores) {
      core.node->leave(signal);
      core.transport->wake();
    }
  });
  for (Core& core : cores) {
    core.thread = std::thread([&core, &clock] {
      transport::Reactor reactor(*core.transport, clock);
      reactor.add(*core.node);
      reactor.run();
      core.transport->shutdown(core.node->exit_code() == 0 ? 2 * kSecond : 0);
    });
  }
  int code = 0;
  for (Core& core : cores) {
    core.thread.join();
    if (code != 0 || core.node->exit_code() == 0) continue;
    code = core.node->exit_code();
    report_end(code, core.node->exit_reason(), flags.chief);
  }
  return code;
}

}  // namespace

int run_program(int argc, char** argv) {
  block_stop_signals();  // before any thread starts; the watcher receives pending signals
  Flags flags;
  const auto ended = parse_flags(
      {.purpose = "Runs a parameter server: stores hash-partitioned variables, answers pulls and "
                  "applies pushes. Exits when the job ends.",
       .examples = "Example:\n  downpour-ps --chief 10.0.0.1:7000 --keys keys --bind "
                   "'tcp://0.0.0.0:*' --advertise 10.0.0.2"},
      {chief_flag(flags.chief),
       cluster_flag(
           "--bind", &flags.bind,
           "Address at which the ps accepts workers; * chooses a free port, and each thread "
           "has its own port"),
       cluster_flag(
           "--advertise", &flags.advertise_host,
           "Host name or address that workers use for this ps, needed if --bind is 0.0.0.0"),
       {.name = "--index",
        .target = &flags.index,
        .help = "Index of this ps; default: assigned by the chief",
        .group = "Cluster",
        .default_shown = false},
       connect_timeout_flag(flags.connect_s),
       keys_flag(flags.keys.keys),
       insecure_flag(flags.keys.insecure),
       local_flag(flags.local),
       cpu_parts_flag(flags.cpu_parts),
       {.name = "--threads",
        .target = &flags.threads,
        .help = "Number of ps cores: threads that each own some of the partitions",
        .group = "Resources",
        .range = {{1, 256}}}},
      argc, argv);
  if (ended) return *ended;
  const auto status = run(flags);
  return status ? *status : report_error(status.error());
}

}  // namespace downpour::ps
