#include "tools/sim/profiles.h"

#include <algorithm>
#include <array>

#include "tools/sim/model_job.h"

namespace downpour::sim {
namespace {

using enum Defence;

constexpr std::array<Defence, 0> kNone{};

// Each fence is listed for the profile that reaches it most often.
constexpr std::array kModel = {kPsFragmentStaged, kPsFragmentRepeated, kPsStageReplaced,
                               kPsPullOverloaded, kPsStageDropped,     kWorkerFragmentsAgain};
constexpr std::array kMoves = {
    kPsAdoptHeld,        kPsViewOld,          kPsViewDrops,       kPsPullRefused,
    kPsPartNotServed,    kPsPartOldView,      kPsPartSealed,      kPsPullUnknown,
    kPsSaveAnswered,     kPsSnapshotLost,     kPsFreezeRepeated,  kPsExportFailed,
    kPsFrozenReturns,    kPsAdoptOld,         kPsFreezeOld,       kPsSaveLate,
    kChiefMemberBack,    kChiefAdoptedLate,   kChiefAdoptTimeout, kChiefPsReturns,
    kChiefStaleCopy,     kChiefFrozenReturns, kChiefFrozenLate,   kChiefMoveCancelled,
    kChiefGrantRepeated, kChiefLeaseExpired,  kChiefLeaseIdle,    kChiefLeaseNotHeld,
    kChiefBackupLease,   kWorkerViewOld,      kWorkerGrantLate,   kWorkerGrantSame,
    kWorkerReplyLate,    kWorkerRegroups};
constexpr std::array kSlowTasks = {kPsViewKeepsComing, kPsViewEndsLoad,    kPsSealedAhead,
                                   kPsSaveRepeated,    kChiefClaimOutdone, kChiefRoundInterrupted,
                                   kChiefRoundVoid,    kChiefRoundLate};
constexpr std::array kOldChiefs = {
    kPsOtherRun,      kPsOldTerm,       kPsChiefSilent, kChiefOtherRun,  kChiefRebound,
    kChiefHelloAgain, kChiefSuperseded, kWorkerOldTerm, kWorkerOtherRun, kFileTermTaken};
constexpr std::array kQuarantine = {kPsPartAlreadyApplied,    kChiefUnknownPeer,
                                    kChiefIndexConflictWaits, kChiefIndexConflictRefused,
                                    kChiefQuarantined,        kWorkerJumps};
constexpr std::array kFlaky = {kPsMarkerLate, kChiefWithdrawn};
constexpr std::array kDamage = {kPsAdoptRepeated, kPsLoadSuperseded,      kPsLoadFailed,
                                kPsSaveGone,      kChiefClaimSealedAhead, kChiefDamage,
                                kChiefDamageSome, kChiefRollsBack,        kChiefSavedLate,
                                kChiefSaveFailed, kWorkerGapWaits,        kFileManifestSkipped};
constexpr std::array kDamagedEpochs = {kChiefDamageAll};
constexpr std::array kChangingData = {kPsPartAwaitsMarkers, kPsPartGap, kChiefLacking,
                                      kChiefLeaseTakenUp, kWorkerGapReturns};
constexpr std::array kExtendedRun = {kChiefClaimOtherData, kChiefOtherData, kWorkerOtherData};
constexpr std::array kUnreplayable = {kPsSumsDiffer, kChiefIndexConflictReplaced,
                                      kChiefRecordsDiffer};
constexpr std::array kUnreplayableProgram = {kChiefNotReplayable};
constexpr std::array kInputProgram = {kWorkerViewEarly};
constexpr std::array kDisk = {kChiefSaveAbandoned};
constexpr std::array kNfsChiefs = {kChiefNewerTermClaimed};

constexpr std::array kSlowLoads = {kPsAdoptTakesOver};
constexpr std::array kPartialEpochs = {kPsImageBeyondPartialEpoch, kChiefPartialEpochReopened};
constexpr std::array kLostMoves = {kPsFreezeNotServed};
constexpr std::array kLostOwners = {kPsPartQuarantine, kChiefMarkersAsked, kWorkerShardReturned};
constexpr std::array kBounded = {kWorkerWaitsForFloor, kWorkerPullsDiscarded};
constexpr std::array kSync = {kPsStepStaged,       kPsStepStagedAgain, kPsStepCleared,
                              kChiefAllReturn,     kChiefStagedLate,   kChiefStagedEarly,
                              kChiefReplicaStalls, kWorkerRolledBack};
constexpr std::array kSyncRoom = {kPsStepRefused};
constexpr std::array kLostCommits = {kPsCommitRepeated, kWorkerStepsDiffer};
constexpr std::array kBackups = {kPsStepLeftOut, kChiefReplicaMoves, kWorkerLeftOut};
constexpr std::array kDamagedSteps = {kChiefEndedLate};
constexpr std::array kLostViews = {kChiefClaimStale};

const std::array kProfiles = {
    Profile{.name = "chaos", .says = "every common fault", .faults = "chaos", .defences = kNone},
    Profile{.name = "model",
            .says = "Adam, two tables, dense variables, fragments, evaluation, small limits",
            .model = true,
            .faults = "chaos,small-limits",
            .defences = kModel},
    Profile{.name = "moves",
            .says = "ps join and leave, and sources vanish during a move",
            .size = {.shards = 24},
            .faults =
                "join-ps=2s,join-ps,pause-ps=700ms,deaf=1s,one-way=1s,early-timeouts,delay=2%,"
                "duplicate=2%,full-disk,ps.Adopt:repeat=20%,ps.Freeze:repeat=20%,"
                "ps.Save:repeat=20%,ends",
            .defences = kMoves},
    Profile{.name = "slow-tasks",
            .says = "loading and saving take seconds while owners change",
            .size = {.shards = 24, .checkpoint_steps = 12},
            .faults = "slow-tasks,kill-ps=1s,pause-ps=1s,zombie-ps=2s,deaf=1s,lost-view,"
                      "early-timeouts,kill-chief=3s,join-ps=3s,duplicate=3%,delay=3%,ends",
            .defences = kSlowTasks},
    Profile{.name = "old-chiefs",
            .says = "replaced chiefs still run, and messages of other runs arrive",
            .size = {.shards = 24, .checkpoint_steps = 12, .chief_silence_s = 3},
            .faults =
                "zombie-chief=1s,pause-chief=2s,flap=500ms,kill-ps=3s,pause-ps=2s,reset=500ms,"
                "late-mail,foreign,delay=3%,duplicate=2%,ends",
            .defences = kOldChiefs},
    Profile{.name = "steps",
            .says = "a job that ends inside an epoch, with workers of an earlier chief",
            .size = {.steps = 70},
            .faults =
                "pause-worker=300ms,zombie-worker=700ms,kill-chief=900ms,lost-lease,deaf=700ms,"
                "kill-ps=3s,delay=3%,ends",
            .defences = kNone},
    Profile{.name = "quarantine",
            .says = "batches that kill workers or give NaN",
            .faults = "poison,kill-worker,kill-ps,kill-chief=1s,zombie-worker=700ms,zombie-ps,"
                      "kill-in-phase,early-timeouts,duplicate=2%,delay=3%,drop=0.5%,ends",
            .defences = kQuarantine},
    Profile{.name = "flaky",
            .says = "batches that kill their first workers, mostly after their pushes left",
            .faults = "flaky,poison,kill-worker,kill-ps,kill-chief=700ms,zombie-worker=500ms,"
                      "early-timeouts,deaf=200ms,StatusReply:kill-receiver=3%,delay=3%,drop=0.5%,"
                      "ends",
            .defences = kFlaky},
    Profile{.name = "damage",
            .says = "bits of the newest checkpoint flip, and a process that needs it is lost",
            .size = {.epochs = 4, .checkpoint_steps = 12},
            .faults = "damage=500ms,pause-ps=1s,zombie-ps,join-ps,read-error,full-disk,"
                      "early-timeouts,drop=0.5%,ends",
            .defences = kDamage},
    Profile{.name = "damaged-epochs",
            .says = "as damage, where each checkpoint seals an epoch",
            .size = {.shards = 5, .epochs = 10},
            .faults = "damage=300ms,kill-ps=700ms,join-ps,early-timeouts,drop=0.5%,ends",
            .defences = kDamagedEpochs},
    Profile{
        .name = "changing-data",
        .says = "other data files under a running job",
        .size = {.shards = 24},
        .faults = "change-data,kill-chief,kill-ps,kill-worker,pause-ps,zombie-chief,drop=0.5%,ends",
        .defences = kChangingData},
    Profile{.name = "extended-run",
            .says = "a chief that starts with more epochs and other data",
            .size = {.shards = 6, .epochs = 1},
            .faults = "extend-run,worker.Stop:lose=70%,ps.Stop:lose=70%,pause-ps,kill-ps,drop=0.5%,"
                      "ends",
            .defences = kExtendedRun},
    Profile{.name = "unreplayable",
            .says = "sources that give other records when they are read again",
            .faults = "unreplayable,kill-worker,kill-ps,zombie-worker,drop=0.5%,ends",
            .defences = kUnreplayable},
    Profile{.name = "unreplayable-program",
            .says = "a program that gives other records before a shard when it runs again",
            .size = {.program = true},
            .faults = "unreplayable,kill-worker=500ms,kill-ps,zombie-worker=500ms,drop=0.5%,ends",
            .defences = kUnreplayableProgram},
    Profile{.name = "inputs",
            .says = "input processes that die, stall and slow down",
            .faults = "chaos,kill-input,pause-input",
            .inputs = 3,
            .defences = kNone},
    Profile{.name = "input-program",
            .says = "a program of unknown length, read by an input process that dies",
            .size = {.program = true},
            .faults = "chaos,kill-input",
            .inputs = 1,
            .defences = kInputProgram},
    Profile{.name = "nfs",
            .says = "outdated folder listings (NFS)",
            .size = {.checkpoint_steps = 12},
            .faults =
                "stale-names,kill-chief=1s,zombie-chief,kill-ps=1s,zombie-ps,kill-in-write=500ms,"
                "reset,ends",
            .defences = kNone},
    Profile{.name = "disk",
            .says = "power loss, and fsyncs that do not persist data",
            .size = {.checkpoint_steps = 12},
            .faults = "lying-fsync,power,kill-in-write=500ms,kill-ps=1s,read-error,slow-disk,ends",
            .defences = kDisk},
    Profile{.name = "nfs-chiefs",
            .says = "earlier chiefs with outdated folder listings (NFS)",
            .size = {.checkpoint_steps = 12, .chief_silence_s = 3},
            .faults = "stale-names,zombie-chief=500ms,flap=200ms,ends",
            .defences = kNfsChiefs},
    Profile{.name = "slow-loads",
            .says = "another chief while images are loaded",
            .faults = "slow-tasks,kill-ps=20s,kill-chief=30s",  // the first checkpoint takes 10 s
            .defences = kSlowLoads},
    Profile{.name = "partial-epochs",
            .says = "a job of several streams that ends inside its first epoch",
            .size = {.files = 3, .sharding = "data", .steps = 22},
            .faults = "kill-chief=1500ms,pause-worker=150ms,worker.LeaseGrant:pause=5%,"
                      "ps.Save:lose=90%,early-timeouts,ends",
            .defences = kPartialEpochs},
    Profile{.name = "lost-moves",
            .says = "cancelled moves whose source does not learn of it",
            .faults = "join-ps=150ms,chief.Frozen:lose=95%,ps.View:lose=97%,ends",
            .defences = kLostMoves},
    Profile{.name = "lost-owners",
            .says = "a lost ps that still serves workers while batches are quarantined",
            .faults = "flaky,poison,ps.Sealed:stall=10%,early-timeouts,worker.View:lose=85%,"
                      "ps.View:lose=85%,ends",
            .defences = kLostOwners},
    Profile{.name = "lost-views",
            .says = "chiefs die, and a ps does not learn of its partitions' moves",
            .faults = "join-ps=500ms,ps.View:lose=60%,kill-chief=500ms,zombie-chief=1s,ends",
            .defences = kLostViews},
    Profile{.name = "bounded",
            .says = "workers at most one batch ahead of the slowest one",
            .size = {.staleness = 1},
            .faults = "chaos",
            .defences = kBounded},
    Profile{.name = "sync",
            .says = "synchronous steps of six replicas",
            .size = {.shards = 24, .replicas = 6},
            .faults = "chaos",
            .defences = kSync},
    Profile{.name = "sync-steps",
            .says = "synchronous steps, and a job that ends inside its second epoch",
            .size = {.shards = 23,
                     .batches = 5,
                     .files = 3,
                     .checkpoint_steps = 12,
                     .replicas = 6,
                     .steps = 26},
            .faults = "kill-ps=4s,kill-chief=4s,kill-worker=1s,zombie-worker=1s,pause-worker=700ms,"
                      "lost-lease,deaf=2s,join-ps=2s,delay=3%,duplicate=2%,drop=0.5%,ends",
            .defences = kNone},
    Profile{
        .name = "sync-streams",
        .says = "synchronous steps of six replicas, each with files of its own",
        .size =
            {.shards = 24, .files = 9, .sharding = "file", .checkpoint_steps = 12, .replicas = 6},
        .faults = "chaos",
        .defences = kNone},
    Profile{.name = "sync-inputs",
            .says = "synchronous steps of six replicas, whose shards input processes read",
            .size = {.shards = 24, .checkpoint_steps = 12, .replicas = 6},
            .faults = "chaos,kill-input,pause-input",
            .inputs = 3,
            .defences = kNone},
    Profile{.name = "sync-program",
            .says = "synchronous steps of six replicas on a program of unknown length",
            .size = {.shards = 24, .checkpoint_steps = 12, .replicas = 6, .program = true},
            .faults = "chaos",
            .defences = kNone},
    Profile{.name = "sync-quarantine",
            .says = "synchronous steps of six replicas, and batches that kill workers or give NaN",
            .size = {.shards = 24, .checkpoint_steps = 12, .replicas = 6},
            .faults = "poison,kill-worker=2s,kill-ps=4s,kill-chief=4s,zombie-worker=1s,delay=3%,"
                      "duplicate=2%,drop=0.5%,ends",
            .defences = kNone},
    Profile{.name = "bounded-inputs",
            .says = "as bounded, with input processes",
            .size = {.staleness = 1},
            .faults = "chaos,kill-input,pause-input",
            .inputs = 3,
            .defences = kNone},
    Profile{.name = "lost-commits",
            .says = "synchronous steps whose messages are lost, repeated and late",
            .size = {.shards = 24, .checkpoint_steps = 12, .replicas = 6},
            .faults = "ps.Commit:lose=8%,ps.Commit:repeat=8%,chief.Staged:lose=5%,"
                      "chief.Committed:lose=5%,kill-worker=2s,kill-ps=4s,zombie-worker=1s,deaf=2s,"
                      "join-ps=1s,kill-chief=5s,delay=3%,duplicate=3%,"
                      "drop=0.5%,ends",
            .defences = kLostCommits},
    Profile{.name = "sync-norms",
            .says = "as lost-commits, with steps whose gradients have a limited norm",
            .size = {.shards = 24,
                     .checkpoint_steps = 12,
                     .replicas = 6,
                     .global_norm = uint64_t{1} << 33},  // the norm of 16 records
            .faults = "ps.Commit:lose=8%,ps.Commit:repeat=8%,chief.Staged:lose=5%,"
                      "chief.Committed:lose=5%,chief.Committed:repeat=8%,kill-worker=2s,"
                      "kill-ps=4s,zombie-worker=1s,deaf=2s,join-ps=1s,kill-chief=5s,delay=3%,"
                      "duplicate=3%,drop=0.5%,ends",
            .defences = kNone},
    Profile{.name = "sync-room",
            .says = "synchronous steps of ps with room for few parts",
            .size = {.shards = 24, .replicas = 6},
            .faults = "chaos,small-limits",
            .defences = kSyncRoom},
    Profile{.name = "backups",
            .says = "synchronous steps that leave out up to two of six replicas",
            .size = {.shards = 24, .replicas = 6, .backups = 2},
            .faults = "chaos",
            .defences = kBackups},
    Profile{.name = "lost-backups",
            .says = "as lost-commits, with steps that leave out up to two of six replicas",
            .size = {.shards = 24, .checkpoint_steps = 12, .replicas = 6, .backups = 2},
            .faults = "ps.Commit:lose=8%,ps.Commit:repeat=8%,chief.Staged:lose=5%,"
                      "chief.Committed:lose=5%,chief.Committed:repeat=5%,worker.PushReply:lose=3%,"
                      "ps.Push:repeat=5%,straggler=2s,kill-worker=2s,kill-ps=4s,zombie-worker=1s,"
                      "deaf=2s,join-ps=1s,kill-chief=5s,delay=3%,duplicate=3%,drop=0.5%,ends",
            .defences = kNone},
    Profile{.name = "local",
            .says = "six replicas that train three batches alone, and outer momentum",
            .size = {.shards = 23, .batches = 10, .files = 3, .replicas = 6, .sync_every = 3},
            .faults = "chaos",
            .defences = kNone},
    Profile{.name = "local-touched",
            .says = "as local, with the mean of the replicas that have touched a row",
            .size = {.shards = 23,
                     .batches = 10,
                     .files = 3,
                     .replicas = 6,
                     .sync_every = 3,
                     .touched = true},
            .faults = "chaos",
            .defences = kNone},
    Profile{.name = "local-epochs",
            .says = "six replicas that train their shares of each of eight epochs alone",
            .size = {.shards = 23,
                     .batches = 10,
                     .epochs = 8,
                     .files = 3,
                     .checkpoint_steps = 4,
                     .replicas = 6,
                     .whole_epochs = true},
            .faults = "chaos",
            .defences = kNone},
    Profile{
        .name = "lost-rounds",
        .says = "as lost-commits, with replicas that train three batches alone",
        .size =
            {.shards = 24, .batches = 10, .checkpoint_steps = 12, .replicas = 6, .sync_every = 3},
        .faults = "ps.Commit:lose=8%,ps.Commit:repeat=8%,chief.Staged:lose=5%,"
                  "chief.Committed:lose=5%,kill-worker=2s,kill-ps=4s,zombie-worker=1s,deaf=2s,"
                  "join-ps=1s,kill-chief=5s,delay=3%,duplicate=3%,drop=0.5%,ends",
        .defences = kNone},
    Profile{.name = "mixed",
            .says = "synchronous steps for a bias, and weights that are applied on arrival",
            .size = {.shards = 24, .replicas = 6, .mixed = true},
            .faults = "chaos",
            .defences = kNone},
    Profile{.name = "lost-mixed",
            .says = "as lost-commits, with weights that are applied on arrival",
            .size = {.shards = 24, .checkpoint_steps = 12, .replicas = 6, .mixed = true},
            .faults = "ps.Commit:lose=8%,ps.Commit:repeat=8%,chief.Staged:lose=5%,"
                      "chief.Committed:lose=5%,ps.Push:lose=5%,worker.PushReply:lose=5%,"
                      "kill-worker=1s,kill-ps=4s,zombie-worker=1s,deaf=2s,join-ps=1s,"
                      "kill-chief=5s,delay=3%,duplicate=3%,drop=0.5%,ends",
            .defences = kNone},
    Profile{.name = "damaged-steps",
            .says = "synchronous steps, as damage: all partitions return to the older checkpoint",
            .size = {.shards = 24, .checkpoint_steps = 12, .replicas = 6},
            .faults = "damage=500ms,pause-ps=1s,kill-ps=2s,chief.ShardProgress:repeat=30%,"
                      "early-timeouts,drop=0.5%,ends",
            .defences = kDamagedSteps},
};

}  // namespace

std::span<const Profile> profiles() { return kProfiles; }

const Profile* find_profile(std::string_view name) {
  const auto* const at = std::ranges::find(kProfiles, name, &Profile::name);
  return at == kProfiles.end() ? nullptr : at;
}

Result<SimulatorOptions> options_of(const Profile& profile) {
  constexpr uint64_t kModelMessageBytes = 96;  // many parts of a batch are larger than this
  const auto make_job = profile.model ? make_model_job : make_counter_job;
  SimulatorOptions options;
  options.check_values = true;
  options.ps = profile.model ? 2 : 4;
  options.workers = profile.model ? 6 : 8;
  options.inputs = profile.inputs;
  if (profile.model) {
    options.ps_cores = 2;
    options.message_bytes_max = kModelMessageBytes;
  }
  DP_TRY(options.job, make_job(profile.size));
  DP_TRY(options.faults, parse_faults(profile.faults));
  // The oracle does not know the means of local rounds of which one is left out.
  if (profile.size.replicas > 0 && options.faults.swarm)
    options.faults.kinds.erase(FaultKind::kPoison);
  const bool extends = options.faults.kinds.contains(FaultKind::kExtendRun);
  if (extends || options.faults.kinds.contains(FaultKind::kChangeData)) {
    JobSize other = profile.size;
    other.reversed = true;
    other.epochs += extends ? 1 : 0;
    DP_TRY(options.other_job, make_job(other));
  }
  return options;
}

Result<Simulator> make_simulator(const Profile& profile) {
  DP_TRY(SimulatorOptions options, options_of(profile));
  // Batches take so long that the training lasts until the faults happen. Under chaos each seed
  // draws the time instead.
  if (!options.faults.swarm) options.batch_ns = 60 * kMillisecond;
  return Simulator::make(std::move(options));
}

std::vector<Defence> too_rare(const Profile& profile, const DefenceCounts& runs_with,
                              uint64_t seeds) {
  std::vector<Defence> rare;
  for (const Defence defence : profile.defences) {
    if (100 * runs_with[size_t(defence)] < seeds) rare.push_back(defence);
  }
  return rare;
}

}  // namespace downpour::sim
