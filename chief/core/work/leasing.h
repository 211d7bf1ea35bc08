// Leasing: grants the shards of the current pass to workers, takes their reports, and revokes
// leases.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "chief/core/turn.h"
#include "chief/core/work/clocks.h"
#include "chief/core/work/completion.h"
#include "chief/core/work/evaluation.h"
#include "chief/core/work/left_out.h"
#include "chief/core/work/pass.h"
#include "chief/core/work/prediction.h"
#include "chief/core/work/quarantine.h"
#include "chief/core/work/quarantine_policy.h"
#include "chief/core/work/step_commits.h"
#include "chief/core/work/work_event.h"

namespace downpour::chief {

/// Decides about every lease. A lost or repeated lease costs time, but never correctness:
/// partitions do not apply a part twice. Reports return a WorkEvent, which the caller handles at
/// once.
class Leasing {
 public:
  Leasing(const ChiefConfig& config, Membership& members, Pass& pass, Quarantine& quarantine,
          QuarantinePolicy& policy, EvaluationRun& evaluation, PredictionRun& prediction,
          Clocks& clocks, const StepCommits& steps)
      : config_(config),
        members_(members),
        pass_(pass),
        table_(pass.table()),
        quarantine_(quarantine),
        policy_(policy),
        evaluation_(evaluation),
        prediction_(prediction),
        clocks_(clocks),
        steps_(steps) {}

  /// Answers a repeated request again, with those of its leases that the worker still holds.
  /// Returns false, and sends nothing, if `id` is not the newest answered request or none of its
  /// leases is held.
  bool repeat_grant(Turn& turn, const Member& member, RequestId id);
  /// Adds up to `wanted` leases on free shards to `grant`. If no shard is free then, may add one
  /// backup lease. `base`: the steps of the job so far. `predicting`: shards far ahead of the first
  /// one that has not ended are not leased. Errors: those of Pass::extend(); `grant` may have
  /// leases then.
  Result<void> grant(Turn& turn, const Member& member, uint32_t wanted, const StepBase& base,
                     bool predicting, wire::LeaseGrant& grant);
  /// Answers a request.
  void answer(Turn& turn, const Member& member, RequestId id, wire::LeaseGrant&& grant);

  /// Handle reports. `working`: leases are valid. `stopping`: a stop was requested, so leases of an
  /// earlier chief are not registered.
  WorkEvent on_progress(Turn& turn, Member& member, const wire::ShardProgress& progress,
                        bool working, bool stopping);
  WorkEvent on_failed(Turn& turn, Member& member, const wire::ShardFailed& failed, bool working);
  /// Handle the report of an evaluation or prediction. A report of a lease that is not of the
  /// current pass is ignored.
  WorkEvent on_evaluated(Turn& turn, Member& member, wire::EvalReport&& report);
  WorkEvent on_grouped(Turn& turn, Member& member, const wire::PredictReport& report,
                       Bytes&& values);
  WorkEvent on_predicted(Turn& turn, Member& member, wire::PredictReport&& report, Bytes&& values);

  /// First step when a member is silent, replaced or gone; release_all() must follow, unless the
  /// job ends. `died`: one failed attempt is counted for the shard that the worker has held for
  /// longest (the one that it was processing), and none for the others. If the job quarantines
  /// batches of replicas, it is counted for all shards that may have ended the worker.
  WorkEvent leave(Turn& turn, Member& member, bool died);
  /// Releases all leases of a member.
  void release_all(Turn& turn, const Member& member);
  /// Returns true during a pause of the worker (Clocks::pause()), in which other workers compute
  /// its shards. Always false if there is no other worker.
  bool is_paused(const Turn& turn, const Member& member) const;
  /// Revokes the leases on these shards, because a synchronous step has waited for them too long.
  /// If another worker may get them, their workers are paused and lose all leases.
  void end_stalled(Turn& turn, const std::vector<uint32_t>& shards);
  /// Revokes the leases of these replicas, so that another worker computes them. Does nothing if
  /// there is no other worker. Pauses the workers that must pause, as end_stalled() does.
  void move_replicas(Turn& turn, const std::vector<LeftOut::Move>& moves);
  /// Revokes all leases of a worker.
  void revoke_all(Turn& turn, Incarnation worker);
  /// Revokes leases without a report for lease_idle_ns. `stalled`: also those without a newly
  /// acknowledged batch for lease_stall_ns. Leaves out workers that send nothing at all, because
  /// the limit for their silence ends their leases.
  void revoke_idle(Turn& turn, bool stalled);
  /// Revokes the leases on shards of which no step has a batch.
  void revoke_not_begun(Turn& turn);
  /// Revokes all leases on a shard, or on all shards.
  void revoke_all(Turn& turn, uint32_t shard);
  void revoke_all(Turn& turn);
  /// Makes the shards that some partition lacks, according to a valid round, available again, and
  /// ends all others. Errors: those of Pass::extend().
  Result<void> take_lacking(Turn& turn, const RoundOutcome& outcome);

 private:
  Result<void> grant_replicas(Turn& turn, const Member& member, uint32_t wanted,
                              wire::LeaseGrant& grant);
  void check_probation(Turn& turn);
  bool has_staged(uint32_t shard) const;
  WorkEvent count_death(Turn& turn, const Member& member, const std::vector<uint32_t>& held);
  void hand_over(Turn& turn, const Member& member, wire::Lease lease, bool backup,
                 wire::LeaseGrant& grant);
  void log_lease(Turn& turn, const Member& member, const wire::Lease& lease, bool backup);
  JsonLine shard_event(Turn& turn, const char* name, uint32_t shard) const;
  void log_expired(Turn& turn, const Member& member, uint32_t shard);
  WorkEvent end_shard(Turn& turn, const Member& member, uint32_t shard,
                      const wire::ShardCounts& counts);
  WorkEvent count_failure(Turn& turn, const Member& member, const Error& error, uint32_t shard,
                          uint32_t batch, wire::FailureKind kind = wire::FailureKind::kOther);
  uint32_t fatal_batch(uint32_t shard) const;
  uint32_t unpaused_workers(const Turn& turn) const;
  uint32_t sharing_workers(const Turn& turn) const;
  /// Returns whether some live worker that may get leases is not among these.
  bool has_others(const Turn& turn, const std::set<Incarnation>& workers) const;
  bool is_suspect(uint32_t shard) const { return table_.entry(shard).failures > 0; }
  void revoke(Turn& turn, uint32_t shard, Incarnation worker);

  /// The newest answered request of a worker.
  struct Answered {
    RequestId id{};
    wire::LeaseGrant grant;
  };

  const ChiefConfig& config_;
  Membership& members_;
  Pass& pass_;
  LeaseTable& table_;
  Quarantine& quarantine_;
  QuarantinePolicy& policy_;
  EvaluationRun& evaluation_;
  PredictionRun& prediction_;
  Clocks& clocks_;
  const StepCommits& steps_;
  // The job quarantines batches, and a batch that a replica needs next may have ended a worker.
  // Each worker then computes one replica after the other, under single-step leases.
  bool probation_ = false;
  std::map<Incarnation, Answered> answered_;
};

}  // namespace downpour::chief
