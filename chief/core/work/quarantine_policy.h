// QuarantinePolicy: decides after which failures the job may continue without the batch, and lists
// the batches that were quarantined.
#pragma once

#include <cstdint>
#include <vector>

#include "chief/core/turn.h"
#include "chief/core/work/completion.h"
#include "chief/core/work/pass.h"
#include "chief/core/work/quarantine.h"
#include "shared/base/result.h"

namespace downpour::chief {

/// Applies the settings of the job to Quarantine.
class QuarantinePolicy {
 public:
  QuarantinePolicy(const ChiefConfig& config, Pass& pass, Quarantine& quarantine)
      : config_(config), pass_(pass), quarantine_(quarantine) {}

  /// Returns true if the job may continue without a batch that fails for this reason.
  bool may_quarantine(wire::FailureKind kind) const;
  /// Returns true if a shard that has failed needs a single-step lease, because the batch at which
  /// a worker dies matters.
  bool single_step() const { return may_quarantine(wire::FailureKind::kOther); }
  /// Proposes a batch that fails at every attempt. Then no shard of the epoch may be leased until
  /// decide() was called. Returns the error that fails the job if the batch cannot be
  /// quarantined.
  Result<void> propose(Turn& turn, uint32_t shard, uint32_t batch, const Error& error);
  /// Decides about the markers that the round sent to all partitions. Errors: kMalformed if there
  /// are too many; kPeersLost if partitions contradict each other.
  Result<void> decide(Turn& turn, const RoundOutcome& outcome);
  /// Removes from decided() the batches of the shard whose number is `batches` or higher, because
  /// the shard has only `batches` batches. Their markers stay, and affect no batch.
  void drop_beyond(Turn& turn, ShardId shard, uint32_t batches);
  /// Returns the batches that this chief has decided to quarantine, less those of drop_beyond(), in
  /// order of decision.
  const std::vector<QuarantinedBatch>& decided() const { return decided_; }

 private:
  const ChiefConfig& config_;
  Pass& pass_;
  Quarantine& quarantine_;
  std::vector<QuarantinedBatch> decided_;
};

}  // namespace downpour::chief
