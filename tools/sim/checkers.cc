#include "tools/sim/checkers.h"

#include <cmath>
#include <optional>

#include <nlohmann/json.hpp>

#include "shared/checkpoint/manifest.h"
#include "shared/checkpoint/partition_reader.h"
#include "shared/checkpoint/paths.h"

namespace downpour::sim {
namespace {

constexpr int64_t kFullCheckEveryNs = 500 * kMillisecond;
// A worker has a few batches and shard-end markers in flight, each with one request per ps.
constexpr size_t kRequestsMax = 512;

}  // namespace

Checkers::Checkers(World& world, const Oracle* oracle)
    : world_(world), oracle_(oracle), order_(world.spec().plan->job.partitions) {
  world.on_message = [this](Process& to, const wire::Message& m) { on_message(to, m); };
  world.on_turn = [this](Process& process) { on_turn(process); };
  world.on_event = [this](const Process& chief, const std::string& line) { on_event(chief, line); };
  world.on_end = [this](const chief::Finish& finish) { on_end(finish); };
  world.on_damage = [this] { read_published({}); };
  if (oracle != nullptr) floor_.assign(oracle->by_partition().size(), 0);
}

// ---- messages: count what happens in a run

void Checkers::on_message(Process& to, const wire::Message& message) {
  for (const Core& core : cores_of(to)) follow(core, last_push_of(to.number()));
  last_push_.erase(to.number());
  // Read the checkpoint before a partition learns that an epoch is sealed and drops its markers.
  const auto* sealed = std::get_if<wire::Sealed>(&message.body);
  const auto* adopt = std::get_if<wire::Adopt>(&message.body);
  const uint32_t epochs = sealed != nullptr  ? sealed->epochs
                          : adopt != nullptr ? adopt->sealed_epochs
                                             : 0;
  if (epochs > sealed_epochs_) read_published({});
  if (const auto* push = std::get_if<wire::Push>(&message.body)) {
    touched_[to.number()].push_back(push->batch);
    last_push_[to.number()] = push->batch;
    if (push->fragments > 1) world_.count("part in fragments");
  } else if (const auto* reply = std::get_if<wire::PushReply>(&message.body)) {
    for (const wire::PartReply& part : reply->others) {
      if (part.status == wire::PartStatus::kAlreadyApplied) world_.count("duplicate part");
      if (part.status == wire::PartStatus::kGap) world_.count("gap");
      if (part.status == wire::PartStatus::kViewMismatch) world_.count("view mismatch");
      if (part.status == wire::PartStatus::kUnknownPull) world_.count("unknown pull");
    }
  } else if (const auto* pulled = std::get_if<wire::PullReply>(&message.body)) {
    if (pulled->status == wire::PullStatus::kWrongView) world_.count("view mismatch");
  } else if (std::holds_alternative<wire::ReadBatch>(message.body)) {
    world_.count("batch read by an input process");
  } else if (const auto* failed = std::get_if<wire::ReadFailed>(&message.body)) {
    // kPeersLost answers requests for a shard read that the input process has dropped. They are not
    // failures to read.
    if (failed->code != ErrorCode::kPeersLost) world_.count("input process could not read");
  } else if (const auto* floor = std::get_if<wire::Floor>(&message.body)) {
    staleness_floor_ = std::max(staleness_floor_, floor->batches);
  } else if (const auto* commit = std::get_if<wire::Commit>(&message.body)) {
    world_.count("commit");
    check_commit(message.envelope.view, *commit);
  } else if (const auto* grant = std::get_if<wire::LeaseGrant>(&message.body)) {
    for (const wire::Lease& lease : grant->leases) {
      if (lease.attempt > 1) world_.count("repeated lease");
    }
  }
}

void Checkers::on_event(const Process&, const std::string& line) {
  const auto event = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!event.is_object()) return;
  const std::string name = event.value("event", "");
  // A round is void if ownership changed before its end. Some void rounds have an event of their
  // own; others are only followed by a new round.
  if (name == "round_void" || (name == "round" && round_open_ && ownership_changed_))
    world_.count("round void");
  if (name == "round") round_open_ = true;
  if (name == "round" || name == "start") ownership_changed_ = false;
  if (name == "complete" || name == "round_lacking" || name == "start") round_open_ = false;
  if (name == "ps_lost" || name == "view") ownership_changed_ = true;
  if (name == "round_lacking") world_.count("round lacking");
  if (name == "offload") world_.count("offloaded");
  if (name == "quarantined" || name == "quarantine_withdrawn") world_.count(name);
  if (name == "published") {
    world_.count("checkpoint");
    read_published({event.value("term", 0U), event.value("n", 0U)});
  }
  world_.trace(0, "event " + line.substr(0, line.find('\n')));
}

// ---- after each turn

void Checkers::on_turn(Process& process) {
  if (const worker::WorkerNode* worker = process.worker()) {
    if (worker->core().requests_outstanding() > kRequestsMax) {
      return world_.violated(str("I13: ", process.name(), " waits for ",
                                 worker->core().requests_outstanding(), " replies, more than ",
                                 kRequestsMax));
    }
    check_staleness(process.name(), worker->core());
    return check_view({process.number(), 0}, process.name(), worker->core().view());
  }
  if (process.chief() != nullptr) check_floor_rise(process.number(), process.chief()->core());
  const std::optional<BatchId> last = last_push_of(process.number());
  last_push_.erase(process.number());
  for (const Core& core : cores_of(process)) {
    follow(core, last);
    on_core_turn(core);
  }
  touched_.erase(process.number());
}

void Checkers::check_staleness(const std::string& name, const worker::WorkerCore& core) {
  const auto& staleness = world_.plan().job.train.staleness;
  if (!staleness) return;
  const uint64_t pulled = core.pull_policy().clock() + core.batches_pulled();
  if (pulled > staleness_floor_ + *staleness + 1) {
    world_.violated(str("I6: ", name, " has pulled for batch ", pulled - 1,
                        ", the newest floor is ", staleness_floor_, ", the bound ", *staleness));
  }
}

/// Compares a floor that a chief has raised with what the workers themselves count. A turn may
/// handle several events, so only workers count that held the same lease before and after it: a
/// worker may lose a shard and lease it again in one turn, and then begins at the new floor.
void Checkers::check_floor_rise(ProcessNumber chief, const chief::ChiefCore& core) {
  if (!world_.plan().job.train.staleness) return;
  ChiefClocks& known = chief_clocks_[chief];
  const bool raised = core.staleness_floor() > std::max(known.floor, staleness_floor_);
  known.floor = core.staleness_floor();
  const auto before = std::exchange(known.leases, {});
  for (const auto& [number, process] : world_.processes()) {
    const worker::WorkerNode* const worker = process->worker();
    if (worker == nullptr) continue;
    bool kept = false;
    for (const auto& [shard, attempt] : core.training_leases(process->incarnation())) {
      const ChiefClocks::Lease lease(process->incarnation(), shard, attempt);
      known.leases.insert(lease);
      kept = kept || before.contains(lease);
    }
    const uint64_t clock = worker->core().pull_policy().clock();
    if (!raised || known.floor <= clock || !kept) continue;
    world_.violated(str("I6: the chief raised the floor to ", known.floor, ", but ",
                        process->name(), ", which holds a lease, has trained ", clock, " batches"));
  }
}

std::vector<Checkers::Core> Checkers::cores_of(const Process& process) {
  std::vector<Core> cores;
  for (uint32_t thread = 0; thread < process.ps_cores(); ++thread) {
    const ps::PsNode* node = process.ps(thread);
    if (node->core() == nullptr) continue;
    cores.push_back({.id = {process.number(), thread},
                     .name = thread > 0 ? str(process.name(), " core ", thread) : process.name(),
                     .incarnation = process.incarnation(),
                     .core = node->core()});
  }
  return cores;
}

void Checkers::on_core_turn(const Core& core) {
  const ViewId view = core.core->view().id;
  const auto known = views_.find(core.id);
  const bool moved = known == views_.end() || known->second != view;
  check_view(core.id, core.name, view);
  if (moved) check_owners(core);
  if (oracle_ == nullptr || !batches_are_known()) return;
  const auto touched = touched_.find(core.id.first);
  if (touched != touched_.end()) {
    for (const BatchId batch : touched->second) check_batch(core, batch);
  }
  int64_t& checked = checked_ns_[core.id];
  const int64_t now = world_.scheduler().now_ns();
  if (!moved && now - checked < kFullCheckEveryNs) return;
  checked = now;
  if (!moved) check_owners(core);  // a late Adopt changes ownership without a new view
  check_values(core);
  check_floor(core);
}

ViewId Checkers::views_latest() const {
  ViewId latest;
  for (const auto& [id, view] : views_) latest = std::max(latest, view);
  return latest;
}

void Checkers::check_view(const CoreId& id, const std::string& name, ViewId view) {
  ViewId& known = views_[id];
  if (view < known)
    world_.violated(str("I5: ", name, " went from view ", known, " back to ", view));
  known = view;
}

void Checkers::check_owners(const Core& ps) {
  const ps::PsCore& core = *ps.core;
  const ps::Partitions& partitions = core.partitions();
  for (uint32_t p = 0; p < partitions.count(); ++p) {
    if (!partitions.owns(PartitionId(p))) continue;
    const ViewId ownership_generation = partitions.ownership_generation(PartitionId(p));
    if (ownership_generation > core.view().id) continue;  // adopted for a view that comes later
    const wire::Placement& placement = core.view().partitions[p];
    const wire::Owner& owner = core.view().owners[placement.owner];
    if (owner.incarnation != ps.incarnation || owner.thread != ps.id.second ||
        placement.ownership_generation != ownership_generation) {
      return world_.violated(str("I5: ", ps.name, " holds partition ", p, " since ",
                                 ownership_generation, ", view ", core.view().id,
                                 " that it knows gives it to ps ", owner.index, " since ",
                                 placement.ownership_generation));
    }
    const auto [at, fresh] = owners_.try_emplace({p, ownership_generation}, ps.id);
    if (fresh || at->second == ps.id) continue;
    // Two owners under one ownership generation are an error, because workers can't distinguish
    // them.
    const auto process = world_.processes().find(at->second.first);
    if (process == world_.processes().end()) continue;
    for (const Core& other : cores_of(*process->second)) {
      if (other.id != at->second || !other.partitions().owns(PartitionId(p)) ||
          other.partitions().ownership_generation(PartitionId(p)) != ownership_generation)
        continue;
      world_.violated(str("I5: ", ps.name, " and ", other.name, " both own partition ", p,
                          " since ", ownership_generation));
    }
  }
}

// ---- checkpoints and the end

/// Returns whether the oracle's batches are those of the training. Batches differ if the data files
/// have changed, and records differ if a source is not replayable.
bool Checkers::batches_are_known() const {
  return !world_.data_changed() && !world_.spec().faults.on[size_t(FaultKind::kUnreplayable)];
}

/// Returns the newest whole checkpoint. A newer one may exist only if a fault has damaged it, or a
/// checkpoint that it builds on.
std::optional<Checkers::Published> Checkers::newest_whole(Storage& storage) {
  const chief::RunPlan& plan = *world_.spec().plan;
  ViewId below{UINT32_MAX, UINT32_MAX};
  for (;;) {
    const auto manifest = checkpoint::load_latest(storage, plan.job.run_dir, nullptr, 0, below);
    if (!manifest) {
      if (!world_.has_damage())
        world_.violated(
            str("I7: a checkpoint was published and cannot be read: ", manifest.error().what));
      return std::nullopt;
    }
    const auto built_on_damage = [&](const wire::ImageRef& image) {
      return world_.is_damaged(image.checkpoint);
    };
    const bool damaged = world_.is_damaged(manifest->id) || world_.disk().counts().lies > 0 ||
                         std::ranges::any_of(manifest->images, built_on_damage) ||
                         std::ranges::any_of(manifest->bases, built_on_damage);
    Published published{.manifest = *manifest, .images = {}};
    const std::string folder = checkpoint::checkpoint_folder(plan.job.run_dir, manifest->id);
    std::optional<Error> error;
    for (const auto& chain : checkpoint::chains_of(*manifest)) {
      auto image = checkpoint::read_partition(storage, folder, chain, plan.tables);
      if (!image) {
        error = image.error();
        break;
      }
      published.images.push_back(std::move(*image));
    }
    if (!error) return published;
    if (!damaged) {
      world_.violated(str("I7: ", error->what, " (", error->where, ")"));
      return std::nullopt;
    }
    broken_.insert(manifest->id);
    below = manifest->id;
  }
}

void Checkers::read_published(ViewId told) {
  if (oracle_ == nullptr || world_.spec().storage != nullptr) return;
  SimStorage storage(world_.disk(), "checker");
  const DiskFaults faults = std::exchange(world_.disk().faults, {});
  const auto published = newest_whole(storage);
  world_.disk().faults = faults;
  if (!published) return;
  const ViewId id = published->manifest.id;
  const auto may_be_gone = [&](ViewId checkpoint) {
    return world_.is_damaged(checkpoint) || broken_.contains(checkpoint) ||
           world_.disk().counts().lies > 0;
  };
  if (id < published_ && !may_be_gone(published_)) {
    return world_.violated(
        str("I7: checkpoint ", published_, " was published, but the newest complete one is ", id));
  }
  if (id < told && !may_be_gone(told)) {
    return world_.violated(str("I7: the chief says that checkpoint ", told,
                               " is published, but the newest complete one is ", id));
  }
  const bool went_back = id < published_;
  published_ = id;
  if (!published->manifest.bases.empty()) world_.count("incremental checkpoint");
  take_quarantined(published->images, published->manifest.sealed_epochs);
  if (!batches_are_known()) return;
  for (const checkpoint::PartitionImage& image : published->images) {
    check_image(image);
    const uint64_t applied = records_in(image);
    uint64_t& floor = floor_[raw(image.partition)];
    if (applied < floor && !went_back && !world_.has_damage()) {
      return world_.violated(str("I4: checkpoint ", id, " holds ", applied,
                                 " applied records of partition ", image.partition,
                                 ", an older one held ", floor));
    }
    floor = applied;
  }
}

void Checkers::take_quarantined(const std::vector<checkpoint::PartitionImage>& images,
                                uint32_t sealed_epochs) {
  sealed_epochs_ = sealed_epochs;
  // A partition that knows that an epoch is sealed has dropped the epoch's markers.
  for (uint32_t epoch = 0; epoch < sealed_epochs; ++epoch) {
    std::optional<std::set<BatchId>> first;
    for (const checkpoint::PartitionImage& image : images) {
      if (image.sealed_epochs > epoch) continue;
      std::set<BatchId> here;
      for (const wire::QuarantineMarker& line : image.markers) {
        if (line.batch.epoch == epoch && !line.had && !line.withdrawn) here.insert(line.batch);
      }
      if (!first) first = here;
      if (here == *first) continue;
      return world_.violated(str("I2: checkpoint ", published_, " seals epoch ", epoch, " without ",
                                 here.size(), " batches at partition ", image.partition,
                                 ", without ", first->size(), " at another"));
    }
    if (!first) continue;
    quarantined_batches_.erase(quarantined_batches_.lower_bound({epoch, 0, 0}),
                               quarantined_batches_.lower_bound({epoch + 1, 0, 0}));
    quarantined_batches_.insert(first->begin(), first->end());
  }
  quarantined_batches_.erase(quarantined_batches_.lower_bound({sealed_epochs, 0, 0}),
                             quarantined_batches_.end());
}

void Checkers::on_end(const chief::Finish& finish) {
  // A chief can die between a publication and its event. If all epochs are sealed, the next one
  // publishes nothing.
  read_published({});
  check_account(finish);
  if (oracle_ != nullptr) check_evaluations(finish.summary);
  if (oracle_ != nullptr && world_.spec().storage == nullptr) check_model(finish.summary);
}

void Checkers::check_account(const chief::Finish& finish) {
  const Job& job = world_.plan().job;
  const auto& epochs = finish.summary.epochs;
  const bool by_steps = job.train.steps > 0 && finish.summary.steps_counted >= job.train.steps;
  if (epochs.size() != job.train.epochs && !by_steps) {
    return world_.violated(str("I2: ", epochs.size(), " epochs have an account, but ",
                               job.train.epochs, " were requested"));
  }
  if (oracle_ != nullptr && !oracle_->steps().empty() && finish.code == 0 &&
      finish.summary.steps_counted != oracle_->steps().size()) {
    return world_.violated(str("I9: the job has ", finish.summary.steps_counted, " of ",
                               oracle_->steps().size(), " steps"));
  }
  for (const chief::EpochAccount& epoch : epochs) {
    const wire::ShardCounts& c = epoch.counts;
    const uint64_t sum = c.applied + c.filtered + c.skipped + c.dropped + c.quarantined;
    if (c.read != sum)
      world_.violated(str("I2: of epoch ", epoch.epoch, " ", c.read, " records were read and ", sum,
                          " accounted for"));
    // The markers of a partial epoch are still in the images, so check_model() checks this epoch.
    if (epoch.is_partial()) continue;
    uint64_t quarantined = 0;
    for (const BatchId batch : quarantined_batches_) {
      if (oracle_ == nullptr || batch.epoch != epoch.epoch) continue;
      const uint32_t number = oracle_->number_of(batch);
      if (number == UINT32_MAX) {
        return world_.violated(
            str("I2: batch ", batch, " is quarantined, and the job has no such batch"));
      }
      quarantined += oracle_->batches()[number].records;
    }
    if (c.quarantined != quarantined && oracle_ != nullptr) {
      world_.violated(str("I2: epoch ", epoch.epoch, " counts ", c.quarantined,
                          " records as quarantined, but its quarantined batches have ",
                          quarantined));
    }
    if (oracle_ != nullptr &&
        (c.read != oracle_->records() || c.applied + c.quarantined != oracle_->records())) {
      world_.violated(str("I2: epoch ", epoch.epoch, " has read ", c.read, " and applied ",
                          c.applied, " records of ", oracle_->records()));
    }
    if (oracle_ != nullptr) check_metrics(epoch);
    if (c.read != epochs.front().counts.read)
      world_.violated(str("I2: epochs 0 and ", epoch.epoch, " differ in their records"));
  }
}

/// Returns whether metric sums equal the expected sums, in which each record counts once.
static bool same_sums(const OutputSums& a, const OutputSums& b) {
  constexpr double kTolerance = 1e-9;
  const auto same = [](double x, double y) { return std::abs(x - y) <= kTolerance * std::abs(y); };
  return same(a.weight, b.weight) && same(a.label, b.label) && same(a.loss, b.loss) &&
         same(a.squared_error, b.squared_error);
}

void Checkers::check_metrics(const chief::EpochAccount& epoch) {
  std::vector<OutputSums> expected(epoch.metrics.size());
  for (const Oracle::Batch& batch : oracle_->batches()) {
    if (batch.id.epoch != epoch.epoch || quarantined_batches_.contains(batch.id)) continue;
    if (expected.size() != batch.sums.size()) {
      return world_.violated(str("I2: epoch ", epoch.epoch, " has metrics of ", expected.size(),
                                 " outputs, the job has ", batch.sums.size()));
    }
    for (size_t o = 0; o < expected.size(); ++o) expected[o] += batch.sums[o];
  }
  for (size_t o = 0; o < expected.size(); ++o) {
    if (same_sums(epoch.metrics[o], expected[o])) continue;
    return world_.violated(str("I2: the metrics of output ", o, " in epoch ", epoch.epoch,
                               " are of ", epoch.metrics[o].weight, " records with a loss of ",
                               epoch.metrics[o].loss, ", not of ", expected[o].weight, " with ",
                               expected[o].loss));
  }
}

/// Returns the sums of an output over the rows of the slices, which are of one field.
static OutputSums sum_of_slices(const chief::Evaluation& evaluation, size_t output) {
  OutputSums sum;
  for (size_t i = output; i < evaluation.slices.size(); i += evaluation.outputs.size())
    sum += evaluation.slices[i].sums;
  return sum;
}

void Checkers::check_evaluations(const chief::JobSummary& summary) {
  const std::vector<OutputSums>& expected = oracle_->evaluation();
  if (expected.empty()) return;
  if (summary.evaluations.empty()) return world_.violated("I2: the job was never evaluated");
  for (const chief::Evaluation& evaluation : summary.evaluations) {
    for (size_t o = 0; o < expected.size(); ++o) {
      const bool there = o < evaluation.outputs.size();
      if (there && !evaluation.slices.empty() &&
          !same_sums(sum_of_slices(evaluation, o), expected[o]))
        return world_.violated(str("I2: the slices of evaluation ", evaluation.id,
                                   " do not add up to its sums of output ", o));
      if (there && same_sums(evaluation.outputs[o].sums, expected[o])) continue;
      return world_.violated(
          str("I2: evaluation ", evaluation.id, " after ", evaluation.epochs_trained,
              " epochs has ", there ? evaluation.outputs[o].sums.weight : 0, " records of output ",
              o, ", not ", expected[o].weight, ", or another loss"));
    }
  }
}

}  // namespace downpour::sim
