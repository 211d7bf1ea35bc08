#include "tools/serve/serve.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <thread>
#include <unistd.h>
#include <vector>

#include "shared/base/str.h"
#include "shared/env/descriptors.h"
#include "shared/env/process.h"
#include "shared/env/signals.h"
#include "tools/serve/api.h"

namespace downpour::tools {
namespace {

constexpr uint32_t kThreadsMax = 64;

/// The loops of all threads, and what answers their requests.
struct Loops {
  std::vector<std::unique_ptr<Api>> apis;
  std::vector<std::unique_ptr<HttpLoop>> loops;

  uint64_t connections() const {
    uint64_t all = 0;
    for (const auto& loop : loops) all += loop->connections();
    return all;
  }
  void stop() {
    for (const auto& loop : loops) loop->stop();
  }
};

}  // namespace

Result<void> serve(Storage& storage, const ServeOptions& options) {
  raise_descriptor_limit();
  exit_on_stop_signals();  // while the model loads
  const uint32_t threads =
      std::clamp(options.threads > 0 ? options.threads : allowed_cpus(), 1U, kThreadsMax);
  ServeMetrics metrics;
  LiveModel::Options model_options{
      .run_dir = options.run_dir, .threads = threads, .poll_ns = int64_t(options.poll_s * 1e9)};
  model_options.on_reload = [&](bool good, const std::string& text) {
    metrics.count_reload(good);
    options.on_warning(text);
  };
  DP_TRY(const auto model, LiveModel::open(storage, std::move(model_options)));
  DP_TRY(const Listening listening, listen_on(options.host, options.port));
  const HttpLimits limits{.body_bytes_max = options.body_bytes_max,
                          .request_ns_max = int64_t(options.timeout_s * 1e9)};
  Loops all;
  std::vector<HttpLoop*> loops;
  for (uint32_t i = 0; i < threads; ++i) {
    all.apis.push_back(std::make_unique<Api>(
        *model, metrics,
        Api::Options{.name = std::filesystem::path(options.run_dir).filename().string(),
                     .thread = i,
                     .rows_max = options.rows_max,
                     .connections = [&] { return all.connections(); }}));
    all.loops.push_back(std::make_unique<HttpLoop>(*all.apis.back(), limits));
    loops.push_back(all.loops.back().get());
  }
  all.loops.front()->accept_for(listening.fd, loops);
  {
    const SignalWatcher watcher([&](int) { all.stop(); });
    if (!listening.loopback) {
      options.on_warning(
          str(listening.address,
              " is reachable from other machines, and serve authenticates no client. "
              "Put a proxy in front of it, or use --host 127.0.0.1"));
    }
    options.on_ready(listening.address, model->current()->checkpoint);
    std::vector<std::jthread> others;
    for (uint32_t i = 1; i < threads; ++i) others.emplace_back([&, i] { all.loops[i]->run(); });
    all.loops.front()->run();
  }
  ::close(listening.fd);
  return {};
}

}  // namespace downpour::tools
