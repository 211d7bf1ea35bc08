// StepCommits: decides when a step of synchronous training is applied.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "chief/core/outbox.h"
#include "chief/core/turn.h"
#include "chief/core/work/completion.h"
#include "chief/core/work/leases.h"
#include "chief/core/work/left_out.h"
#include "chief/core/work/step_norms.h"

namespace downpour::chief {

/// A step applies the next batch of every replica that has shards left. The ps cores report which
/// batches they have staged. The step is committed when every core has the batches of all replicas,
/// except for TrainSpec::backups of them. While a Commit is unanswered, some partitions may not
/// have applied the step yet.
class StepCommits {
 public:
  explicit StepCommits(const ChiefConfig& config);

  bool enabled() const { return replicas_ > 0; }
  /// Returns true if no Commit waits for an answer: all partitions are at the same step.
  bool quiet() const { return outbox_.empty(); }
  Outbox& outbox() { return outbox_; }
  /// Forgets the Commit that waits for an answer.
  void drop() {
    outbox_.clear();
    norms_.clear();
  }
  /// Returns the next step; 0 before it is known.
  uint64_t next() const { return next_; }
  /// Returns the number of steps that all partitions have applied; 0 before it is known.
  uint64_t committed() const { return next_ - (next_ > 0 ? 1 : 0); }

  /// Forgets all reports, because a view is published. `rolled_back`: under this view all
  /// partitions begin, or have returned to a checkpoint; their step is not known yet.
  void on_view(const wire::View& view, bool rolled_back);
  /// Returns true if `view` is older than the newest return of all partitions to a checkpoint. A
  /// worker that knows no newer view may report batches as applied that are lost.
  bool precedes_rollback(ViewId view) const { return view < rolled_back_; }
  /// Begins a pass of the training: the time for which a step has waited counts from now on.
  void begin_pass(int64_t now_ns) { moved_ns_ = std::max(moved_ns_, now_ns); }
  /// All partitions begin empty, at step 1.
  void begin_empty() { next_ = 1; }
  /// Takes the step from the versions in a round. Error kBug if the partitions differ.
  Result<void> take_versions(const RoundOutcome& outcome);
  /// Takes the report of an owner under the current view.
  void take(uint32_t owner, wire::Staged&& staged);
  /// Returns the current shards of all replicas, for the owners that must_send() names. Returns
  /// null with backups: which batches a step has is known only when it is due.
  const wire::Expect* expect(const LeaseTable& table);
  /// Returns whether what expect() returns must be sent to an owner. It counts as sent then.
  bool must_send(uint32_t owner) {
    return std::exchange(known_[owner], expect_.version) != expect_.version;
  }
  /// Returns the Commit that is due: every owner has staged the next batch of every replica that
  /// has shards left, except for TrainSpec::backups of them. The step has all batches that every
  /// owner has staged. The caller sends it to all owners. Error kBug if two owners have staged
  /// different batches of a replica.
  Result<std::optional<wire::Commit>> due(const LeaseTable& table) const;
  /// Returns whether every owner has staged a batch of this replica's first open shard for the next
  /// step.
  bool has_staged(const LeaseTable& table, uint32_t replica) const;
  /// Returns what must be sent for the Commit that is due: itself, or first a request for the norms
  /// of the step.
  wire::Commit begin(wire::Commit&& due);
  /// Takes the norms that a member has measured. When all are known, returns the Commit that must
  /// be sent.
  std::optional<wire::Commit> on_measured(const Member& by, const wire::Committed& measured,
                                          const Bytes& squares);
  /// Records that a Commit was sent to a member.
  void sent(const Turn& turn, const Member& to, const wire::Commit& commit);
  /// Returns true if a Commit has not been answered for ChiefConfig::lease_stall_ns, and forgets
  /// it. `copying`: a checkpoint is being written. This time does not count, because a core applies
  /// the step after its partitions are copied.
  bool drop_overdue(const Turn& turn, bool copying);
  /// Takes an answer. Returns true if it was the last one that was missing.
  bool on_committed(const Turn& turn, const Member& by, const wire::Committed& committed);

  /// Returns the leased shards of the replicas for which a step has waited for longer than
  /// ChiefConfig::lease_stall_ns, and in local training for longer than kBatchStallNs times the
  /// batches of a local round. Their leases must end.
  std::vector<uint32_t> stalled(const Turn& turn, const LeaseTable& table);

  /// Records which replicas the step leaves out. Returns those that must move to another worker;
  /// see LeftOut.
  std::vector<LeftOut::Move> leave_out(const Turn& turn, const LeaseTable& table,
                                       const wire::Commit& commit) {
    return left_out_.count(turn.now_ns(), table, commit);
  }

 private:
  bool has_steps(PartitionId p, size_t partitions) const {
    return !grouped_ || group_of(p, uint32_t(partitions)) == RowGroup::kSync;
  }
  const wire::StepPart* staged_part(const wire::Staged& staged, uint32_t replica,
                                    uint32_t shard) const;

  const ChiefConfig& config_;
  uint32_t replicas_, backups_;
  bool grouped_;      // only the partitions of RowGroup::kSync apply steps
  int64_t stall_ns_;  // for which a step may wait
  LeftOut left_out_;
  uint64_t next_ = 0;
  ViewId rolled_back_;                // the first view after the newest rollback
  std::vector<wire::Staged> staged_;  // by owner number of the view; step 0: no report yet
  wire::Expect expect_;               // the newest one
  std::vector<uint64_t> known_;       // the version that each owner knows
  std::vector<bool> stages_;          // by owner number: it has partitions that apply steps
  Outbox outbox_;
  StepNorms norms_;
  int64_t sent_ns_ = 0;  // when the Commit was sent, or a checkpoint was being written
  // The newest time at which one of these held: a step was committed, no shard was leased,
  // stalled() returned some shards, or a pass began.
  int64_t moved_ns_ = 0;
};

}  // namespace downpour::chief
