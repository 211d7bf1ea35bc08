// InputNode: the shell of an input process. It is a member of the job without leases, and reads
// shards for workers on threads of its own.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "shared/env/process.h"
#include "shared/transport/member_node.h"
#include "worker/core/input_shard_reads.h"
#include "worker/core/worker_core.h"
#include "worker/runtime/engines.h"

namespace downpour::worker {

struct InputOptions {
  std::string chief;           // endpoint of the chief
  std::string endpoint;        // where workers connect
  std::string advertise_host;  // host under which workers reach it; empty: as bound
  uint32_t index = UINT32_MAX;
  uint32_t threads = 1;
  bool local = false;       // started by `downpour train`: a signal stops the whole job
  bool allow_exec = false;  // the job may start programs here
  int64_t connect_timeout_ns = 10 * kSecond;
  Incarnation incarnation{};  // {}: a random one
  ProcessInfo process = this_process();
};

class InputNode final : public transport::MemberNode {
 public:
  /// Reads with `engines`; null: on threads of this process.
  InputNode(transport::Transport& transport, InputOptions options,
            std::unique_ptr<InputEngines> engines = nullptr);
  ~InputNode() override;

  Result<void> start(int64_t now_ns);
  bool owns(transport::PortId port) const override { return port == control_ || port == serving_; }
  void on_message(int64_t now_ns, transport::PortId port, transport::PeerId peer,
                  wire::Message&& message) override;
  bool pump(int64_t now_ns) override;
  int64_t next_deadline_ns() const override;

 private:
  void run(int64_t now_ns, WorkerEffects& fx);
  void run(InputEffects& fx);
  void keep_early(transport::PeerId peer, const wire::Message& message);
  void serve(int64_t now_ns, transport::PeerId peer, const wire::Message& message);
  void set_up(int64_t now_ns, WorkerEffects& fx);
  void tell_stats(int64_t now_ns);

  InputOptions options_;
  std::optional<WorkerCore> core_;              // its membership; set when the endpoint is known
  std::optional<InputShardReads> shard_reads_;  // set when the job is known
  std::unique_ptr<InputEngines> engines_;
  std::unique_ptr<InputReaders> readers_;
  // ReadShards that came before the job.
  std::vector<std::pair<transport::PeerId, wire::Message>> early_;
  Job job_;
  transport::PeerId chief_{};
  transport::PortId control_{}, serving_{};
  ProcessStats stats_;
  int64_t stats_at_ns_ = 0;
  int64_t tick_at_ns_ = 0;
};

}  // namespace downpour::worker
