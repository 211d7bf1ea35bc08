// Commits: stages the parts of synchronous steps, and applies a step when the chief says that every
// partition has all of its parts.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ps/core/events.h"
#include "ps/core/partition.h"
#include "ps/core/payload.h"
#include "ps/core/ps_stats.h"
#include "ps/core/row_memory.h"
#include "ps/core/saving.h"
#include "ps/core/session.h"
#include "ps/core/step_stage.h"
#include "ps/core/step_sum.h"
#include "ps/core/turn.h"

namespace downpour::ps {

/// The step of a core is the version of its partitions plus one. A step is applied in two phases,
/// because a worker that repeats a batch must pull the values that the first attempt has pulled. If
/// each partition applied a step by itself, one partition could be past the step while another one
/// still needs a part of it.
///
/// Gradients are added in the order of the replicas. The chief says which replicas have shards left
/// (Expect), so that a part is added when it arrives, if its turn has come. Parts that arrive
/// before their turn are kept as long as there is room. Otherwise their workers send them again
/// when the core asks for it. Without an Expect, and with backups, nothing is added before the
/// Commit.
class Commits {
 public:
  /// Keeps the references.
  Commits(const PsConfig& config, Partitions& partitions, const Session& session, RowMemory& memory,
          const Saving& saving, PsStats& stats)
      : config_(config),
        partitions_(partitions),
        session_(session),
        memory_(memory),
        saving_(saving),
        stats_(stats),
        stage_(config.limits),
        sum_(partitions, raw(config.incarnation)) {}

  /// Returns whether the job trains synchronously. Otherwise nothing is staged.
  bool enabled() const { return config_.steps.has_value(); }
  const StepStage& stage() const { return stage_; }

  /// Returns why the push cannot belong to any step.
  Result<void> check(const wire::Push& push) const;
  /// Returns whether `p` would apply this push in its next step.
  bool is_next(const wire::Push& push, PartitionId p) const;
  /// Stages the push at the partitions `parts`; all its fragments have arrived. If has() is true,
  /// the parts are staged already: `payloads` may be empty, and only the request is recorded, to be
  /// answered after the step. Error kUnavailable: the staged parts need too much memory. kRefused:
  /// nothing is staged, and the push is answered when its worker should send it again.
  Result<StepStage::Added> stage(PeerKey from, RequestId request, const wire::Push& push,
                                 const Bits& covered, const Bits& parts,
                                 std::vector<StagedPush::Payload> payloads, Turn& turn);
  bool has(const wire::Push& push, const Bits& parts) const {
    return stage_.has(config_.steps->number_of(push), push.batch, parts);
  }

  /// Applies the step, or answers if it is already applied. Batches that are staged and not in the
  /// step are dropped, and their pushes are answered, so that they are computed again for the next
  /// step. A step for which something is missing
  /// is ignored: the chief repeats the request, or returns all partitions to a checkpoint. While
  /// partitions are copied for a checkpoint, the step waits, so that all images are of one step.
  /// A request that only measures is answered with the norms of the step's sum.
  void on_commit(const wire::Envelope& envelope, const wire::Commit& commit, Turn& turn);
  /// Applies the step that waited for a checkpoint. Called after each copy.
  void continue_after_copy(Turn& turn);
  /// Reports to the chief the batches that are staged at all partitions of the core, if there are
  /// any. Called when the view changes and with each heartbeat; stage() and on_shard_end() also
  /// report.
  void report(Turn& turn) const;
  /// Takes the current shards of all replicas.
  void on_expect(const wire::Expect& expect, Turn& turn);
  /// A shard has ended, so the next step may have fewer replicas than the last one.
  void on_shard_end(Turn& turn);
  /// Drops what is staged, because partitions were adopted or dropped.
  void clear();
  /// Drops the parts that disagree with new quarantine markers. If some of them are in the sum
  /// already, all parts of the step are sent again.
  void on_markers(Turn& turn);

 private:
  bool applies(const wire::Commit& commit) const;
  std::vector<const StagedReplica*> replicas_of(const wire::Commit& commit) const;
  void add_to_sum(uint32_t number);
  void begin_sum();
  bool finish_sum(const wire::Commit& commit, Turn& turn);
  void measure(const wire::Envelope& envelope, const wire::Commit& commit, Turn& turn);
  void apply(const wire::Commit& commit, Turn& turn);
  void report_stage(Turn& turn) const;
  void leave_out(const StagedReplica& staged, Turn& turn) const;
  void answer(PeerKey to, RequestId request, BatchId batch, const Bits& parts,
              wire::PartStatus status, Turn& turn) const;
  void ask_again(const RefusedPush& push, Turn& turn) const;

  // The sum of the next step: commits_fold.cc
  const wire::StepPart* next_to_add() const;
  bool is_next_to_add(uint32_t number, BatchId batch) const;
  bool agrees_with_expected(const std::vector<wire::StepPart>& added) const;
  uint64_t early_bytes_max() const;
  void add_up(Turn& turn);
  void ask_for_refused(Turn& turn);
  void ask_for_all(Turn& turn);

  const PsConfig& config_;
  Partitions& partitions_;
  const Session& session_;
  RowMemory& memory_;
  const Saving& saving_;
  PsStats& stats_;
  StepStage stage_;
  wire::Expect expect_;                // version 0: not known
  StepSum sum_;                        // of the next step
  std::vector<wire::StepPart> added_;  // in the sum, in order
  bool adding_ = false;                // the last one of them lacks parts
  bool finished_ = false;              // the sum of the step is divided: it was measured
  wire::Commit last_;                  // the newest one that was applied; step 0: none
  size_t expected_ = 0;                // a report is due when so many batches are complete
  /// A commit that waits for the copies of a checkpoint.
  struct Waiting {
    wire::Envelope envelope;
    wire::Commit commit;
  };
  std::optional<Waiting> waiting_;
};

}  // namespace downpour::ps
