// downpour-worker: reads, computes and pushes. Needs only the chief's address; everything else
// comes from there.
#include <cstdio>
#include <utility>

#include <CLI/CLI.hpp>

#include "shared/base/error_text.h"
#include "shared/base/version.h"
#include "shared/env/clock.h"
#include "shared/env/process.h"
#include "shared/env/signals.h"
#include "shared/transport/endpoint.h"
#include "shared/transport/reactor.h"
#include "worker/runtime/worker_node.h"

namespace {

using namespace downpour;  // NOLINT: main only

Result<int> run(worker::WorkerOptions options) {
  DP_TRY(options.chief, transport::normalize_endpoint(options.chief));
  if (options.threads == 0) options.threads = allowed_cpus();
  transport::tune_malloc_for_frames();
  prefer_throughput();
  block_stop_signals();  // before any thread
  const PosixClock clock;
  auto transport = transport::make_zmq_transport();
  options.say = [](const std::string& line) { std::fprintf(stderr, "worker: %s\n", line.c_str()); };
  worker::WorkerNode node(*transport, options);
  DP_TRY_VOID(node.start(clock.now_ns()));
  std::fprintf(stderr, "worker: %u compute thread%s\n", options.threads,
               options.threads == 1 ? "" : "s");
  // The first signal gives the shards back and ends; the second ends at once.
  const SignalWatcher signals([&] {
    node.leave();
    transport->wake();
  });
  transport::Reactor reactor(*transport, clock);
  reactor.add(node);
  reactor.run();
  transport->shutdown(node.exit_code() == 0 ? 2 * kSecond : 0);
  if (node.exit_code() != 0) std::fprintf(stderr, "error: %s\n", node.exit_reason().c_str());
  return node.exit_code();
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{
      "Takes data shards from the chief, computes gradients, and pushes them to the ps. Ends by "
      "itself when the job ends."};
  app.option_defaults()->always_capture_default();
  worker::WorkerOptions options;
  options.threads = 0;
  int64_t connect_s = 10;
  app.add_option("--chief", options.chief,
                 "The chief's address: HOST:PORT, or a transport endpoint")
      ->required()
      ->group("Cluster");
  app.add_option("--index", options.index, "Index of this worker; the chief gives one otherwise")
      ->default_str("")
      ->group("Cluster");
  app.add_option("--connect-timeout", connect_s, "Seconds to wait for the chief")->group("Cluster");
  app.add_option("--threads", options.threads,
                 "Compute threads (0: all cores that affinity and cgroup allow)")
      ->group("Resources");
  app.add_option("--readers", options.reader_threads,
                 "Reading threads (0: as the job says, else as many as compute threads)")
      ->group("Resources");
  app.add_flag("--allow-exec", options.allow_exec,
               "Start the programs that the job names as its data's source")
      ->group("Resources");
  app.set_version_flag("--version", kBuildVersion);
  app.footer("Example:\n  downpour-worker --chief 10.0.0.1:7000 --threads 4");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : exit_code(ErrorCode::kUsage);
  }
  options.connect_timeout_ns = connect_s * kSecond;
  const auto status = run(std::move(options));
  return status ? *status : report_error(status.error());
}
