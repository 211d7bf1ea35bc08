// Faults: the faults of a simulated run. They are drawn from the seed before the run, so that a run
// can be repeated without some of them.
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
#include "shared/wire/member_messages.h"

namespace downpour::sim {

/// The kinds of faults. docs/simulation.md describes each of them.
enum class FaultKind : uint8_t {
  // probabilities per message
  kDrop,
  kDuplicate,
  kDelay,
  // events at a point in time
  kKillWorker,
  kKillPs,
  kKillChief,
  kPauseWorker,
  kPausePs,
  kPauseChief,
  kZombieWorker,  // paused and replaced; finally both run
  kZombiePs,
  kZombieChief,
  kPartition,  // two processes can't reach each other
  kOneWay,     // one process can't reach another
  kClog,       // connections of a process stop one by one and resume in random order
  kReset,      // connections break
  kClock,      // the clock of a process jumps
  kStraggler,  // from now on a worker computes ten times as long
  kSlowDisk,
  kFullDisk,
  kFsync,        // fsync fails with EIO
  kKillInWrite,  // a process ends before one of its next changes of the disk
  kKillInPhase,  // a process ends when a message of a certain kind arrives
  kPower,        // all processes end at once; unsynced writes are lost or torn
  kJoinPs,       // another ps joins, and leaves after a while
  kFlip,         // a bit flips in an old checkpoint, or in an image that is being moved
  kLoseWorker,   // a worker is killed and not replaced
  kDeaf,         // a ps, worker or input process does not receive the chief's messages
  kFlap,         // the chief's address leads to a former chief
  kSlowPs,       // from now on a ps takes two thousand times as long per message
  // for the whole run
  kTinyQueues,     // a connection holds at most eight messages
  kEarlyTimeouts,  // time limits of members, leases and requests are a fraction of the usual ones
  kLostLease,      // grants and revocations of leases are lost
  kLostView,       // views are lost
  kLateManifest,   // writing a manifest takes one second longer
  kPoison,         // some records kill the worker that computes them, or give a loss of NaN
  // Later kinds of `chaos`. They stand after the others, so that those keep their random draws.
  kKillInput,
  kPauseInput,
  kZombieInput,
  kSlowInput,  // from now on an input process takes twenty thousand times as long per batch
  kLateMail,   // whole run: messages under way in a connection that breaks may still arrive
  // not part of `chaos`
  kDamage,        // a bit of the newest checkpoint flips while an older checkpoint is whole
  kReadError,     // reads of the disk fail with EIO for a while
  kChangeData,    // for a while, a chief that starts finds other data files
  kUnreplayable,  // whole run: some shards yield different records when they are read again
  kLyingFsync,    // whole run: some fsyncs return before the bytes are durable
  kSlowTasks,     // whole run: a background task takes up to four seconds longer
  kForeign,       // whole run: some messages arrive again under the id of another run
  kStaleNames,    // whole run: a listed folder is up to one second old, as with NFS
  kSmallLimits,   // whole run: a ps keeps few replies and early parts, and drops fragments early
  kExtendRun,     // whole run: when all epochs are sealed, a chief with more epochs and other data
                  // starts
  kFlaky,         // whole run: some records kill the first workers that compute them
  kCount
};
constexpr size_t kFaultKinds = size_t(FaultKind::kCount);

std::string_view fault_name(FaultKind kind);
std::optional<FaultKind> parse_fault(std::string_view name);
bool is_rate(FaultKind kind);    // a probability per message
bool is_moment(FaultKind kind);  // an event; a kind that is neither is on for the whole run
bool in_chaos(FaultKind kind);   // part of `chaos`

/// An action that happens with some probability when a message of one kind arrives:
/// "worker.View:lose=90%".
struct FaultPoint {
  enum class Action : uint8_t {
    kLose,
    kKillSender,
    kKillReceiver,
    kRepeat,  // a copy arrives later
    kPause,   // the receiver is paused for a while
    kStall,   // messages from the receiver to the sender are held back for a while
  };
  std::optional<wire::Role> to;  // only messages to this role
  size_t body = 0;               // index into wire::Body
  Action action = Action::kLose;
  double chance = 0;
};

/// The faults that the user requests. If it is empty, there are no faults.
struct FaultSpec {
  struct Setting {
    double rate = 0;  // for rates
    // For events: mean time between two of them; 0: a few at the beginning of the run.
    int64_t period_ns = 0;
    bool always = true;  // false: each seed decides whether and how often the fault occurs
  };
  bool swarm = false;  // the list contains `chaos`
  bool ends = false;   // all faults end after a random time
  std::map<FaultKind, Setting> kinds;
  std::vector<FaultPoint> points;
  bool empty() const { return kinds.empty() && points.empty(); }
};
/// Parses "none" or a list such as "kill-ps=10m,drop=1%,delay,worker.View:lose=90%". `light` and
/// `chaos` stand for several kinds; `ends` ends all faults after some seconds. Error kUsage names
/// the unknown item.
Result<FaultSpec> parse_faults(std::string_view text);

/// Draws how long a fault of this kind lasts. For a kill it is the time until the process is
/// started again; for a clock, how far it jumps.
int64_t draw_duration(FaultKind kind, Rng& rng);

/// Removes the faults of input processes, for a cluster without any.
void leave_out_inputs(FaultSpec& spec);

struct FaultEvent {
  int64_t at_ns = 0;
  FaultKind kind{};
  uint64_t pick = 0;        // random bits for all choices, such as the process
  int64_t duration_ns = 0;  // see draw_duration()
};

struct FaultPlan {
  std::array<bool, kFaultKinds> on{};
  double drop = 0, duplicate = 0, delay = 0;
  std::vector<FaultPoint> points;
  std::vector<FaultEvent> events;  // in order of time
  int64_t heal_ns = 0;             // time when all faults end; INT64_MAX: never
  bool empty() const { return events.empty() && drop + duplicate + delay == 0 && heal_ns == 0; }
};
FaultPlan make_plan(const FaultSpec& spec, uint64_t seed);

/// Returns the plan without the kinds in `without`. Keeps the events whose index in `events` is in
/// `moments`, or all events for nullopt.
FaultPlan reduced(const FaultPlan& plan, const std::vector<FaultKind>& without,
                  const std::optional<std::vector<uint32_t>>& moments);

}  // namespace downpour::sim
