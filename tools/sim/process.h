// Process: a process of the simulated cluster. It is the real shell of a role over a simulated
// transport, disk, clock and engines. The real reactor runs it, one turn at a time.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "chief/runtime/chief_node.h"
#include "ps/runtime/ps_node.h"
#include "shared/transport/reactor.h"
#include "tools/sim/disk.h"
#include "tools/sim/engines.h"
#include "tools/sim/network.h"
#include "worker/runtime/input_node.h"
#include "worker/runtime/worker_node.h"

namespace downpour::sim {

/// The simulated resources that all processes of a cluster share. Borrowed.
struct Machinery {
  Scheduler& scheduler;
  SimNetwork& network;
  SimDisk& disk;
};

class Process {
 public:
  /// Creates a process under this incarnation. If `storage` is null, it uses the simulated disk.
  Process(Machinery& machinery, ProcessNumber number, wire::Role role, uint32_t index,
          Incarnation incarnation, Storage* storage);
  ~Process();

  ProcessNumber number() const { return number_; }
  wire::Role role() const { return role_; }
  uint32_t index() const { return index_; }
  Incarnation incarnation() const { return incarnation_; }
  const std::string& name() const { return name_; }

  Result<void> start_chief(chief::ChiefConfig config, std::vector<TableSpec> tables,
                           chief::ChiefOptions options, chief::Console* console);
  /// Starts a ps with this number of cores, which share one event loop.
  Result<void> start_ps(ps::PsOptions options, uint32_t cores);
  Result<void> start_worker(worker::WorkerOptions options);
  Result<void> start_input(worker::InputOptions options);
  /// Returns the storage that the process uses, for work before start_chief().
  Storage& storage() { return real_storage_ != nullptr ? *real_storage_ : sim_storage_; }
  SimStorage& sim_storage() { return sim_storage_; }

  /// Schedules a turn as soon as possible.
  void wake();
  /// Stops the process like SIGSTOP. Messages that arrive wait in its queue.
  void pause() { paused_ = true; }
  void resume();
  bool paused() const { return paused_; }
  /// Moves the clock of this process forward.
  void jump_clock(int64_t by_ns) { clock_.offset_ns += by_ns; }
  /// Discards all messages that it sends from now on, because it is about to end.
  void mute();
  bool muted() const { return muted_; }
  /// Asks a ps, worker or input process to hand over its partitions or leases and then to end.
  void leave();
  /// Sets the factor on the duration of its work.
  void slow_down(uint32_t times) { speed.slow = times; }
  WorkerSpeed speed;

  /// Returns whether all its nodes have ended by themselves.
  bool finished() const { return finished_; }
  int32_t exit_code() const;
  const std::string& exit_reason() const;
  const chief::ChiefNode* chief() const { return chief_.get(); }
  uint32_t ps_cores() const { return uint32_t(ps_.size()); }  // 0: no ps
  const ps::PsNode* ps(uint32_t core) const { return ps_[core].get(); }
  const worker::WorkerNode* worker() const { return worker_.get(); }

  std::function<void(Process&)> on_turn;      // after each turn
  std::function<void(Process&)> on_finished;  // called once; must not destroy the process

 private:
  struct SimClock final : Clock {
    explicit SimClock(const Scheduler& s) : scheduler(s) {}
    int64_t now_ns() const override { return scheduler.now_ns() + offset_ns; }
    const Scheduler& scheduler;
    int64_t offset_ns = 0;
  };
  void turn();
  void schedule(int64_t at_ns);
  template <typename Node>
  Result<void> begin(Node& node);
  EngineHost engine_host();

  Machinery& machinery_;
  ProcessNumber number_;
  wire::Role role_;
  uint32_t index_;
  Incarnation incarnation_;
  std::string name_;
  Storage* real_storage_;
  SimStorage sim_storage_;
  SimClock clock_;
  std::shared_ptr<Process*> self_;  // null for scheduled events after the process is destroyed
  std::unique_ptr<SimTransport> transport_;
  transport::Reactor reactor_;
  std::unique_ptr<chief::ChiefNode> chief_;
  std::vector<std::unique_ptr<ps::PsNode>> ps_;  // per core
  std::unique_ptr<worker::WorkerNode> worker_;
  std::unique_ptr<worker::InputNode> input_;
  int64_t busy_until_ns_ = 0;
  int64_t next_turn_ns_ = INT64_MAX;
  bool in_turn_ = false;
  bool woken_ = false;
  bool paused_ = false;
  bool muted_ = false;
  bool finished_ = false;
};

}  // namespace downpour::sim
