// WorkerCore: requests leases, pulls what each batch needs, has it computed, pushes the gradients,
// and repeats each part until it is acknowledged. A deterministic state machine without socket,
// file, thread or clock (time is an argument).
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

constexpr Incarnation kChief{0};  // address of the chief

struct WorkerConfig {
  wire::Role role = wire::Role::kWorker;  // kInput: a member that requests no leases
  Incarnation incarnation{};
  uint32_t index = UINT32_MAX;  // UINT32_MAX: the chief gives one
  std::string build;
  std::string host;
  uint32_t pid = 0;
  uint32_t threads = 1;                       // compute threads, which the chief displays
  std::string endpoint;                       // input process: where workers connect to it
  uint32_t leases_wanted = 2;                 // shards read at the same time
  bool local = false;                         // started by `downpour train`: a signal stops the job
  int64_t connect_timeout_ns = 10 * kSecond;  // without a Welcome: exit 69
  int64_t chief_silence_ns = 60 * kSecond;    // without a message of the chief: exit 180
  // Time until a pull, push or lease request is repeated first. It doubles, with jitter.
  int64_t request_timeout_ns = 2 * kSecond;
  int64_t retry_max_ns = 8 * kSecond;
  // Limit of the rows of a pull or push. A partition with more is cut into fragments.
  uint64_t message_bytes_max = wire::kFrameBytesMax;
};

/// What the shell knows about its process. Heartbeats carry it.
struct ProcessStats {
  uint64_t rss_bytes_max = 0;
  uint64_t cpu_ns = 0;
  uint64_t pulled_bytes = 0;
  uint64_t pushed_bytes = 0;
  uint64_t read_bytes = 0;
  wire::WorkTime work;
};

/// What a worker spends its time on. The first one that holds counts.
enum class Activity : uint8_t {
  kComputing,  // a batch is being computed
  kNetwork,    // the next batch waits for the answer of a ps
  kInput,      // the next batch is still being read
  kNothing,    // there is no shard to read
};

/// Whether two leases are for the same records and the same purpose. Their attempts may differ.
inline bool same_work(const wire::Lease& a, const wire::Lease& b) {
  return a.purpose == b.purpose && a.shard == b.shard && a.evaluation == b.evaluation;
}

class WorkerCore {
 public:
  explicit WorkerCore(WorkerConfig config);

  void start(int64_t now_ns, WorkerEffects& fx);
  void on_message(int64_t now_ns, Incarnation from, wire::Message&& message, WorkerEffects& fx);
  /// Configures the core after `welcomed`: the tables of the job's model, the batches in flight,
  /// and the time limit for a silent chief. Pulls begin only after this call.
  void configure(int64_t now_ns, std::vector<TableSpec> tables, uint32_t in_flight,
                 int64_t chief_silence_ns, WorkerEffects& fx);
  /// Sets the number of shards to read at the same time.
  void want_leases(int64_t now_ns, uint32_t leases, WorkerEffects& fx);
  /// True while on_batch() may be called.
  bool wants_batch() const { return configured_ && slots_.size() < in_flight_; }
  /// Whether some shard is being read.
  bool reads() const;
  Activity doing() const;
  void on_batch(int64_t now_ns, PreparedBatchPtr batch, WorkerEffects& fx);
  void on_shard_end(int64_t now_ns, const ShardEnd& end, WorkerEffects& fx);
  void on_read_failed(int64_t now_ns, const ReadFailure& failure, WorkerEffects& fx);
  void on_computed(int64_t now_ns, Computed&& computed, WorkerEffects& fx);
  /// Ends the process after an error that concerns no shard, for example if the model cannot be
  /// built. Reports the error to the chief.
  void on_fatal(const Error& error, WorkerEffects& fx);
  /// Answers `other_job` if this worker cannot continue under that job: ends with 78.
  void on_other_job(const std::string& what, WorkerEffects& fx);
  /// Handles a stop signal. A local worker reports it to the chief and continues until the chief
  /// ends it. If no chief has welcomed it yet, it ends with 128 + signal. Any other worker reports
  /// the signal, returns all its leases, and ends.
  void leave(int64_t now_ns, int signal, WorkerEffects& fx);
  void on_tick(int64_t now_ns, WorkerEffects& fx);
  /// Time at which on_tick() has work to do next.
  int64_t next_deadline_ns() const;

  void set_stats(const ProcessStats& stats) { stats_ = stats; }
  const wire::Welcome& welcome() const { return welcome_; }
  /// Run of the chief that welcomed this worker; 0: none yet.
  uint64_t run() const { return run_; }
  /// The newest known view; {0, 0}: none yet.
  ViewId view() const { return placements_ ? placements_->view.id : ViewId{}; }
  const std::vector<TableSpec>& tables() const { return tables_; }
  /// Number of pulls and pushes that have not been answered.
  size_t requests_outstanding() const { return requests_.size(); }

 private:
  enum class State : uint8_t { kPulling, kComputing, kComputed, kPushing };
  struct PullPart {
    RequestId request{};  // the newest one; also names the handle
    bool done = false;
    int64_t deadline_ns = 0;
    uint32_t attempt = 0;
    Bytes values;
    bool copied = false;  // `values` use no buffer of a ps
  };
  struct PushPart {
    RequestId request{};
    Incarnation to{};
    wire::Push push;
    Bytes keys, values;
    int64_t deadline_ns = 0;
    uint32_t attempt = 0;
  };
  // A batch between its pull and the last acknowledgement, or the shard-end marker of a shard
  // (batch == null).
  struct Slot {
    uint64_t id = 0;
    wire::Lease lease;
    BatchId batch_id;
    PreparedBatchPtr batch;
    State state = State::kPulling;
    std::vector<PullPart> pulls;   // by message of the plan
    std::vector<Bytes> gradients;  // by message of the plan
    std::vector<OutputSums> sums;
    std::vector<PushPart> pushes;   // not answered
    wire::PartitionSet unresolved;  // partitions that have not answered
    bool rebuild = false;           // regroup the unresolved parts and send them with keys
    int64_t rebuild_at_ns = 0;
    bool all_already_applied = true;
    uint32_t watermark_min = UINT32_MAX;
    bool is_end() const { return batch == nullptr; }
    bool quarantined() const { return batch != nullptr && batch->batch.quarantined; }
  };
  struct Shard {
    wire::Lease lease;
    uint64_t shard_read = 0;  // the newest one; results of earlier ones are ignored
    uint32_t next_push = 0;   // batches are pushed in order
    uint32_t done = 0;        // batches that all partitions have, as far as known
    uint32_t floor = 0;       // number of batches that every partition has applied
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
  // Leases are passed by value, because these functions may erase the object that holds the lease.
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
  /// Erases the slots for which wanted(slot) holds, and forgets their requests. Returns the number
  /// of erased batches.
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
  uint32_t term_ = 0;  // newest term of a chief's messages
  std::vector<TableSpec> tables_;
  uint32_t in_flight_ = 1;
  std::shared_ptr<const Placements> placements_;
  ProcessStats stats_;

  int64_t started_ns_ = 0;
  int64_t hello_at_ns_ = 0;
  int64_t chief_heard_ns_ = 0;
  int64_t heartbeat_at_ns_ = 0;
  RequestId lease_request_{};
  int64_t lease_deadline_ns_ = 0;  // when to repeat the request, or to send the next one
  uint32_t lease_request_wanted_ = 0;

  uint64_t last_request_ = 0;
  uint64_t last_slot_ = 0;
  uint64_t last_shard_read_ = 0;
  std::vector<std::unique_ptr<Slot>> slots_;      // batches in flight
  std::vector<std::unique_ptr<Slot>> end_slots_;  // shard-end markers in flight
  std::vector<std::unique_ptr<Shard>> shards_;
  struct PendingRequest {
    uint64_t slot = 0;
    bool push = false;
  };
  // By request id. It is only looked up, never iterated.
  std::unordered_map<uint64_t, PendingRequest> requests_;

  uint64_t records_ = 0;               // trained and acknowledged since the start
  std::vector<OutputMetrics> recent_;  // since the last heartbeat
};

/// Merges AUC buckets until all outputs together fit a message.
void limit_buckets(std::vector<OutputMetrics>& outputs);

/// Adds `from` to `into`, output by output.
void merge_metrics(std::vector<OutputMetrics>& into, const std::vector<OutputMetrics>& from);

}  // namespace downpour::worker
