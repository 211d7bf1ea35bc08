#include "tools/client/client.h"

#include <atomic>
#include <csignal>
#include <utility>

#include "shared/env/clock.h"
#include "shared/env/descriptors.h"
#include "shared/env/process.h"
#include "shared/transport/endpoint.h"
#include "shared/transport/member_keys.h"
#include "shared/transport/reactor.h"

namespace downpour::tools {
namespace {

std::atomic<uint64_t> clients = 0;  // made by this process

}  // namespace

Client::Client() : number_(++clients) {}

Result<std::unique_ptr<Client>> Client::open(const ClientOptions& options) {
  worker::WorkerOptions worker{.index = options.index,
                               .allow_exec = options.allow_exec,
                               .connect_timeout_ns = options.connect_timeout_ns};
  DP_TRY(worker.chief, transport::normalize_endpoint(options.chief));
  DP_TRY(worker.keyring,
         transport::member_keyring({.keys = options.keys, .insecure = options.insecure},
                                   wire::Role::kWorker, options.index, options.connect_timeout_ns,
                                   worker.chief));
  raise_descriptor_limit();
  std::unique_ptr<Client> client(new Client);
  client->transport_ = transport::make_zmq_transport({.keyring = worker.keyring});
  client->node_ = std::make_unique<worker::WorkerNode>(*client->transport_, std::move(worker),
                                                       make_client_engines(client->queue_));
  client->thread_ = std::thread([raw = client.get()] { raw->run(); });
  return client;
}

Client::~Client() {
  if (!thread_.joinable()) return;
  node_->leave(SIGTERM);  // no effect if the job has ended
  transport_->wake();
  thread_.join();
}

void Client::run() {
  const PosixClock clock;
  if (auto started = node_->start(clock.now_ns()); !started) {
    return queue_.end({exit_code(started.error().code), started.error().what});
  }
  transport::Reactor reactor(*transport_, clock);
  reactor.add(*node_);
  reactor.run();
  queue_.end({node_->exit_code(), node_->exit_reason()});
  transport_->shutdown(node_->exit_code() == 0 ? 2 * kSecond : 0);
}

/// Returns how the worker has failed, if it has.
Result<void> Client::check_end() {
  const auto end = queue_.ended();
  if (!end || end->code == 0) return {};
  return Error{error_code_of(end->code), end->reason};
}

Result<const model::Graph*> Client::job(int64_t timeout_ns) {
  const model::Graph* const graph = queue_.wait_for_job(timeout_ns);
  if (graph == nullptr) DP_TRY_VOID(check_end());
  return graph;
}

Result<std::unique_ptr<ClientBatch>> Client::next(int64_t timeout_ns) {
  DP_TRY(const model::Graph* const graph, job(timeout_ns));
  if (graph == nullptr) return std::unique_ptr<ClientBatch>();
  if (auto compute = queue_.wait_for_batch(timeout_ns)) {
    auto batch = std::make_unique<ClientBatch>(*graph, std::move(*compute), number_);
    if (batch->records().records > 0) return batch;
    DP_TRY_VOID(push(*batch, {}));  // a filter left nothing
    return std::unique_ptr<ClientBatch>();
  }
  DP_TRY_VOID(check_end());
  return std::unique_ptr<ClientBatch>();
}

Result<void> Client::push(ClientBatch& batch, const BatchResults& results) {
  if (batch.client() != number_) {
    return Error{ErrorCode::kUsage, "the batch belongs to another client", "",
                 "push it with the client that returned it", ""};
  }
  DP_TRY(const model::Graph* const graph, job(0));
  DP_CHECK(graph != nullptr);
  Workspace workspace{nullptr, nullptr};
  {
    const std::lock_guard lock(mutex_);
    if (!idle_.empty()) {
      workspace = std::move(idle_.back());
      idle_.pop_back();
    }
  }
  if (workspace == nullptr) workspace = graph->make_workspace();
  auto computed = batch.finish(*graph, *workspace, results, node_->job().train.on_nan == "skip");
  {
    const std::lock_guard lock(mutex_);
    idle_.push_back(std::move(workspace));
  }
  if (!computed) return std::move(computed).error();
  queue_.give(std::move(*computed));
  return {};
}

}  // namespace downpour::tools
