#include "tools/sim/world.h"

#include <ctime>
#include <utility>

#include "shared/base/hash.h"
#include "shared/checkpoint/manifest.h"
#include "shared/checkpoint/partition_reader.h"
#include "shared/checkpoint/paths.h"

namespace downpour::sim {
namespace {

constexpr const char* kChiefEndpoint = "tcp://chief:7000";
constexpr int64_t kUnixTime = 1'700'000'000;      // start time of every simulated run
constexpr int64_t kLingerNs = 20 * kMillisecond;  // for the last messages of a process to leave
// Longest time limit that ends a job with an exit code of 128 or above.
constexpr int64_t kLongestLimitNs = 70 * kSecond;
// Time until a process that ended by itself is started again.
constexpr int64_t kRestartNs = 500 * kMillisecond;

}  // namespace

bool is_whole(Storage& storage, const chief::RunPlan& plan, const checkpoint::Manifest& manifest) {
  const std::string folder = checkpoint::checkpoint_folder(plan.job.run_dir, manifest.id);
  for (const auto& chain : checkpoint::chains_of(manifest)) {
    if (!checkpoint::read_partition(storage, folder, chain, plan.tables)) return false;
  }
  return true;
}

World::World(WorldSpec spec)
    : spec_(std::move(spec)),
      network_(scheduler_, hash_combine(spec_.seed, 1)),
      disk_(hash_combine(spec_.seed, 2)),
      point_rng_(hash_combine(spec_.seed, 6)),
      machinery_{scheduler_, network_, disk_} {
  disk_.now_ns = [this] { return scheduler_.now_ns(); };
  defences_before_ = defence_counts();
  network_.on_message = [this](ProcessNumber from, ProcessNumber to, const wire::Message& message,
                               uint32_t checksum) { return deliver(from, to, message, checksum); };
}

World::~World() = default;

Outcome World::run() {
  if (!spec_.faults.points.empty()) {
    network_.comes_again = [this](ProcessNumber to, const wire::Message& message) {
      return comes_again(to, message);
    };
  }
  if (!spec_.faults.empty()) {
    inject(*this);
    if (spec_.faults.heal_ns != INT64_MAX) {
      deadline_ns_ = spec_.faults.heal_ns + spec_.liveness_ns;
      scheduler_.at(spec_.faults.heal_ns, [this] { heal(); });
    }
  }
  start(wire::Role::kChief, 0);
  for (uint32_t i = 0; i < spec_.ps; ++i) start(wire::Role::kPs, i);
  for (uint32_t i = 0; i < spec_.workers; ++i) start(wire::Role::kWorker, i);
  for (uint32_t i = 0; i < spec_.inputs; ++i) start(wire::Role::kInput, i);
  while (!ended_ && scheduler_.step()) {
    if (scheduler_.now_ns() > deadline_ns_) {
      violated(str("I12: the job has not ended ", spec_.liveness_ns / kSecond,
                   " s after the last fault"));
    } else if (scheduler_.now_ns() > spec_.limit_ns) {
      violated(str("I12: the job has not ended after ", spec_.limit_ns / kSecond, " s"));
    }
  }
  add_counts();
  return std::move(outcome_);
}

void World::add_counts() {
  outcome_.virtual_ns = scheduler_.now_ns();
  outcome_.steps = scheduler_.steps();
  const NetworkCounts& net = network_.counts();
  const DiskCounts& disk = disk_.counts();
  for (const auto& [name, value] : std::initializer_list<std::pair<const char*, uint64_t>>{
           {"drop", net.dropped},
           {"duplicate", net.duplicated},
           {"delay", net.delayed},
           {"message held", net.held},
           {"message lost with its connection", net.lost_with_connection},
           {"late-mail", net.late},
           {"send rejected: queue full", net.full},
           {"write lost", disk.lost_writes},
           {"write torn", disk.torn_writes},
           {"ENOSPC", disk.enospc},
           {"EIO", disk.eio},
           {"lying-fsync", disk.lies},
           {"stale-names", disk.stale}}) {
    if (value > 0) outcome_.counts[name] += value;
  }
  for (size_t d = 0; d < kDefences; ++d)
    outcome_.defences[d] = defence_counts()[d] - defences_before_[d];
}

void World::violated(std::string what) {
  if (ended_) return;
  trace(0, "violated " + what);
  outcome_.violation = std::move(what);
  ended_ = true;
}

void World::trace(ProcessNumber process, std::string what) {
  if (spec_.trace != nullptr) spec_.trace->add(scheduler_.now_ns(), process, std::move(what));
}

Process* World::find(ProcessNumber number) {
  const auto at = processes_.find(number);
  return at == processes_.end() ? nullptr : at->second.get();
}

Process* World::current(wire::Role role, uint32_t index) {
  const auto at = current_.find({role, index});
  return at == current_.end() ? nullptr : find(at->second);
}

uint32_t World::replicas(wire::Role role) const {
  switch (role) {
    case wire::Role::kChief:
      return 1;
    case wire::Role::kPs:
      return spec_.ps;
    case wire::Role::kWorker:
      return spec_.workers;
    case wire::Role::kInput:
      return spec_.inputs;
  }
  return 0;
}

// ---- processes

void World::start(wire::Role role, uint32_t index) {
  const ProcessNumber number = ++last_number_;
  const Incarnation incarnation{hash_combine(hash_combine(spec_.seed, 3), number) | 1};
  auto made =
      std::make_unique<Process>(machinery_, number, role, index, incarnation, spec_.storage);
  Process& process = *(processes_[number] = std::move(made));
  current_[{role, index}] = number;
  set_speed(process);
  process.on_turn = [this](Process& p) {
    if (on_turn) on_turn(p);
  };
  process.on_finished = [this](Process& p) { finished(p); };
  if (spec_.trace != nullptr) spec_.trace->name(number, process.name());
  trace(number, "starts");
  hash(number);
  Result<void> started;
  if (role == wire::Role::kChief) {
    started = start_chief(process);
  } else if (role == wire::Role::kPs) {
    started = start_ps(process);
  } else if (role == wire::Role::kInput) {
    started = process.start_input({.chief = kChiefEndpoint,
                                   .endpoint = str("tcp://input-", index, ":", number),
                                   .index = index,
                                   .allow_exec = true});
  } else {
    started = start_worker(process);
  }
  if (started) return;
  could_not_start(process, started.error());
}

/// Sets how a process reads and computes, with the poison and the sources that are not replayable.
void World::set_speed(Process& process) {
  process.speed = spec_.worker_speed;
  if (spec_.poison) {
    process.speed.poison = [this](const Batch& batch) {
      const Poison poison = spec_.poison(batch);
      if (poison != Poison::kNone && poisonous_.insert(batch.id).second) count("poisoned batch");
      if (poison == Poison::kDeath || poison == Poison::kLateDeath) count("poison: a worker died");
      if (poison == Poison::kNan) count("poison: a loss of NaN");
      return poison;
    };
    process.speed.die = [this, number = process.number()](int64_t after_ns) {
      scheduler_.after(after_ns, [this, number] { kill(number, kRestartNs); });
    };
  }
  if (spec_.faults.on[size_t(FaultKind::kUnreplayable)]) {
    process.speed.gives_other_records = [this](ShardId shard) {
      const bool again = !read_before_.insert(shard).second;
      const bool differs = again && hash_combine(spec_.seed, shard.shard) % 4 == 0;
      if (differs) {
        count("unreplayable");
        trace(0, str("shard ", shard, " returns different records"));
      }
      return differs;
    };
  }
}

/// Handles a process whose start failed: starts another one later if faults explain the error.
void World::could_not_start(const Process& process, const Error& error) {
  const ProcessNumber number = process.number();
  trace(number, "can't start: " + error.what);
  count("start failed");
  if (error.id == "DP-2112" && data_changed_) {
    count("changed data refused");
    // Then the user runs the command that finished the run.
    if (error.what.starts_with("the run is finished")) change_data(!other_data_);
    return kill(number, kSecond);
  }
  const bool lied_to = disk_.counts().lies > 0;
  if (error.code == ErrorCode::kBadData &&
      (lied_to || (has_damage() && no_checkpoint_is_whole()))) {
    count(lied_to ? "rejected data that a disk with false fsync had lost"
                  : "ended because no checkpoint was complete");
    ended_ = true;  // the job cannot continue
    return;
  }
  const bool disk_fault = error.code == ErrorCode::kIo && spec_.storage == nullptr && !healed_;
  if (!disk_fault && !process.muted()) {
    return violated(
        str("I11: ", process.name(), " can't start: ", error.what, " (", error.where, ")"));
  }
  kill(number, kSecond);
}

Result<void> World::start_ps(Process& process) {
  ps::PsOptions options;
  options.chief = kChiefEndpoint;
  options.endpoint = str("tcp://ps-", process.index(), ":", process.number());
  options.index = process.index();
  // Images of a move are small enough to be sent inline. Under every second seed they go through
  // files instead.
  if (!spec_.faults.empty() && spec_.seed % 2 == 0) options.inline_bytes_max = 0;
  if (spec_.faults.on[size_t(FaultKind::kSmallLimits)]) {
    options.limits.replies_max = 8;
    options.limits.stage_age_ns_max = 300 * kMillisecond;
    options.limits.step_early_bytes_max = 40;
  }
  return process.start_ps(std::move(options), spec_.ps_cores);
}

Result<void> World::start_worker(Process& process) {
  worker::WorkerOptions options{.chief = kChiefEndpoint,
                                .index = process.index(),
                                .message_bytes_max = spec_.message_bytes_max};
  // Under odd seeds only input processes may start programs.
  options.allow_exec = spec_.inputs == 0 || spec_.seed % 2 == 0;
  if (spec_.inputs == 0) return process.start_worker(std::move(options));
  options.say = [this, number = process.number()](const std::string& line) {
    trace(number, line);
    if (line.find("reads its shards itself") != std::string::npos ||
        line.find("reads it itself") != std::string::npos)
      count("worker reads for itself");
    if (line.find("does not answer") != std::string::npos) count("input does not answer");
    if (line.find("sent an invalid batch") != std::string::npos)
      violated(str("I2: a worker refused what an input process read: ", line));
  };
  return process.start_worker(std::move(options));
}

Result<void> World::start_chief(Process& process) {
  process.sim_storage().on_append = [this, &process](std::span<const uint8_t> bytes) {
    on_chief_event(process, std::string(bytes.begin(), bytes.end()));
  };
  if (other_data_) chiefs_of_other_data_.insert(process.number());
  const chief::RunPlan& plan = other_data_ ? *spec_.other_plan : *spec_.plan;
  // Files on a real disk get the real date, which affects no decision.
  const int64_t begin = spec_.storage != nullptr ? int64_t(std::time(nullptr)) : kUnixTime;
  const auto unix_time = [this, begin] { return begin + scheduler_.now_ns() / kSecond; };
  DP_TRY(chief::ChiefConfig config,
         chief::open_run(process.storage(), plan,
                         {.fresh = spec_.fresh && process.number() == 1,
                          .ps_cores = spec_.ps * spec_.ps_cores,
                          .workers = spec_.workers,
                          .run_id = spec_.storage != nullptr ? 0 : hash_combine(spec_.seed, 4) | 1,
                          .unix_time_s = unix_time}));
  if (spec_.faults.on[size_t(FaultKind::kEarlyTimeouts)]) {
    config.lease_ns = 400 * kMillisecond;
    config.lease_idle_ns = 500 * kMillisecond;
    config.lease_stall_ns = 2 * kSecond;
    config.resend_ns = 100 * kMillisecond;
    config.member_silence_ns = 1500 * kMillisecond;
    config.ps_wait_ns = kSecond;
    config.adopt_timeout_ns = 2 * kSecond;
    config.offload_pause_ns = kSecond;
  }
  // Unless records are poisoned, failed attempts come from faults and not from the data.
  if (spec_.poison) {
    config.job.train.quarantine = true;
    config.job.train.on_nan = "skip";
  } else if (!spec_.faults.empty()) {
    config.attempts_max = 1000;
  }
  const std::string& run_dir = plan.job.run_dir;
  chief::ChiefOptions options;
  options.endpoint = kChiefEndpoint;
  options.run_dir = run_dir;
  options.events_path = run_dir + "/events.jsonl";
  options.unix_time_s = unix_time;
  return process.start_chief(std::move(config), plan.tables, std::move(options), spec_.console);
}

void World::on_chief_event(const Process& process, const std::string& line) {
  if (line.find("\"event\":\"view\"") != std::string::npos) {
    accepted_other_ = chiefs_of_other_data_.contains(process.number());
    if (accepted_other_) count("continued with changed data");
  }
  if (on_event) on_event(process, line);
  const std::string sealed = str("\"sealed_epochs\":", spec_.plan->job.train.epochs, ',');
  if (spec_.faults.on[size_t(FaultKind::kExtendRun)] && !healed_ && !data_changed_ &&
      line.find("\"event\":\"published\"") != std::string::npos &&
      line.find(sealed) != std::string::npos) {
    extend_run(process.number());
  }
}

/// Extends the run after its last epoch is sealed. The chief dies before or shortly after it
/// informs the ps. A new chief with other data files and more epochs starts while ps and workers
/// run.
void World::extend_run(ProcessNumber chief) {
  constexpr int64_t kMomentNs = 2 * kMillisecond;
  constexpr int64_t kPatienceNs = 3 * kSecond;  // then the first data files are put back
  count("extend-run");
  change_data(true);
  const bool at_once = outcome_.hash % 2 == 0;
  if (at_once) find(chief)->mute();
  scheduler_.after(at_once ? 0 : int64_t(outcome_.hash % kMomentNs),
                   [this, chief] { kill(chief, 100 * kMillisecond); });
  scheduler_.after(kPatienceNs, [this] {
    if (!accepted_other_ && !healed_) change_data(false);
  });
}

void World::damaged(ViewId checkpoint) {
  damaged_.insert(checkpoint);
  if (on_damage) on_damage();
}

void World::change_data(bool other) {
  if (spec_.other_plan == nullptr) return;
  other_data_ = other;
  data_changed_ = true;
  trace(0, other ? "the data files change" : "the first data files are back");
}

void World::kill(ProcessNumber number, int64_t back_ns) {
  const auto at = processes_.find(number);
  if (at == processes_.end()) return;
  const wire::Role role = at->second->role();
  const uint32_t index = at->second->index();
  const bool newest = current_[{role, index}] == number;
  trace(number, "is destroyed");
  hash(number);
  at->second->mute();
  const std::unique_ptr<Process> doomed = std::move(at->second);
  processes_.erase(at);
  const bool guest = role == wire::Role::kPs && index >= spec_.ps;
  if (!newest || back_ns < 0 || guest) return;
  scheduler_.after(back_ns, [this, role, index, run = run_] {
    if (run == run_ && current(role, index) == nullptr) start(role, index);
  });
}

void World::pause(ProcessNumber number, int64_t duration_ns) {
  Process* process = find(number);
  if (process == nullptr || process->paused()) return;
  trace(number, "is paused");
  process->pause();
  scheduler_.after(duration_ns, [this, number] {
    Process* paused = find(number);
    if (paused == nullptr || !paused->paused()) return;
    trace(number, "resumes");
    paused->resume();
  });
}

void World::stall(ProcessNumber from, ProcessNumber to, int64_t duration_ns, bool lose) {
  trace(from, str("does not reach #", to));
  network_.hold(from, to);
  scheduler_.after(duration_ns, [this, from, to, lose] {
    trace(from, str("reaches #", to, " again"));
    network_.let_go(from, to, lose);
  });
}

void World::restart_all(int64_t back_ns) {
  trace(0, "power loss: all processes stop and restart");
  ++run_;
  while (!processes_.empty()) kill(processes_.begin()->first, -1);
  scheduler_.after(back_ns, [this, run = run_] {
    if (run != run_) return;
    start(wire::Role::kChief, 0);
    for (uint32_t i = 0; i < spec_.ps; ++i) start(wire::Role::kPs, i);
    for (uint32_t i = 0; i < spec_.workers; ++i) start(wire::Role::kWorker, i);
    for (uint32_t i = 0; i < spec_.inputs; ++i) start(wire::Role::kInput, i);
  });
}

/// Handles a process that ended by itself. A new one is started unless the job has ended.
void World::finished(Process& process) {
  trace(process.number(), str("ends with ", process.exit_code(), " ", process.exit_reason()));
  hash(uint64_t(process.exit_code()));
  if (process.role() == wire::Role::kChief) return chief_finished(process);
  scheduler_.after(kLingerNs, [this, number = process.number()] { kill(number, kRestartNs); });
}

void World::chief_finished(Process& process) {
  const chief::Finish& finish = process.chief()->finish();
  if (current(wire::Role::kChief, 0) != &process) {  // an outdated chief has noticed its successor
    scheduler_.after(kLingerNs, [this, number = process.number()] { kill(number, -1); });
    return;
  }
  if (finish.code == 0) {
    outcome_.finish = finish;
    if (on_end) on_end(finish);
    ended_ = true;
    return;
  }
  const std::string why = finish.error ? str(finish.error->what, " (", finish.error->where, ")")
                                       : std::string("no reason given");
  if (!excused(finish, why)) {
    outcome_.finish = finish;
    return violated(str("I12: the job ended with ", finish.code, ": ", why));
  }
  if (ended_) return;
  count(str("job ended with ", finish.code, " and was run again"));
  trace(0, str("the job ended with ", finish.code, ": ", why));
  disk_errors_seen_ = disk_.counts().enospc + disk_.counts().eio;
  // A chief that refuses changed data ends alone. The ps and workers keep running.
  const bool data_refused = finish.error && finish.error->id == "DP-2112";
  if (data_refused) {
    return void(scheduler_.after(0, [this, number = process.number()] { kill(number, kSecond); }));
  }
  scheduler_.after(0, [this] { restart_all(kSecond); });
}

/// Returns whether the job may end with this error. A fault must explain the error, and the same
/// reason is accepted only a limited number of times.
bool World::excused(const chief::Finish& finish, const std::string& why) {
  constexpr uint32_t kSameEndsMax = 8;
  if (spec_.faults.empty()) return false;
  std::string reason = why;
  std::erase_if(reason, [](char c) { return c >= '0' && c <= '9'; });
  if (++ends_[reason] > kSameEndsMax) return false;
  const auto is_on = [&](FaultKind kind) { return spec_.faults.on[size_t(kind)]; };
  if (finish.error && finish.error->id == "DP-2112") {
    count("changed data refused");
    const bool other = chiefs_of_other_data_.contains(current_[{wire::Role::kChief, 0}]);
    return data_changed_ && !(healed_ && other == accepted_other_);
  }
  if (is_on(FaultKind::kUnreplayable) && why.find("not replayable") != std::string::npos) {
    count("sources that are not replayable are refused");
    ended_ = true;  // a run of such a source cannot be continued
    return true;
  }
  // By then every consequence of a fault has reached its time limit.
  const bool late = healed_ && scheduler_.now_ns() > spec_.faults.heal_ns + kLongestLimitNs;
  if (finish.code == exit_code(ErrorCode::kBadData) && has_damage() && no_checkpoint_is_whole()) {
    count("ended because no checkpoint was complete");
    ended_ = true;
    return true;
  }
  if (late) return false;
  if (finish.code == exit_code(ErrorCode::kIo)) {
    return spec_.storage == nullptr &&
           disk_.counts().enospc + disk_.counts().eio > disk_errors_seen_;
  }
  return finish.code >= 128;
}

bool World::no_checkpoint_is_whole() {
  SimStorage storage(disk_, "checker");
  ViewId below{UINT32_MAX, UINT32_MAX};
  for (;;) {
    const auto manifest =
        checkpoint::load_latest(storage, spec_.plan->job.run_dir, nullptr, 0, below);
    if (!manifest) return true;
    if (is_whole(storage, *spec_.plan, *manifest)) return false;
    below = manifest->id;
  }
}

void World::heal() {
  trace(0, "no more faults");
  healed_ = true;
  network_.faults = {};
  disk_.faults = {};
  if (data_changed_) change_data(accepted_other_);
  lost_leases = lost_views = false;
  phase_kills.clear();
  std::vector<ProcessNumber> numbers;
  for (const auto& [number, process] : processes_) numbers.push_back(number);
  for (const ProcessNumber from : numbers) {
    for (const ProcessNumber to : numbers) network_.let_go(from, to, false);
  }
  for (const auto& [number, process] : processes_) {
    process->sim_storage().die_at(0, {});
    process->slow_down(1);
    if (process->paused()) process->resume();
  }
}

}  // namespace downpour::sim
