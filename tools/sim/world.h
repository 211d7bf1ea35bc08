// World: a whole cluster in one thread and in virtual time, determined by one seed.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "chief/runtime/run_setup.h"
#include "shared/base/defence.h"
#include "shared/checkpoint/manifest.h"
#include "tools/sim/faults.h"
#include "tools/sim/outcome.h"
#include "tools/sim/process.h"
#include "tools/sim/trace.h"

namespace downpour::sim {

/// The settings of one simulation. Pointers are borrowed.
struct WorldSpec {
  const chief::RunPlan* plan = nullptr;
  /// A plan with the same records in another order, for the faults `change-data` and `extend-run`.
  /// If null, the data never change.
  const chief::RunPlan* other_plan = nullptr;
  uint32_t ps = 1, workers = 1, inputs = 0;
  uint32_t ps_cores = 1;                              // per ps
  uint64_t message_bytes_max = wire::kFrameBytesMax;  // of a worker's pull or push
  uint64_t seed = 1;
  FaultPlan faults;
  WorkerSpeed worker_speed;
  /// Returns the effect of a batch on the worker that computes it. If set, the job quarantines
  /// batches. If empty, no batch has an effect.
  std::function<Poison(const Batch&)> poison;
  int64_t liveness_ns = 150 * kSecond;  // from the last fault to the end of the job (invariant I12)
  int64_t limit_ns = INT64_MAX;         // of virtual time for the whole simulation
  bool fresh = false;                   // the chief starts a new run (only with `storage`)
  Storage* storage = nullptr;           // null: use a simulated disk, which can fail
  chief::Console* console = nullptr;
  Trace* trace = nullptr;
};

class World {
 public:
  explicit World(WorldSpec spec);
  ~World();

  /// Runs until the job has ended or an invariant is broken.
  Outcome run();

  // ---- observers
  /// Called for each message when its receiver takes it.
  std::function<void(Process& to, const wire::Message&)> on_message;
  std::function<void(Process&)> on_turn;
  std::function<void(const Process& chief, const std::string& line)> on_event;
  /// Called when the job has ended without an error.
  std::function<void(const chief::Finish&)> on_end;
  /// Called when a fault has damaged a published checkpoint.
  std::function<void()> on_damage;
  /// Ends the simulation because an invariant is broken.
  void violated(std::string what);
  void count(const std::string& what, uint64_t n = 1) { outcome_.counts[what] += n; }
  /// Returns all running processes, by number.
  const std::map<ProcessNumber, std::unique_ptr<Process>>& processes() const { return processes_; }
  /// Returns the newest process of a role and index; null if it no longer runs.
  Process* current(wire::Role role, uint32_t index);
  const WorldSpec& spec() const { return spec_; }
  Scheduler& scheduler() { return scheduler_; }
  SimNetwork& network() { return network_; }
  SimDisk& disk() { return disk_; }
  void trace(ProcessNumber process, std::string what);

  // ---- faults
  /// Ends the process at once. If `back_ns` >= 0, a new process replaces it after that time. A
  /// process that already has a replacement is not replaced, nor is a ps beyond the first
  /// WorldSpec::ps ones.
  void kill(ProcessNumber number, int64_t back_ns);
  void start(wire::Role role, uint32_t index);
  /// Pauses the process for this time.
  void pause(ProcessNumber number, int64_t duration_ns);
  /// Holds back messages from one process to another for this time. Then they are delivered or,
  /// with `lose`, lost.
  void stall(ProcessNumber from, ProcessNumber to, int64_t duration_ns, bool lose);
  /// Ends all processes at once, and starts the cluster again after `back_ns`.
  void restart_all(int64_t back_ns);
  bool healed() const { return healed_; }
  uint32_t replicas(wire::Role role) const;
  /// Makes chiefs that start from now on find the other data files, or the first ones again.
  void change_data(bool other);
  bool data_changed() const { return data_changed_; }  // at any time so far
  /// Returns the plan under which the newest view was published.
  const chief::RunPlan& plan() const { return accepted_other_ ? *spec_.other_plan : *spec_.plan; }
  /// Records that a bit of this checkpoint, or of an image that it needs, is wrong.
  void damaged(ViewId checkpoint);
  bool is_damaged(ViewId checkpoint) const { return damaged_.contains(checkpoint); }
  bool has_damage() const { return !damaged_.empty() || disk_.counts().lies > 0; }
  bool lost_leases = false;  // half of all grants and revocations are lost
  bool lost_views = false;   // half of all views are lost
  /// Ends a process when the next message of one kind arrives: its receiver, or its sender. `body`
  /// is the index of the kind in wire::Body.
  struct PhaseKill {
    size_t body = 0;
    bool receiver = true;
    int64_t back_ns = 0;
  };
  std::vector<PhaseKill> phase_kills;

 private:
  void set_speed(Process& process);
  Result<void> start_ps(Process& process);
  Result<void> start_chief(Process& process);
  Result<void> start_worker(Process& process);
  void could_not_start(const Process& process, const Error& error);
  void extend_run(ProcessNumber chief);
  void on_chief_event(const Process& process, const std::string& line);
  void finished(Process& process);
  void chief_finished(Process& process);
  bool excused(const chief::Finish& finish, const std::string& why);
  bool no_checkpoint_is_whole();
  void add_counts();
  bool deliver(ProcessNumber from, ProcessNumber to, const wire::Message& message,
               uint32_t checksum);
  bool comes_again(ProcessNumber to, const wire::Message& message);
  bool lost_at_point(ProcessNumber from, const Process& to, const wire::Message& message);
  void apply_point(FaultPoint::Action action, ProcessNumber from, ProcessNumber to);
  void heal();
  void hash(uint64_t value) { outcome_.hash = hash_combine(outcome_.hash, value); }
  Process* find(ProcessNumber number);

  WorldSpec spec_;
  Scheduler scheduler_;
  SimNetwork network_;
  SimDisk disk_;
  Rng point_rng_;
  Machinery machinery_;
  Outcome outcome_;
  std::map<ProcessNumber, std::unique_ptr<Process>> processes_;
  std::map<std::pair<wire::Role, uint32_t>, ProcessNumber> current_;
  ProcessNumber last_number_ = 0;
  std::set<BatchId> poisonous_;  // batches with an effect so far
  std::set<ShardId> read_before_;
  std::map<std::string, uint32_t> ends_;  // by reason: how often the job ended with it
  uint64_t disk_errors_seen_ = 0;         // when the job last ended with an error
  std::set<ViewId> damaged_;
  std::set<ProcessNumber> chiefs_of_other_data_;
  bool other_data_ = false, data_changed_ = false, accepted_other_ = false;
  DefenceCounts defences_before_{};
  uint64_t run_ = 0;  // number of restart_all() calls; each voids the starts scheduled before it
  int64_t deadline_ns_ = INT64_MAX;
  bool healed_ = false;
  bool ended_ = false;
};

/// Returns whether every image of the checkpoint exists and is undamaged.
bool is_whole(Storage& storage, const chief::RunPlan& plan, const checkpoint::Manifest& manifest);

/// Schedules the faults of the plan in the world.
void inject(World& world);

}  // namespace downpour::sim
