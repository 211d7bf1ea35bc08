// WorkerNode: the shell of a WorkerCore, which does no input or output. It moves messages, and runs
// readers and kernels on threads of its own.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "shared/env/process.h"
#include "shared/model/graph.h"
#include "shared/transport/member_node.h"
#include "worker/core/reader_tuner.h"
#include "worker/core/worker_core.h"
#include "worker/runtime/connections.h"
#include "worker/runtime/engines.h"

namespace downpour::worker {

struct WorkerOptions {
  std::string chief;            // endpoint of the chief
  uint32_t index = UINT32_MAX;  // UINT32_MAX: the chief gives one
  uint32_t threads = 1;         // compute threads
  uint32_t reader_threads = 0;  // 0: data.parallelism, or a tuned number
  bool local = false;           // started by `downpour train`: a signal stops the whole job
  bool allow_exec = false;      // the job may start programs here
  std::shared_ptr<transport::Keyring> keyring;  // for connections to input processes; null: no keys
  int64_t connect_timeout_ns = 10 * kSecond;
  Incarnation incarnation{};  // {}: a random one
  Incarnation own_ps{};       // the ps in this process, at thread_endpoint(); {}: none
  // Most bytes of keys, and of values, in one pull or push message. Tests make it small.
  uint64_t message_bytes_max = wire::kFrameBytesMax;
  ProcessInfo process = this_process();
  std::function<void(const std::string& line)> say;  // writes a line to the log; may be empty
};

class WorkerNode final : public transport::MemberNode {
 public:
  /// Reads and computes with `engines`; null: on threads of this process.
  WorkerNode(transport::Transport& transport, WorkerOptions options,
             std::unique_ptr<Engines> engines = nullptr);
  ~WorkerNode() override;

  Result<void> start(int64_t now_ns);
  bool owns(transport::PortId port) const override { return connections_.owns(port); }
  void on_message(int64_t now_ns, transport::PortId port, transport::PeerId peer,
                  wire::Message&& message) override;
  bool pump(int64_t now_ns) override;
  int64_t next_deadline_ns() const override;

  const WorkerCore& core() const { return core_; }
  /// Returns the job, which does not change once the engines have made their computers.
  const Job& job() const { return job_; }

 private:
  void run(int64_t now_ns, WorkerEffects& fx);
  void set_up(int64_t now_ns, WorkerEffects& fx);
  void took(const PreparedBatch& batch);
  void tell_stats(int64_t now_ns);
  void count_time(int64_t now_ns);
  void tune(int64_t now_ns, WorkerEffects& fx);
  void compare_jobs(const WorkerEffects::OtherJob& other, WorkerEffects& fx);

  WorkerOptions options_;
  WorkerCore core_;
  Job job_;
  std::unique_ptr<model::Graph> graph_;
  std::unique_ptr<Engines> engines_;
  std::shared_ptr<InputDirectory> inputs_;
  std::unique_ptr<Readers> readers_;
  std::unique_ptr<Computers> compute_;
  std::shared_ptr<const Placements> placements_;
  Connections connections_;
  std::optional<ReaderTuner> tuner_;         // made together with readers_
  std::shared_ptr<data::CacheStore> cache_;  // null: none
  bool said_full_ = false;
  ReaderTotals reader_totals_;
  bool starving_ = false;  // at looked_ns_, like doing_
  Activity doing_ = Activity::kNothing;
  int64_t looked_ns_ = 0;
  ProcessStats stats_;
  int64_t stats_at_ns_ = 0;
};

}  // namespace downpour::worker
