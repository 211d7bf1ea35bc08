// Defence: counts how often each fence of the protocol has rejected, repeated or repaired
// something. With these counts a simulation shows which fences its faults reached.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace downpour {

/// Every fence against faults, one per line: the enumerator, and what the process does. Fences
/// against hostile peers are not listed, because faults among honest processes do not reach them.
#define DP_DEFENCES(X)                                                                          \
  /* ps: ownership */                                                                           \
  X(kPsOtherRun, "ps: rejects a message of another run")                                        \
  X(kPsOldTerm, "ps: rejects a chief of an older term")                                         \
  X(kPsAdoptRepeated, "ps: answers a repeated Adopt once the images are there")                 \
  X(kPsAdoptHeld, "ps: answers an Adopt of what it already holds")                              \
  X(kPsAdoptOld, "ps: rejects an Adopt under a view it has passed")                             \
  X(kPsAdoptTakesOver, "ps: a later Adopt takes partitions from a load in progress")            \
  X(kPsLoadSuperseded, "ps: drops images that a later Adopt or view made stale")                \
  X(kPsLoadFailed, "ps: reports images that cannot be read")                                    \
  X(kPsViewOld, "ps: ignores a repeated or late view")                                          \
  X(kPsViewKeepsComing, "ps: keeps partitions that it adopted for a later view")                \
  X(kPsViewDrops, "ps: drops partitions that a view gives to another ps")                       \
  X(kPsViewEndsLoad, "ps: stops loading partitions that a view gives to another ps")            \
  X(kPsSealedAhead, "ps: ignores Sealed under a view it does not know")                         \
  X(kPsChiefSilent, "ps: exits because the chief is silent")                                    \
  /* ps: pulls and pushes */                                                                    \
  X(kPsPullRefused, "ps: refuses a pull of partitions it does not serve")                       \
  X(kPsPullOverloaded, "ps: refuses a pull because all reply buffers are in use")               \
  X(kPsPartNotServed, "ps: refuses a part of a partition it does not serve")                    \
  X(kPsPartAwaitsMarkers, "ps: refuses a part until the quarantine markers are known")          \
  X(kPsPartOldView, "ps: refuses a part under a view older than its ownership")                 \
  X(kPsPartSealed, "ps: refuses a part of a sealed epoch")                                      \
  X(kPsPartAlreadyApplied, "ps: acknowledges a part that it has already applied")               \
  X(kPsPartGap, "ps: refuses a part that comes before an earlier batch")                        \
  X(kPsPartQuarantine, "ps: refuses a part that disagrees about quarantined batches")           \
  X(kPsPullUnknown, "ps: refuses a push whose pull it has forgotten")                           \
  X(kPsFragmentStaged, "ps: keeps a fragment until the part is complete")                       \
  X(kPsFragmentRepeated, "ps: ignores a duplicate fragment")                                    \
  X(kPsStageReplaced, "ps: drops fragments of a part that was divided differently")             \
  X(kPsStageDropped, "ps: drops fragments that are too old or use too much memory")             \
  X(kPsSumsDiffer, "ps: finds records that differ from the first read")                         \
  /* ps: synchronous steps */                                                                   \
  X(kPsStepStaged, "ps: stages a part until its step is committed")                             \
  X(kPsStepStagedAgain, "ps: receives a part of a step that it has already staged")             \
  X(kPsStepRefused, "ps: has no room for a part, and asks for it when its turn has come")       \
  X(kPsStepCleared, "ps: drops the staged parts because its partitions have changed")           \
  X(kPsStepLeftOut, "ps: drops a staged batch that the step leaves out")                        \
  X(kPsCommitRepeated, "ps: answers a repeated Commit")                                         \
  /* ps: checkpoints and moves */                                                               \
  X(kPsSaveAnswered, "ps: answers a repeated Save from memory")                                 \
  X(kPsSaveRepeated, "ps: answers a repeated Save once the images are written")                 \
  X(kPsSaveLate, "ps: ignores a Save of an older checkpoint")                                   \
  X(kPsSaveGone, "ps: fails a Save whose partition was taken away")                             \
  X(kPsSnapshotLost, "ps: saves again the rows of an unpublished checkpoint")                   \
  X(kPsImageBeyondPartialEpoch, "ps: reports an image with more epochs than its checkpoint")    \
  X(kPsFreezeRepeated, "ps: answers a repeated Freeze")                                         \
  X(kPsFreezeOld, "ps: refuses a Freeze under a view it has passed")                            \
  X(kPsFreezeNotServed, "ps: refuses a Freeze of what it does not serve")                       \
  X(kPsExportFailed, "ps: serves its partitions again after a move failed to write images")     \
  X(kPsFrozenReturns, "ps: serves a frozen partition again under a later view")                 \
  X(kPsMarkerLate, "ps: reports that it has applied a batch that should be quarantined")        \
  /* chief: members and claims */                                                               \
  X(kChiefOtherRun, "chief: rejects a message of another run")                                  \
  X(kChiefNewerTermClaimed, "chief: ignores a message of a newer term")                         \
  X(kChiefUnknownPeer, "chief: asks an unknown peer to say Hello")                              \
  X(kChiefMemberBack, "chief: hears from a silent member again")                                \
  X(kChiefRebound, "chief: knows a member on a new connection by its heartbeat")                \
  X(kChiefHelloAgain, "chief: repeats its Welcome")                                             \
  X(kChiefIndexConflictWaits, "chief: waits for a member whose index another claims")           \
  X(kChiefIndexConflictReplaced, "chief: replaces a member by a newer process")                 \
  X(kChiefIndexConflictRefused, "chief: refuses a process because the member lives")            \
  X(kChiefClaimSealedAhead, "chief: rejects a claim with more sealed epochs than the manifest") \
  X(kChiefClaimStale, "chief: rejects a claim older than the checkpoint")                       \
  X(kChiefClaimOutdone, "chief: prefers a claim under a later view")                            \
  X(kChiefClaimOtherData, "chief: drops a claim of another plan")                               \
  X(kChiefOtherData, "chief: refuses to continue with changed data")                            \
  X(kChiefSuperseded, "chief: stops for a newer chief")                                         \
  /* chief: ownership */                                                                        \
  X(kChiefAdoptedLate, "chief: ignores an Adopted that nothing waits for")                      \
  X(kChiefAdoptTimeout, "chief: evicts a ps that does not adopt its partitions")                \
  X(kChiefPsReturns, "chief: a lost ps returns and keeps its partitions")                       \
  X(kChiefStaleCopy, "chief: a lost ps returns with a stale copy")                              \
  X(kChiefFrozenReturns, "chief: the lost source of a move returns")                            \
  X(kChiefDamage, "chief: finds a damaged checkpoint while it restores")                        \
  X(kChiefDamageSome, "chief: restores some partitions from an older checkpoint")               \
  X(kChiefDamageAll, "chief: restores all partitions from an older checkpoint")                 \
  X(kChiefRoundInterrupted, "chief: drops a round because ownership changed")                   \
  X(kChiefRoundVoid, "chief: voids a round by a reply under another view")                      \
  X(kChiefRoundLate, "chief: ignores a late reply to a round")                                  \
  X(kChiefRollsBack, "chief: reopens a complete epoch after a loss")                            \
  X(kChiefLacking, "chief: leases shards again that a partition lacks")                         \
  X(kChiefPartialEpochReopened, "chief: reopens the last, partial epoch")                       \
  X(kChiefStagedLate, "chief: ignores staged parts of another view")                            \
  X(kChiefStagedEarly, "chief: waits with a step for an earlier shard of a replica")            \
  X(kChiefAllReturn, "chief: returns all partitions to the newest checkpoint")                  \
  X(kChiefEndedLate, "chief: ignores the end of a shard that a rollback has made void")         \
  X(kChiefReplicaStalls, "chief: revokes the leases of replicas for which a step waits")        \
  X(kChiefReplicaMoves, "chief: gives a replica that was left out to another worker")           \
  X(kChiefSavedLate, "chief: ignores a Saved that nothing waits for")                           \
  X(kChiefSaveAbandoned, "chief: abandons a checkpoint because ownership changed")              \
  X(kChiefSaveFailed, "chief: abandons a checkpoint that failed")                               \
  X(kChiefFrozenLate, "chief: ignores a Frozen that nothing waits for")                         \
  X(kChiefMoveCancelled, "chief: cancels a move")                                               \
  /* chief: leases and quarantine */                                                            \
  X(kChiefGrantRepeated, "chief: repeats a lost grant")                                         \
  X(kChiefLeaseExpired, "chief: takes back the leases of a silent worker")                      \
  X(kChiefLeaseIdle, "chief: revokes a lease without progress")                                 \
  X(kChiefLeaseNotHeld, "chief: revokes a lease that its worker does not hold")                 \
  X(kChiefLeaseTakenUp, "chief: keeps a lease that an earlier chief granted")                   \
  X(kChiefBackupLease, "chief: leases a straggler's shard a second time")                       \
  X(kChiefQuarantined, "chief: quarantines a batch")                                            \
  X(kChiefWithdrawn, "chief: withdraws a quarantine marker")                                    \
  X(kChiefMarkersAsked, "chief: asks all partitions about markers it does not know")            \
  X(kChiefNotReplayable, "chief: finds a stream that is not replayable")                        \
  X(kChiefRecordsDiffer, "chief: finds partitions that applied different records")              \
  /* worker */                                                                                  \
  X(kWorkerOldTerm, "worker: ignores a chief of an older term")                                 \
  X(kWorkerOtherRun, "worker: ignores a message of another run")                                \
  X(kWorkerOtherData, "worker: exits because the chief reads other data")                       \
  X(kWorkerViewEarly, "worker: ignores a view before its Welcome")                              \
  X(kWorkerViewOld, "worker: ignores a repeated or late view")                                  \
  X(kWorkerGrantLate, "worker: ignores a late grant")                                           \
  X(kWorkerGrantSame, "worker: continues a shard that is leased to it again")                   \
  X(kWorkerReplyLate, "worker: ignores a late reply")                                           \
  X(kWorkerRegroups, "worker: regroups a push by a newer view")                                 \
  X(kWorkerGapWaits, "worker: waits for an earlier batch")                                      \
  X(kWorkerGapReturns, "worker: goes back to an earlier batch")                                 \
  X(kWorkerJumps, "worker: skips batches that every partition has applied")                     \
  X(kWorkerFragmentsAgain, "worker: sends fragments again if the ps did not receive all")       \
  X(kWorkerShardReturned, "worker: returns a shard that disagrees about quarantine")            \
  X(kWorkerWaitsForFloor, "worker: waits for slower workers")                                   \
  X(kWorkerPullsDiscarded, "worker: discards what it pulled before its leases expired")         \
  X(kWorkerStepsDiffer, "worker: pulls again because the partitions are at different steps")    \
  X(kWorkerLeftOut, "worker: computes a batch again because its step has left it out")          \
  X(kWorkerRolledBack, "worker: pulls again because all partitions have new owners or states")  \
  /* files */                                                                                   \
  X(kFileManifestSkipped, "checkpoint: skips a manifest that is damaged or incomplete")         \
  X(kFileTermTaken, "checkpoint: refuses to publish under an older term")

enum class Defence : uint8_t {
#define DP_ENUMERATOR(name, text) name,
  DP_DEFENCES(DP_ENUMERATOR)
#undef DP_ENUMERATOR
      kCount
};
constexpr size_t kDefences = size_t(Defence::kCount);

constexpr std::array<std::string_view, kDefences> kDefenceTexts = {
#define DP_TEXT(name, text) text,
    DP_DEFENCES(DP_TEXT)
#undef DP_TEXT
};

using DefenceCounts = std::array<uint64_t, kDefences>;

/// Returns the counts of this thread since it started. The simulator runs all processes on one
/// thread.
inline DefenceCounts& defence_counts() {
  // No decision depends on these counters, so the cores remain functions of their events.
  static thread_local DefenceCounts
      counts{};  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)
  return counts;
}

/// Counts one action of the fence.
inline void defended(Defence defence) { ++defence_counts()[size_t(defence)]; }

}  // namespace downpour
