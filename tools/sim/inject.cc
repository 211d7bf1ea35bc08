// Applies each kind of fault to the world.
#include <algorithm>
#include <span>

#include "shared/base/hash.h"
#include "shared/base/rng.h"
#include "shared/checkpoint/manifest.h"
#include "shared/checkpoint/paths.h"
#include "shared/wire/frame.h"
#include "tools/sim/world.h"

namespace downpour::sim {
namespace {

using wire::Role;

Role role_of(FaultKind kind) {
  switch (kind) {
    case FaultKind::kKillWorker:
    case FaultKind::kPauseWorker:
    case FaultKind::kZombieWorker:
    case FaultKind::kStraggler:
      return Role::kWorker;
    case FaultKind::kKillPs:
    case FaultKind::kPausePs:
    case FaultKind::kZombiePs:
    case FaultKind::kSlowPs:
      return Role::kPs;
    case FaultKind::kKillInput:
    case FaultKind::kPauseInput:
    case FaultKind::kZombieInput:
    case FaultKind::kSlowInput:
      return Role::kInput;
    default:
      return Role::kChief;
  }
}

/// Ends the receiver or sender of the next message of a kind, chosen among those at the beginning
/// or end of a phase of the job, or of a shard that an input process reads.
void kill_in_phase(World& world, const FaultEvent& event) {
  using enum wire::Kind;
  static constexpr wire::Kind kOfPhase[] = {
      kWelcome,     kView, kAdopt, kAdopted, kLeaseGrant, kEvalReport, kStatusRequest,
      kStatusReply, kSave, kSaved, kSealed,  kStop,       kFreeze,     kFrozen};
  static constexpr wire::Kind kOfInput[] = {kInputList, kReadShard, kReadMore,
                                            kReadBatch, kReadEnd,   kReadFailed};
  const bool of_input = world.replicas(Role::kInput) > 0 && (event.pick >> 21) % 3 == 0;
  const std::span<const wire::Kind> kinds =
      of_input ? std::span<const wire::Kind>(kOfInput) : std::span<const wire::Kind>(kOfPhase);
  const uint64_t pick = of_input ? event.pick >> 24 : event.pick;
  world.phase_kills.push_back(
      {size_t(kinds[pick % kinds.size()]) - 1, (event.pick >> 20 & 1) != 0, event.duration_ns});
}

Process* choose(World& world, Role role, uint64_t pick) {
  const uint32_t replicas = world.replicas(role);
  return replicas == 0 ? nullptr : world.current(role, uint32_t(pick % replicas));
}

/// Chooses two processes that are connected, in random order.
std::optional<std::pair<ProcessNumber, ProcessNumber>> choose_pair(World& world, uint64_t pick) {
  const auto pairs = world.network().connected();
  if (pairs.empty()) return std::nullopt;
  auto pair = pairs[pick % pairs.size()];
  if (pick >> 32 & 1) std::swap(pair.first, pair.second);
  return pair;
}

void pause(World& world, const FaultEvent& event, bool replaced) {
  Process* process = choose(world, role_of(event.kind), event.pick);
  if (process == nullptr || process->paused()) return;
  world.count(std::string(fault_name(event.kind)));
  const ProcessNumber number = process->number();
  const Role role = process->role();
  const uint32_t index = process->index();
  world.pause(number, event.duration_ns);
  if (!replaced) return;
  world.scheduler().after(event.duration_ns / 2, [&world, number, role, index] {
    const Process* old = world.current(role, index);
    if (old == nullptr || old->number() != number || !old->paused()) return;
    world.start(role, index);
  });
}

void hold(World& world, const FaultEvent& event) {
  const auto pair = choose_pair(world, event.pick);
  if (!pair) return;
  world.count(std::string(fault_name(event.kind)));
  const auto [a, b] = *pair;
  const bool both = event.kind == FaultKind::kPartition;
  world.trace(a,
              str(both ? "and #" : "does not reach #", b, both ? " do not reach each other" : ""));
  world.network().hold(a, b);
  if (both) world.network().hold(b, a);
  const bool lose = (event.pick >> 33 & 1) != 0;
  world.scheduler().after(event.duration_ns, [&world, a = a, b = b, lose] {
    world.trace(a, str("reaches #", b, " again"));
    world.network().let_go(a, b, lose);
    world.network().let_go(b, a, lose);
  });
}

/// Stops the messages from the chief to a ps, worker or input process. The other direction works.
void deafen(World& world, const FaultEvent& event) {
  const Process* chief = world.current(Role::kChief, 0);
  Role role = (event.pick >> 32 & 1) != 0 ? Role::kPs : Role::kWorker;
  if (world.replicas(Role::kInput) > 0 && (event.pick >> 34) % 3 == 0) role = Role::kInput;
  const Process* member = choose(world, role, event.pick);
  if (chief == nullptr || member == nullptr) return;
  world.count("deaf");
  const bool lose = (event.pick >> 33 & 1) != 0;
  world.stall(chief->number(), member->number(), event.duration_ns, lose);
}

/// Makes the chief's address lead to a former chief that has not ended, as when a name or address
/// that was moved to another machine flaps.
void flap(World& world, const FaultEvent& event) {
  const Process* chief = world.current(Role::kChief, 0);
  const Process* former = nullptr;
  for (const auto& [number, process] : world.processes()) {
    if (process->role() == Role::kChief && process.get() != chief) former = process.get();
  }
  if (former == nullptr) return;
  world.count("flap");
  world.trace(former->number(), "receives messages for the chief again");
  world.network().lead_to(former->number());
  world.scheduler().after(event.duration_ns, [&world] {
    const Process* now = world.current(Role::kChief, 0);
    if (now != nullptr) world.network().lead_to(now->number());
  });
}

/// Stops the connections of one process at random times; they resume in another order.
void clog(World& world, const FaultEvent& event) {
  const auto pair = choose_pair(world, event.pick);
  if (!pair) return;
  world.count(std::string(fault_name(event.kind)));
  Rng rng(event.pick);
  for (const auto& [client, server] : world.network().connected()) {
    if (client != pair->first && server != pair->first) continue;
    const ProcessNumber other = client == pair->first ? server : client;
    const auto begin = int64_t(rng.below(uint64_t(event.duration_ns)));
    const auto end = begin + int64_t(rng.below(uint64_t(event.duration_ns)));
    const ProcessNumber from = rng.below(2) == 0 ? pair->first : other;
    const ProcessNumber to = from == other ? pair->first : other;
    world.scheduler().after(begin, [&world, from, to] {
      if (!world.healed()) world.network().hold(from, to);
    });
    world.scheduler().after(end, [&world, from, to] { world.network().let_go(from, to, false); });
  }
}

/// Flips a bit of the newest checkpoint, in its manifest or in one of its own images. If no older
/// checkpoint is whole yet, it tries again later.
void damage(World& world, const FaultEvent& event) {
  SimStorage storage(world.disk(), "fault");
  const std::string& run_dir = world.spec().plan->job.run_dir;
  const auto newest = checkpoint::newest_manifest(storage, run_dir);
  const auto older = newest ? checkpoint::load_latest(storage, run_dir, nullptr, 0, *newest)
                            : Result<checkpoint::Manifest>(newest.error());
  if (!older || world.is_damaged(*newest) || !is_whole(storage, *world.spec().plan, *older)) {
    return void(world.scheduler().after(100 * kMillisecond, [&world, event] {
      if (!world.healed()) damage(world, event);
    }));
  }
  std::string file = checkpoint::manifest_path(run_dir, *newest);
  if ((event.pick & 1) != 0) {
    const std::string folder = checkpoint::checkpoint_folder(run_dir, *newest) + "/";
    std::vector<std::string> images = world.disk().files();
    std::erase_if(images, [&](const std::string& f) { return !f.starts_with(folder); });
    if (!images.empty()) file = images[(event.pick >> 1) % images.size()];
  }
  if (!world.disk().flip_bit_of(file)) return;
  world.count("damage");
  world.trace(0, "flipped a bit in " + file);
  world.damaged(*newest);
  // A process reads the damaged checkpoint only after a loss, so end some processes.
  const uint64_t fate = (event.pick >> 20) % 4;
  world.scheduler().after(int64_t((event.pick >> 24) % uint64_t(300 * kMillisecond)),
                          [&world, fate, event] {
                            if (world.healed() || fate == 0) return;
                            if (fate == 1) return world.restart_all(200 * kMillisecond);
                            const Role role = fate == 2 ? Role::kPs : Role::kChief;
                            if (const Process* process = choose(world, role, event.pick))
                              world.kill(process->number(), 100 * kMillisecond);
                            if (const Process* ps = choose(world, Role::kPs, event.pick >> 8))
                              world.kill(ps->number(), 300 * kMillisecond);
                          });
}

/// Replaces the job's data files by other ones for a while. Restarts the chief, which then meets ps
/// with batches of the first files, or every process, so that only images hold such batches.
void change_data(World& world, const FaultEvent& event) {
  const Process* chief = world.current(Role::kChief, 0);
  if (world.spec().other_plan == nullptr || chief == nullptr) return;
  world.count("change-data");
  world.change_data(true);
  if (event.pick % 2 == 0) {
    world.kill(chief->number(), 200 * kMillisecond);
  } else {
    world.restart_all(200 * kMillisecond);
  }
  world.scheduler().after(event.duration_ns, [&world] {
    if (!world.healed()) world.change_data(false);
  });
}

void break_disk(World& world, const FaultEvent& event) {
  world.count(std::string(fault_name(event.kind)));
  DiskFaults& faults = world.disk().faults;
  if (event.kind == FaultKind::kSlowDisk) faults.slow = 200;
  if (event.kind == FaultKind::kFullDisk) faults.full = true;
  if (event.kind == FaultKind::kFsync) faults.fsync_fails = true;
  if (event.kind == FaultKind::kReadError) faults.read_fails = true;
  world.trace(0, std::string(fault_name(event.kind)));
  world.scheduler().after(event.duration_ns, [&world, kind = event.kind] {
    DiskFaults& now = world.disk().faults;
    if (kind == FaultKind::kSlowDisk) now.slow = 1;
    if (kind == FaultKind::kFullDisk) now.full = false;
    if (kind == FaultKind::kFsync) now.fsync_fails = false;
    if (kind == FaultKind::kReadError) now.read_fails = false;
  });
}

/// Ends a process before one of its next changes of the disk.
void kill_in_write(World& world, const FaultEvent& event) {
  const bool chief = event.pick >> 40 & 1;
  Process* process = choose(world, chief ? Role::kChief : Role::kPs, event.pick);
  if (process == nullptr) return;
  process->sim_storage().die_at(
      1 + (event.pick >> 41) % 24, [&world, process, back = event.duration_ns] {
        world.count(std::string(fault_name(FaultKind::kKillInWrite)));
        process->mute();
        world.scheduler().after(
            0, [&world, number = process->number(), back] { world.kill(number, back); });
      });
}

void flip_bit(World& world, const FaultEvent& event) {
  // The newest checkpoint stays whole, because no process could recover the only copy.
  const std::vector<std::string> files = world.disk().files();
  const auto manifests = std::count_if(files.begin(), files.end(), [](const std::string& f) {
    return f.find("/manifest-") != std::string::npos;
  });
  if (manifests < 2) {  // not yet
    world.scheduler().after(50 * kMillisecond, [&world, event] {
      if (!world.healed()) flip_bit(world, event);
    });
    return;
  }
  std::string oldest;
  for (const std::string& file : files) {
    if (file.find("/manifest-") != std::string::npos &&
        (oldest.empty() || file.size() < oldest.size() ||
         (file.size() == oldest.size() && file < oldest)))
      oldest = file;
  }
  const std::string flipped =
      world.disk().flip_bit([&](const std::string& path) { return path == oldest; });
  if (flipped.empty()) return;
  world.count(std::string(fault_name(event.kind)));
  world.trace(0, "flipped a bit in " + flipped);
}

/// Kills a worker without a replacement. One worker always stays.
void lose_worker(World& world, const FaultEvent& event) {
  const Process* process = choose(world, Role::kWorker, event.pick);
  uint32_t left = 0;
  for (uint32_t i = 0; i < world.replicas(Role::kWorker); ++i)
    left += world.current(Role::kWorker, i) != nullptr ? 1 : 0;
  if (process == nullptr || left < 2) return;
  world.count("lose-worker");
  world.kill(process->number(), -1);
}

/// Starts another ps and later asks it to leave. Partitions move to it and away again.
void join(World& world, const FaultEvent& event) {
  const uint32_t index = world.replicas(Role::kPs) + uint32_t(event.pick % 2);
  if (world.current(Role::kPs, index) != nullptr) return;
  world.count(std::string(fault_name(event.kind)));
  world.start(Role::kPs, index);
  const Process* joined = world.current(Role::kPs, index);
  if (joined == nullptr) return;
  world.scheduler().after(event.duration_ns + kSecond, [&world, number = joined->number()] {
    const auto at = world.processes().find(number);
    if (at == world.processes().end()) return;
    world.trace(number, "receives a request to leave");
    at->second->leave();
  });
}

void happen(World& world, const FaultEvent& event) {
  switch (event.kind) {
    case FaultKind::kKillWorker:
    case FaultKind::kKillPs:
    case FaultKind::kKillChief:
    case FaultKind::kKillInput:
      if (const Process* process = choose(world, role_of(event.kind), event.pick)) {
        world.count(std::string(fault_name(event.kind)));
        world.kill(process->number(), event.duration_ns);
      }
      return;
    case FaultKind::kPauseWorker:
    case FaultKind::kPausePs:
    case FaultKind::kPauseChief:
    case FaultKind::kPauseInput:
      return pause(world, event, false);
    case FaultKind::kZombieWorker:
    case FaultKind::kZombiePs:
    case FaultKind::kZombieChief:
    case FaultKind::kZombieInput:
      return pause(world, event, true);
    case FaultKind::kPartition:
    case FaultKind::kOneWay:
      return hold(world, event);
    case FaultKind::kClog:
      return clog(world, event);
    case FaultKind::kReset:
      if (const auto pair = choose_pair(world, event.pick)) {
        world.count("reset");
        world.network().reset(pair->first, pair->second);
      }
      return;
    case FaultKind::kClock:
      for (uint32_t role = 0; role < 4; ++role) {
        Process* process = choose(world, Role(role), event.pick >> (8 * role));
        if (process != nullptr && (event.pick >> (50 + role) & 1) != 0)
          process->jump_clock(event.duration_ns);
      }
      return world.count("clock");
    case FaultKind::kStraggler:
      if (Process* process = choose(world, Role::kWorker, event.pick)) {
        world.count("straggler");
        process->slow_down(10);
      }
      return;
    case FaultKind::kSlowPs:
      if (Process* process = choose(world, Role::kPs, event.pick)) {
        world.count("slow-ps");
        process->slow_down(2000);
      }
      return;
    case FaultKind::kSlowInput:
      if (Process* process = choose(world, Role::kInput, event.pick)) {
        world.count("slow-input");
        process->slow_down(20'000);
      }
      return;
    case FaultKind::kSlowDisk:
    case FaultKind::kFullDisk:
    case FaultKind::kFsync:
    case FaultKind::kReadError:
      return break_disk(world, event);
    case FaultKind::kDamage:
      return damage(world, event);
    case FaultKind::kChangeData:
      return change_data(world, event);
    case FaultKind::kKillInWrite:
      return kill_in_write(world, event);
    case FaultKind::kKillInPhase:
      return kill_in_phase(world, event);
    case FaultKind::kPower:
      world.count("power");
      world.disk().lose_power((event.pick & 1) != 0);
      return world.restart_all(event.duration_ns);
    case FaultKind::kJoinPs:
      return join(world, event);
    case FaultKind::kFlip:
      ++world.disk().faults.flip_volatile;
      return flip_bit(world, event);
    case FaultKind::kLoseWorker:
      return lose_worker(world, event);
    case FaultKind::kDeaf:
      return deafen(world, event);
    case FaultKind::kFlap:
      return flap(world, event);
    default:
      return;
  }
}

}  // namespace

void inject(World& world) {
  const FaultPlan& plan = world.spec().faults;
  NetworkFaults& network = world.network().faults;
  network.drop = plan.drop;
  network.duplicate = plan.duplicate;
  network.delay = plan.delay;
  const auto on = [&](FaultKind kind) {
    if (plan.on[size_t(kind)]) world.count(std::string(fault_name(kind)));
    return plan.on[size_t(kind)];
  };
  if (on(FaultKind::kTinyQueues)) network.queue_messages_max = 8;
  if (on(FaultKind::kLateManifest)) world.disk().faults.late_manifests = true;
  network.late_mail = plan.on[size_t(FaultKind::kLateMail)];
  world.disk().faults.lying_fsync = plan.on[size_t(FaultKind::kLyingFsync)];
  world.disk().faults.slow_tasks = plan.on[size_t(FaultKind::kSlowTasks)];
  if (plan.on[size_t(FaultKind::kForeign)]) network.foreign = 0.002;
  world.disk().faults.stale_names = plan.on[size_t(FaultKind::kStaleNames)];
  (void)on(FaultKind::kEarlyTimeouts);
  (void)on(FaultKind::kPoison);
  world.lost_leases = plan.on[size_t(FaultKind::kLostLease)];
  world.lost_views = plan.on[size_t(FaultKind::kLostView)];
  for (const FaultEvent& event : plan.events) {
    world.scheduler().at(event.at_ns, [&world, event] {
      if (world.healed()) return;
      world.trace(0, str("fault: ", fault_name(event.kind)));
      happen(world, event);
    });
  }
}

}  // namespace downpour::sim
