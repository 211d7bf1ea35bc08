// World: a whole cluster in one thread and virtual time, from one seed.
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
#include "tools/sim/process.h"
#include "tools/sim/trace.h"

namespace downpour::sim {

/// One run. What is pointed at is borrowed.
struct WorldSpec {
  const chief::RunPlan* plan = nullptr;
  /// The same records in another order, for the faults `change-data` and `extend-run`. Null: the
  /// data never change.
  const chief::RunPlan* other_plan = nullptr;
  uint32_t ps = 1, workers = 1, inputs = 0;
  uint32_t ps_cores = 1;                              // of each ps
  uint64_t message_bytes_max = wire::kFrameBytesMax;  // of a worker's pull or push
  uint64_t seed = 1;
  FaultPlan faults;
  WorkerSpeed worker_speed;
  /// What a batch does to whoever computes it; then the job may do without such batches. Empty:
  /// nothing.
  std::function<Poison(const Batch&)> poison;
  int64_t liveness_ns = 150 * kSecond;  // after the last fault the job ends within this (I12)
  int64_t limit_ns = INT64_MAX;         // of virtual time, whatever happens
  bool fresh = false;          // what the run folder holds goes first (only with `storage`)
  Storage* storage = nullptr;  // null: a disk of its own, that can fail
  chief::Console* console = nullptr;
  Trace* trace = nullptr;
};

/// What became of it.
struct Outcome {
  std::string violation;  // empty: none. "I1: ..."
  std::optional<chief::Finish> finish;
  uint64_t hash = 0;  // of everything that happened
  int64_t virtual_ns = 0;
  uint64_t steps = 0;
  std::map<std::string, uint64_t>
      counts;                // how often something happened: faults, repeats, gaps, ...
  DefenceCounts defences{};  // how often each fence acted
};

class World {
 public:
  explicit World(WorldSpec spec);
  ~World();

  /// Until the job has ended, or an invariant is broken.
  Outcome run();

  // ---- what watches it
  /// Each message as its receiver takes it.
  std::function<void(Process& to, const wire::Message&)> on_message;
  std::function<void(Process&)> on_turn;
  std::function<void(const Process& chief, const std::string& line)> on_event;
  /// The job has ended well.
  std::function<void(const chief::Finish&)> on_end;
  /// A fault has taken something away that was published.
  std::function<void()> on_damage;
  /// An invariant is broken: the run ends here.
  void violated(std::string what);
  void count(const std::string& what, uint64_t n = 1) { outcome_.counts[what] += n; }
  /// Every process there is, by number; the dead are not among them.
  const std::map<ProcessNumber, std::unique_ptr<Process>>& processes() const { return processes_; }
  /// The newest process of a role and index; null: it is dead.
  Process* current(wire::Role role, uint32_t index);
  const WorldSpec& spec() const { return spec_; }
  Scheduler& scheduler() { return scheduler_; }
  SimNetwork& network() { return network_; }
  SimDisk& disk() { return disk_; }
  void trace(ProcessNumber process, std::string what);

  // ---- what goes wrong
  /// The process is gone. With `back_ns` >= 0 another takes its place after that time.
  void kill(ProcessNumber number, int64_t back_ns);
  void start(wire::Role role, uint32_t index);
  /// The process stands still, then goes on.
  void pause(ProcessNumber number, int64_t duration_ns);
  /// What one sends to the other waits for so long; with `lose` it is gone then.
  void stall(ProcessNumber from, ProcessNumber to, int64_t duration_ns, bool lose);
  /// Everything ends at once and is started again.
  void restart_all(int64_t back_ns);
  bool healed() const { return healed_; }
  uint32_t replicas(wire::Role role) const;
  /// Chiefs that start from now on meet the other data files, or again the first ones.
  void change_data(bool other);
  bool data_changed() const { return data_changed_; }  // at any time so far
  /// The plan under which the newest view was published.
  const chief::RunPlan& plan() const { return accepted_other_ ? *spec_.other_plan : *spec_.plan; }
  /// A bit of this checkpoint, or of an image that it needs, is wrong.
  void damaged(ViewId checkpoint);
  bool is_damaged(ViewId checkpoint) const { return damaged_.contains(checkpoint); }
  bool has_damage() const { return !damaged_.empty() || disk_.counts().lies > 0; }
  bool lost_leases = false;  // every other grant and revocation does not arrive
  bool lost_views = false;   // nor does every other view
  /// The next message of this kind (an index into wire::Body) that arrives ends one of the two.
  struct PhaseKill {
    size_t body = 0;
    bool receiver = true;
    int64_t back_ns = 0;
  };
  std::vector<PhaseKill> phase_kills;

 private:
  Result<void> start_chief(Process& process);
  Result<void> start_worker(Process& process);
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
  std::set<BatchId> poisonous_;  // met so far
  std::set<ShardId> read_before_;
  std::map<std::string, uint32_t> ends_;  // by reason: how often the job was run again
  uint64_t disk_errors_seen_ = 0;         // before the newest start of all
  std::set<ViewId> damaged_;
  std::set<ProcessNumber> chiefs_of_other_data_;
  bool other_data_ = false, data_changed_ = false, accepted_other_ = false;
  DefenceCounts defences_before_{};
  uint64_t run_ = 0;  // of restart_all()
  int64_t deadline_ns_ = INT64_MAX;
  bool healed_ = false;
  bool ended_ = false;
};

/// Whether every image of the checkpoint is there and as it was written.
bool is_whole(Storage& storage, const chief::RunPlan& plan, const checkpoint::Manifest& manifest);

/// Lets the plan's faults happen to the world.
void inject(World& world);

}  // namespace downpour::sim
