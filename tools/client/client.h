// Client: a worker of a running job whose gradients the program computes that contains it.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "shared/base/result.h"
#include "shared/base/units.h"
#include "shared/job/job.h"
#include "shared/model/graph.h"
#include "shared/transport/transport.h"
#include "tools/client/client_batch.h"
#include "tools/client/client_engines.h"
#include "worker/runtime/worker_node.h"

namespace downpour::tools {

struct ClientOptions {
  std::string chief;  // HOST:PORT or an endpoint
  std::string keys;   // folder with the keys of the job, or a key file; empty: none
  bool insecure = false;
  bool allow_exec = false;      // the job may start programs in this process
  uint32_t index = UINT32_MAX;  // UINT32_MAX: the chief gives one
  int64_t connect_timeout_ns = 10 * kSecond;
};

/// Threads of the program may use it at the same time, except for the destructor, and each batch by
/// one of them at a time.
class Client final {
 public:
  /// Starts a worker on a thread of its own. Errors: kUsage, kPermission, as for downpour-worker.
  static Result<std::unique_ptr<Client>> open(const ClientOptions& options);
  /// Returns the leases of batches that are not acknowledged to the chief, and ends the worker.
  ~Client();

  /// Waits for the job. Returns null if the chief has not answered yet. Errors: those of the
  /// worker.
  Result<const model::Graph*> job(int64_t timeout_ns);
  /// The settings of the job, once job() has returned the model.
  const Job& job_settings() const { return node_->job(); }
  size_t outputs() const { return node_->job().model.outputs.size(); }
  /// Waits for the next batch whose values are pulled. Returns null if there is none yet, or none
  /// any more. Errors: those of the worker.
  Result<std::unique_ptr<ClientBatch>> next(int64_t timeout_ns);
  /// Hands the results of a batch of this client to the worker. Errors: kUsage.
  Result<void> push(ClientBatch& batch, const BatchResults& results);
  /// Returns whether the job has ended, or this client.
  bool finished() { return queue_.ended().has_value(); }

 private:
  using Workspace = std::unique_ptr<model::Workspace, void (*)(model::Workspace*)>;
  Client();
  void run();
  Result<void> check_end();

  const uint64_t number_;  // of the clients of this process
  BatchQueue queue_;
  std::unique_ptr<transport::Transport> transport_;
  std::unique_ptr<worker::WorkerNode> node_;
  std::thread thread_;
  std::mutex mutex_;
  std::vector<Workspace> idle_;  // workspaces that no thread uses
};

}  // namespace downpour::tools
