// Faults: what goes wrong in a simulated run, drawn from its seed beforehand, so that a run can be
// repeated with some of them left out.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "shared/base/result.h"
#include "shared/base/rng.h"
#include "shared/base/units.h"
#include "shared/wire/messages.h"

namespace downpour::sim {

enum class FaultKind : uint8_t {
  // chances per message
  kDrop,
  kDuplicate,
  kDelay,
  // moments
  kKillWorker,
  kKillPs,
  kKillChief,
  kPauseWorker,
  kPausePs,
  kPauseChief,
  kZombieWorker,  // paused, its replacement begun, both run in the end
  kZombiePs,
  kZombieChief,
  kPartition,  // nothing between two processes
  kOneWay,     // nothing from one to the other
  kClog,       // a process's connections stop one by one, and go on in random order
  kReset,      // connections break
  kClock,      // the clock of a process jumps
  kStraggler,  // a worker computes ten times as long from now on
  kSlowDisk,
  kFullDisk,
  kFsync,        // fsync answers EIO
  kKillInWrite,  // a process ends at one of its next changes of the disk
  kKillInPhase,  // a process ends as a message of some kind arrives
  kPower,        // everything ends at once, unsynced writes are lost or torn
  kJoinPs,       // another ps comes, and leaves after a while
  kFlip,         // one bit of a checkpoint that is not the newest, or of an image on its way
  kLoseWorker,   // killed, and none is started in its place
  kDeaf,         // a ps or worker does not hear the chief
  kFlap,         // the chief's address leads to a former chief
  kSlowPs,       // a ps takes two thousand times as long for a message from now on
  // for the whole run
  kTinyQueues,     // eight messages fit a connection
  kEarlyTimeouts,  // members and leases are given up after a fraction of their time
  kLostLease,      // grants and revocations of leases get lost
  kLostView,       // views get lost
  kLateManifest,   // manifests take a second to write
  kPoison,         // some records kill the worker that computes them, or give a loss of NaN
  // moments of input processes; last, so that the kinds before keep what a seed draws for them
  kKillInput,
  kPauseInput,
  kZombieInput,
  kSlowInput,  // takes twenty thousand times as long for a batch from now on
  kLateMail,   // what was under way in a connection that breaks may still arrive
  // only where they are asked for by name
  kDamage,        // a bit of the newest checkpoint flips, while an older one is whole
  kReadError,     // reads of the disk answer EIO for a while
  kChangeData,    // chiefs that start meet other data files for a while
  kUnreplayable,  // for the whole run: some shards give other records when they are read again
  kLyingFsync,    // for the whole run: some fsyncs answer before the bytes are durable
  kSlowTasks,     // for the whole run: a background task of a process takes up to four seconds
  kForeign,       // for the whole run: some messages come again under the id of another run
  kStaleNames,    // for the whole run: a listed folder is up to a second old, as over NFS
  kSmallLimits,   // for the whole run: a ps keeps few replies and few fragments
  kExtendRun,     // for the whole run: as all epochs are sealed, a chief with more and other data
                  // starts
  kFlaky,         // for the whole run: some records kill the first workers that compute them
  kCount
};
constexpr size_t kFaultKinds = size_t(FaultKind::kCount);

std::string_view fault_name(FaultKind kind);
std::optional<FaultKind> parse_fault(std::string_view name);
bool is_rate(FaultKind kind);    // a chance per message
bool is_moment(FaultKind kind);  // happens at times; else: for the whole run
bool in_chaos(FaultKind kind);   // one of those that `chaos` stands for

/// What happens with some chance to each message of a kind as it arrives: "worker.View:lose=90%".
struct FaultPoint {
  enum class Action : uint8_t {
    kLose,
    kKillSender,
    kKillReceiver,
    kRepeat,  // a copy arrives later
    kPause,   // the receiver stands still for a while
    kStall,   // what the receiver sends to the sender from now on waits for a while
  };
  std::optional<wire::Role> to;  // only if it goes there
  size_t body = 0;               // an index into wire::Body
  Action action = Action::kLose;
  double chance = 0;
};

/// What the user asked for. Empty: nothing goes wrong.
struct FaultSpec {
  struct Setting {
    double rate = 0;  // rates
    int64_t period_ns =
        0;  // moments: mean time between two; 0: a few in the beginning, then never again
    bool always = true;  // else each seed switches it on or off, and draws how often
  };
  bool swarm = false;  // `chaos` is among them
  bool ends = false;   // after a random time all is well again, whatever is in the list
  std::map<FaultKind, Setting> kinds;
  std::vector<FaultPoint> points;
  bool empty() const { return kinds.empty() && points.empty(); }
};
/// "none", or a list of kinds "kill-ps=10m,drop=1%,delay,worker.View:lose=90%", in which `light`
/// and `chaos` stand for several; `ends` ends them all after some seconds. Errors: kUsage naming
/// what is unknown.
Result<FaultSpec> parse_faults(std::string_view text);

/// How long a fault of the kind lasts that is not over at once; of a kill: until the process is
/// started again.
int64_t draw_duration(FaultKind kind, Rng& rng);

/// Leaves out what happens to input processes only, for a cluster that has none.
void leave_out_inputs(FaultSpec& spec);

struct FaultEvent {
  int64_t at_ns = 0;
  FaultKind kind{};
  uint64_t pick = 0;        // which process, which message, how: whatever there is a choice of
  int64_t duration_ns = 0;  // of what ends again
};

struct FaultPlan {
  std::array<bool, kFaultKinds> on{};
  double drop = 0, duplicate = 0, delay = 0;
  std::vector<FaultPoint> points;
  std::vector<FaultEvent> events;  // by time
  int64_t heal_ns = 0;             // then all is well again; INT64_MAX: never
  bool empty() const { return events.empty() && drop + duplicate + delay == 0 && heal_ns == 0; }
};
FaultPlan make_plan(const FaultSpec& spec, uint64_t seed);

/// The plan without these kinds, and of the moments only those whose place in `events` is listed
/// (nullopt: all).
FaultPlan reduced(const FaultPlan& plan, const std::vector<FaultKind>& without,
                  const std::optional<std::vector<uint32_t>>& moments);

}  // namespace downpour::sim
