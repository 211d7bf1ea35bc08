// Worker core: takes leases, pulls what each batch needs, has it computed, pushes the gradients,
// and sees every part through. A deterministic state machine: no socket, file, thread or clock
// (time is an argument).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "shared/base/rng.h"
#include "shared/base/units.h"
#include "shared/tensor/variables.h"
#include "worker/core/events.h"

namespace downpour::worker {

constexpr Incarnation kChief{0};  // the node that requests to the chief go to

struct WorkerConfig {
  wire::Role role = wire::Role::kWorker;  // kInput: a member that asks for no leases
  Incarnation incarnation{};
  uint32_t index = UINT32_MAX;  // UINT32_MAX: the chief gives one
  std::string build;
  std::string host;
  uint32_t pid = 0;
  uint32_t threads = 1;                       // compute threads, for the chief to show
  std::string endpoint;                       // input: where it reads for workers
  uint32_t leases_wanted = 2;                 // shards read at once
  bool local = false;                         // started by `downpour train`: a signal stops the job
  int64_t connect_timeout_ns = 10 * kSecond;  // without a Welcome: exit 69
  int64_t chief_silence_ns = 60 * kSecond;    // without any word of the chief: exit 180
  int64_t request_timeout_ns =
      2 * kSecond;  // first retry of a pull, push or lease request; doubles with jitter
  int64_t retry_max_ns = 8 * kSecond;
  // Rows of a pull or push; a partition with more is cut in fragments.
  uint64_t message_bytes_max = wire::kFrameBytesMax;
};

/// What the shell knows of its process; sent along with heartbeats.
struct ProcessStats {
  uint64_t rss_bytes_max = 0;
  uint64_t cpu_ns = 0;
  uint64_t pulled_bytes = 0;
  uint64_t pushed_bytes = 0;
  uint64_t read_bytes = 0;
  wire::WorkTime work;
};

/// What a worker is about, of which only one thing counts at a time: the first that holds.
enum class Activity : uint8_t {
  kComputing,  // a batch is being computed
  kNetwork,    // a ps's answer keeps the next one from being computed
  kInput,      // the next one is still being read
  kNothing,    // it has no shard to read
};

/// Whether two leases are for the same records and the same purpose; attempts may differ.
inline bool same_work(const wire::Lease& a, const wire::Lease& b) {
  return a.purpose == b.purpose && a.shard == b.shard && a.evaluation == b.evaluation;
}

class WorkerCore {
 public:
  explicit WorkerCore(WorkerConfig config);

  void start(int64_t now_ns, WorkerEffects& fx);
  void on_message(int64_t now_ns, Incarnation from, wire::Message&& message, WorkerEffects& fx);
  /// After `welcomed`: what the job's model needs, and how long it is waited for a silent chief.
  /// Pulls begin only now.
  void configure(int64_t now_ns, std::vector<TableSpec> tables, uint32_t in_flight,
                 int64_t chief_silence_ns, WorkerEffects& fx);
  /// From now on so many shards are read at once.
  void want_leases(int64_t now_ns, uint32_t leases, WorkerEffects& fx);
  /// True while on_batch() may be called.
  bool wants_batch() const { return configured_ && slots_.size() < in_flight_; }
  /// True while there is a shard that is read.
  bool reads() const;
  Activity doing() const;
  void on_batch(int64_t now_ns, PreparedBatchPtr batch, WorkerEffects& fx);
  void on_shard_end(int64_t now_ns, const ShardEnd& end, WorkerEffects& fx);
  void on_read_failed(int64_t now_ns, const ReadFailure& failure, WorkerEffects& fx);
  void on_computed(int64_t now_ns, Computed&& computed, WorkerEffects& fx);
  /// The process can't go on (its model can't be built, ...): tells the chief and ends.
  void on_fatal(const Error& error, WorkerEffects& fx);
  /// The answer to `other_job` where this worker can not go on under it: ends with 78.
  void on_other_job(const std::string& what, WorkerEffects& fx);
  /// A stop signal: reports it to the chief, gives all shards back and ends. A local worker
  /// reports it and goes on until the chief ends it, or ends with 128 + signal if no chief has
  /// welcomed it yet.
  void leave(int64_t now_ns, int signal, WorkerEffects& fx);
  void on_tick(int64_t now_ns, WorkerEffects& fx);
  /// When on_tick() has something to do next.
  int64_t next_deadline_ns() const;

  void set_stats(const ProcessStats& stats) { stats_ = stats; }
  const wire::Welcome& welcome() const { return welcome_; }
  /// Of the chief that welcomed it; 0: none yet.
  uint64_t run() const { return run_; }
  /// The newest view it knows; {0, 0}: none yet.
  ViewId view() const { return placements_ ? placements_->view.id : ViewId{}; }
  const std::vector<TableSpec>& tables() const { return tables_; }
  /// Pulls and pushes whose answers are still expected.
  size_t requests_outstanding() const { return requests_.size(); }

 private:
  enum class State : uint8_t { kPulling, kComputing, kComputed, kPushing };
  struct PullPart {
    RequestId request{};  // newest; also the handle
    bool done = false;
    int64_t deadline_ns = 0;
    uint32_t attempt = 0;
    Bytes values;
    bool copied = false;  // `values` hold no buffer of a ps
  };
  struct PushPart {
    RequestId request{};
    Incarnation to{};
    wire::Push push;
    Bytes keys, values;
    int64_t deadline_ns = 0;
    uint32_t attempt = 0;
  };
  // A batch between its pull and the last acknowledgement, or the end part of a shard (batch ==
  // null).
  struct Slot {
    uint64_t id = 0;
    wire::Lease lease;
    BatchId batch_id;
    PreparedBatchPtr batch;
    State state = State::kPulling;
    std::vector<PullPart> pulls;   // by message of the plan
    std::vector<Bytes> gradients;  // by message of the plan
    std::vector<OutputSums> sums;
    std::vector<PushPart> pushes;   // outstanding
    wire::PartitionSet unresolved;  // partitions whose answer is still to come
    bool rebuild = false;           // unresolved parts must be grouped anew, with their keys
    int64_t rebuild_at_ns = 0;
    bool all_already_applied = true;
    uint32_t watermark_min = UINT32_MAX;
    bool is_end() const { return batch == nullptr; }
    bool quarantined() const { return batch != nullptr && batch->batch.quarantined; }
  };
  struct Shard {
    wire::Lease lease;
    uint64_t shard_read = 0;  // its newest reading; what older ones yield is ignored
    uint32_t next_push = 0;   // batches are pushed in order
    uint32_t done = 0;        // batches acknowledged by all (or known to be)
    uint32_t floor = 0;       // every partition has applied this many
    std::optional<ShardEnd> end;
    bool end_sent = false;
    uint64_t bytes_done = 0;
    int64_t progress_at_ns = 0;
    std::vector<OutputMetrics> metrics;  // eval
  };

  // membership and leases (worker_core.cc)
  void hello(int64_t now_ns, WorkerEffects& fx);
  void on_welcome(int64_t now_ns, uint64_t run, wire::Welcome&& welcome, WorkerEffects& fx);
  void heartbeat(int64_t now_ns, WorkerEffects& fx);
  void report_signal(WorkerEffects& fx);
  uint32_t shards_read() const;
  void request_leases(int64_t now_ns, WorkerEffects& fx);
  void on_grant(int64_t now_ns, const wire::LeaseGrant& grant, WorkerEffects& fx);
  void on_view(int64_t now_ns, wire::View&& view, WorkerEffects& fx);
  void progress(int64_t now_ns, Shard& shard, bool ended, WorkerEffects& fx);
  void finish_shard_if_done(int64_t now_ns, ShardId id, wire::Purpose purpose, WorkerEffects& fx);
  // By value: what these let go of may hold the lease that they were given.
  void abandon(wire::Lease lease, WorkerEffects& fx);
  void fail_shard(wire::Lease lease, uint32_t batch, const Error& error, WorkerEffects& fx,
                  wire::FailureKind kind = wire::FailureKind::kOther);
  void read(Shard& shard, uint32_t first_batch, WorkerEffects& fx);
  void read_on(int64_t now_ns, Shard& shard, WorkerEffects& fx);
  Shard* find_shard(const wire::Lease& lease);
  Shard* find_shard_read(uint64_t shard_read);
  void send(Incarnation to, wire::Body body, RequestId request, WorkerEffects& fx, Bytes keys = {},
            Bytes values = {});
  int64_t backoff_ns(uint32_t attempt);
  void exit(int32_t code, std::string reason, WorkerEffects& fx) {
    fx.exits.push_back({code, std::move(reason)});
  }

  // batches in flight (worker_steps.cc)
  Slot* find_slot(uint64_t id);
  void forget_requests(const Slot& slot);
  /// Erases the slots for which wanted(slot) holds, and expects no more answers to them. Returns
  /// how many of them were of batches.
  template <typename Wanted>
  size_t erase_slots(Wanted&& wanted) {
    for (auto* slots : {&slots_, &end_slots_}) {
      for (const auto& slot : *slots) {
        if (wanted(*slot)) forget_requests(*slot);
      }
    }
    const auto erased = [&](const auto& slot) { return wanted(*slot); };
    std::erase_if(end_slots_, erased);
    return std::erase_if(slots_, erased);
  }
  void erase_slot(uint64_t id) {
    erase_slots([id](const Slot& slot) { return slot.id == id; });
  }
  void plan_and_pull(int64_t now_ns, Slot& slot, WorkerEffects& fx);
  void send_pull(int64_t now_ns, Slot& slot, size_t index, WorkerEffects& fx);
  void on_pull_reply(int64_t now_ns, wire::Message&& message, WorkerEffects& fx);
  void compute_if_pulled(Slot& slot, WorkerEffects& fx);
  void copy_pulled_values();
  void push_ready(int64_t now_ns, Shard& shard, WorkerEffects& fx);
  void begin_push(int64_t now_ns, Slot& slot, WorkerEffects& fx);
  void cover_all(Slot& slot) const;
  void begin_shard_end_marker(int64_t now_ns, Shard& shard, WorkerEffects& fx);
  void rebuild_pushes(int64_t now_ns, Slot& slot, WorkerEffects& fx);
  void send_push(int64_t now_ns, Slot& slot, PushPart& part, WorkerEffects& fx);
  void on_push_reply(int64_t now_ns, wire::Message&& message, WorkerEffects& fx);
  void give_back_shard(int64_t now_ns, const Slot& slot, WorkerEffects& fx);
  bool handle_gap(int64_t now_ns, Slot& slot, uint32_t watermark, WorkerEffects& fx);
  void slot_resolved(int64_t now_ns, uint64_t slot_id, WorkerEffects& fx);
  void on_reject(int64_t now_ns, const wire::Message& message, WorkerEffects& fx);
  void tick_slots(int64_t now_ns, WorkerEffects& fx);
  Incarnation owner(uint32_t index) const { return address_of(placements_->view.owners[index]); }
  RequestId next_request() { return RequestId{++last_request_}; }

  WorkerConfig config_;
  Rng jitter_;
  wire::Welcome welcome_;
  bool welcomed_ = false;
  bool configured_ = false;
  bool stopping_ = false;
  int leave_signal_ = 0;  // reported with every heartbeat; 0: none received
  uint64_t run_ = 0;
  uint32_t term_ = 0;  // newest that a chief has shown
  std::vector<TableSpec> tables_;
  uint32_t in_flight_ = 1;
  std::shared_ptr<const Placements> placements_;
  ProcessStats stats_;

  int64_t started_ns_ = 0;
  int64_t hello_at_ns_ = 0;
  int64_t chief_heard_ns_ = 0;
  int64_t heartbeat_at_ns_ = 0;
  RequestId lease_request_{};
  int64_t lease_deadline_ns_ = 0;  // resend, or ask again
  uint32_t lease_request_wanted_ = 0;

  uint64_t last_request_ = 0;
  uint64_t last_slot_ = 0;
  uint64_t last_shard_read_ = 0;
  std::vector<std::unique_ptr<Slot>> slots_;      // batches in flight
  std::vector<std::unique_ptr<Slot>> end_slots_;  // end parts in flight
  std::vector<std::unique_ptr<Shard>> shards_;
  struct PendingRequest {
    uint64_t slot = 0;
    bool push = false;
  };
  std::unordered_map<uint64_t, PendingRequest>
      requests_;  // by request id; looked up, never iterated

  uint64_t records_ = 0;               // trained and acknowledged since start
  std::vector<OutputMetrics> recent_;  // since the last heartbeat
};

/// Joins AUC buckets until the outputs fit a message together.
void limit_buckets(std::vector<OutputMetrics>& outputs);

/// Adds `from` to `into`, output by output.
void merge_metrics(std::vector<OutputMetrics>& into, const std::vector<OutputMetrics>& from);

}  // namespace downpour::worker
