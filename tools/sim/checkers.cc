#include "tools/sim/checkers.h"

#include <cmath>
#include <cstdlib>
#include <optional>

#include "shared/checkpoint/manifest.h"
#include "shared/checkpoint/partition_reader.h"
#include "shared/checkpoint/paths.h"

namespace downpour::sim {
namespace {

constexpr int64_t kFullCheckEveryNs = 500 * kMillisecond;

/// Whether a partition holds a batch of its records.
bool holds(const ps::Partitions& partitions, PartitionId p, BatchId batch) {
  if (batch.epoch < partitions.sealed(p)) return true;
  return partitions.watermarks().watermark(batch.shard_id(), p) > batch.batch;
}

/// The number behind a key of an event's line.
uint32_t number_in(const std::string& line, const char* key) {
  const size_t at = line.find(str('"', key, "\":"));
  return at == std::string::npos
             ? 0
             : uint32_t(std::strtoul(&line[line.find(':', at) + 1], nullptr, 10));
}

uint64_t applied_of(const std::vector<checkpoint::TableImage>& tables) {
  double sum = 0;
  for (const checkpoint::TableImage& table : tables) {
    for (const PageVector<float>& rows : table.members) {
      for (const float value : rows) sum += double(value);
    }
  }
  return uint64_t(sum);
}

}  // namespace

Checkers::Checkers(World& world, const CounterOracle* oracle) : world_(world), oracle_(oracle) {
  world.on_message = [this](Process& from, Process& to, const wire::Message& m) {
    on_message(from, to, m);
  };
  world.on_turn = [this](Process& process) { on_turn(process); };
  world.on_event = [this](const Process& chief, const std::string& line) { on_event(chief, line); };
  world.on_end = [this](const chief::Finish& finish) { on_end(finish); };
  if (oracle != nullptr) floor_.assign(oracle->by_partition().size(), 0);
}

// ---- what is seen of messages: the "sometimes" counters

void Checkers::on_message(Process&, Process& to, const wire::Message& message) {
  // Read before a partition hears that an epoch is sealed, and drops its lines.
  const auto* sealed = std::get_if<wire::Sealed>(&message.body);
  const auto* adopt = std::get_if<wire::Adopt>(&message.body);
  const uint32_t epochs = sealed != nullptr  ? sealed->epochs
                          : adopt != nullptr ? adopt->sealed_epochs
                                             : 0;
  if (epochs > sealed_epochs_) read_published({});
  if (const auto* push = std::get_if<wire::Push>(&message.body)) {
    touched_[to.number()].push_back(push->batch);
  } else if (const auto* reply = std::get_if<wire::PushReply>(&message.body)) {
    for (const wire::PartReply& part : reply->others) {
      if (part.status == wire::PartStatus::kHadIt) world_.count("part repeated");
      if (part.status == wire::PartStatus::kGap) world_.count("gap");
      if (part.status == wire::PartStatus::kNotMine) world_.count("wrong view");
      if (part.status == wire::PartStatus::kUnknownPull) world_.count("unknown pull");
    }
  } else if (const auto* pulled = std::get_if<wire::PullReply>(&message.body)) {
    if (pulled->status == wire::PullStatus::kWrongView) world_.count("wrong view");
  } else if (const auto* grant = std::get_if<wire::LeaseGrant>(&message.body)) {
    for (const wire::Lease& lease : grant->leases) {
      if (lease.attempt > 1) world_.count("lease repeated");
    }
  }
}

void Checkers::on_event(const Process&, const std::string& line) {
  const size_t begin = line.find("\"event\":\"");
  if (begin == std::string::npos) return;
  const size_t at = begin + 9;
  const std::string name = line.substr(at, line.find('"', at) - at);
  // A round is void where ownership changed before it was through; some say so, others are just
  // begun anew.
  if (name == "round_void" || (name == "round" && round_open_ && ownership_changed_))
    world_.count("round void");
  if (name == "round") round_open_ = true;
  if (name == "round" || name == "start") ownership_changed_ = false;
  if (name == "complete" || name == "round_lacking" || name == "start") round_open_ = false;
  if (name == "ps_lost" || name == "view") ownership_changed_ = true;
  if (name == "round_lacking") world_.count("round lacking");
  if (name == "relief") world_.count("moved by load");
  if (name == "quarantined" || name == "quarantine_withdrawn") world_.count(name);
  if (name == "published") {
    world_.count("checkpoint");
    read_published({number_in(line, "term"), number_in(line, "n")});
  }
  world_.trace(0, "event " + line.substr(0, line.find('\n')));
}

// ---- after each turn

void Checkers::on_turn(Process& process) {
  if (const worker::WorkerNode* worker = process.worker())
    return check_view(process, worker->core().view());
  if (process.ps() == nullptr || process.ps()->core() == nullptr) return;
  const ps::PsCore& core = *process.ps()->core();
  const auto known = views_.find(process.number());
  const bool moved = known == views_.end() || known->second != core.view().id;
  check_view(process, core.view().id);
  if (moved) check_owners(process);
  if (oracle_ == nullptr) return;
  const auto touched = touched_.find(process.number());
  if (touched != touched_.end()) {
    for (const BatchId batch : touched->second) check_batch(process, batch);
    touched->second.clear();
  }
  int64_t& checked = checked_ns_[process.number()];
  const int64_t now = world_.scheduler().now_ns();
  if (!moved && now - checked < kFullCheckEveryNs) return;
  checked = now;
  check_values(process);
  check_floor(process);
}

/// Whether the partition does without a batch.
bool Checkers::given_up(const ps::Partitions& partitions, PartitionId p, BatchId batch) const {
  return batch.epoch < partitions.sealed(p) ? given_up_.contains(batch)
                                            : partitions.lines().gives_up(batch, p);
}

/// Whether a partition holds the gradient of a batch of its records.
bool Checkers::counts(const ps::Partitions& partitions, PartitionId p, BatchId batch) const {
  return holds(partitions, p, batch) && !given_up(partitions, p, batch);
}

void Checkers::check_entry(const Process& ps, const CounterOracle::Entry& entry, float weight) {
  const ps::Partitions& partitions = ps.ps()->core()->partitions();
  uint32_t expected = 0;
  for (const BatchId batch : entry.batches)
    expected += counts(partitions, entry.partition, batch) ? 1 : 0;
  if (weight == float(expected)) return;
  std::string where;
  for (const BatchId batch : entry.batches) {
    where += str(" ", batch, " (watermark ",
                 partitions.watermarks().watermark(batch.shard_id(), entry.partition), ")");
  }
  world_.violated(str("I1: at ", ps.name(), " partition ", entry.partition,
                      " has applied the record of key ", entry.key, " ", weight,
                      " times, its watermarks and ", partitions.sealed(entry.partition),
                      " sealed epochs say ", expected, "; its batches:", where));
}

void Checkers::check_values(const Process& ps) {
  const ps::Partitions& partitions = ps.ps()->core()->partitions();
  std::vector<uint64_t> keys;
  std::vector<float> weights;
  for (uint32_t p = 0; p < partitions.count(); ++p) {
    if (!partitions.owns(PartitionId(p))) continue;
    const auto& entries = oracle_->by_partition()[p];
    keys.clear();
    for (const CounterOracle::Entry& entry : entries) keys.push_back(entry.key);
    weights.assign(keys.size(), 0);
    partitions.table(TableId{0}).pull(keys.data(), keys.size(), weights.data(), nullptr);
    for (size_t i = 0; i < entries.size(); ++i) check_entry(ps, entries[i], weights[i]);
  }
}

void Checkers::check_batch(const Process& ps, BatchId batch) {
  const ps::Partitions& partitions = ps.ps()->core()->partitions();
  for (const uint64_t key : oracle_->keys(batch)) {
    const CounterOracle::Entry* entry = oracle_->find(key);
    if (entry == nullptr || !partitions.owns(entry->partition)) continue;
    float weight = 0;
    partitions.table(TableId{0}).pull(&key, 1, &weight, nullptr);
    check_entry(ps, *entry, weight);
  }
}

void Checkers::check_floor(const Process& ps) {
  if (world_.spec().faults.on[size_t(FaultKind::kFlip)]) return;
  const ps::PsCore& core = *ps.ps()->core();
  const ps::Partitions& partitions = core.partitions();
  for (uint32_t p = 0; p < partitions.count(); ++p) {
    const auto id = PartitionId(p);
    // Only who owns it under a view that it knows: a zombie may be behind, what is being taken up
    // is not yet there.
    if (!partitions.owns(id) || partitions.since(id) > core.view().id ||
        core.view().id < views_latest())
      continue;
    uint64_t applied = 0;
    for (const CounterOracle::Entry& entry : oracle_->by_partition()[p]) {
      for (const BatchId batch : entry.batches) applied += counts(partitions, id, batch) ? 1 : 0;
    }
    if (applied >= floor_[p]) continue;
    return world_.violated(str("I4: at ", ps.name(), " partition ", p, " holds ", applied,
                               " applied records, checkpoint ", published_, " held ", floor_[p]));
  }
}

ViewId Checkers::views_latest() const {
  ViewId latest;
  for (const auto& [number, view] : views_) latest = std::max(latest, view);
  return latest;
}

void Checkers::check_view(const Process& process, ViewId view) {
  ViewId& known = views_[process.number()];
  if (view < known)
    world_.violated(str("I5: ", process.name(), " went from view ", known, " back to ", view));
  known = view;
}

void Checkers::check_owners(const Process& ps) {
  const ps::PsCore& core = *ps.ps()->core();
  const ps::Partitions& partitions = core.partitions();
  for (uint32_t p = 0; p < partitions.count(); ++p) {
    if (!partitions.owns(PartitionId(p))) continue;
    const ViewId since = partitions.since(PartitionId(p));
    if (since > core.view().id) continue;  // taken up, not yet published
    const wire::Placement& placement = core.view().partitions[p];
    const wire::Owner& owner = core.view().owners[placement.owner];
    if (owner.incarnation != ps.incarnation() || placement.since != since) {
      return world_.violated(str("I5: ", ps.name(), " holds partition ", p, " since ", since,
                                 ", view ", core.view().id, " that it knows gives it to ps ",
                                 owner.index, " since ", placement.since));
    }
    const auto [at, fresh] = owners_.try_emplace({p, since}, ps.number());
    if (fresh || at->second == ps.number()) continue;
    // Moved and taken again under one since would be two owners that workers can not tell apart.
    const auto other = world_.processes().find(at->second);
    if (other == world_.processes().end() || other->second->ps() == nullptr ||
        other->second->ps()->core() == nullptr)
      continue;
    const ps::Partitions& others = other->second->ps()->core()->partitions();
    if (!others.owns(PartitionId(p)) || others.since(PartitionId(p)) != since) continue;
    world_.violated(str("I5: ", ps.name(), " and ", other->second->name(), " both own partition ",
                        p, " since ", since));
  }
}

// ---- checkpoints and the end

void Checkers::read_published(ViewId told) {
  if (oracle_ == nullptr || world_.spec().storage != nullptr) return;
  const chief::RunPlan& plan = *world_.spec().plan;
  SimStorage storage(world_.disk(), "checker");
  const auto manifest = checkpoint::load_latest(storage, plan.job.run_dir, nullptr);
  if (!manifest)
    return world_.violated(
        str("I7: a checkpoint was published and can not be read: ", manifest.error().what));
  if (manifest->id < published_) {
    return world_.violated(str("I7: checkpoint ", published_,
                               " was published, the newest whole one is ", manifest->id));
  }
  if (manifest->id < told) {
    return world_.violated(str("I7: the chief says that checkpoint ", told,
                               " is published, the newest whole one is ", manifest->id));
  }
  published_ = manifest->id;
  const std::string folder = checkpoint::checkpoint_folder(plan.job.run_dir, manifest->id);
  std::vector<checkpoint::PartitionImage> images;
  if (!manifest->bases.empty()) world_.count("checkpoint of what was touched");
  for (const auto& chain : checkpoint::chains_of(*manifest)) {
    const auto image = checkpoint::read_partition(storage, folder, chain, plan.tables);
    if (!image)
      return world_.violated(str("I7: ", image.error().what, " (", image.error().where, ")"));
    const uint64_t applied = applied_of(image->tables);
    uint64_t& floor = floor_[raw(image->partition)];
    if (applied < floor) {
      return world_.violated(str("I4: checkpoint ", manifest->id, " holds ", applied,
                                 " applied records of partition ", image->partition,
                                 ", an older one held ", floor));
    }
    floor = applied;
    images.push_back({.partition = image->partition,
                      .sealed_epochs = image->sealed_epochs,
                      .lines = image->lines});
  }
  take_given_up(images, manifest->sealed_epochs);
}

void Checkers::take_given_up(const std::vector<checkpoint::PartitionImage>& images,
                             uint32_t sealed_epochs) {
  sealed_epochs_ = sealed_epochs;
  // A partition that has heard that an epoch is sealed keeps no lines of it.
  for (uint32_t epoch = 0; epoch < sealed_epochs; ++epoch) {
    std::optional<std::set<BatchId>> first;
    for (const checkpoint::PartitionImage& image : images) {
      if (image.sealed_epochs > epoch) continue;
      std::set<BatchId> here;
      for (const wire::QuarantineLine& line : image.lines) {
        if (line.batch.epoch == epoch && !line.had && !line.withdrawn) here.insert(line.batch);
      }
      if (!first) first = here;
      if (here == *first) continue;
      return world_.violated(str("I2: checkpoint ", published_, " seals epoch ", epoch, " without ",
                                 here.size(), " batches at partition ", image.partition,
                                 ", without ", first->size(), " at another"));
    }
    if (!first) continue;
    given_up_.erase(given_up_.lower_bound({epoch, 0, 0}), given_up_.lower_bound({epoch + 1, 0, 0}));
    given_up_.insert(first->begin(), first->end());
  }
  given_up_.erase(given_up_.lower_bound({sealed_epochs, 0, 0}), given_up_.end());
}

void Checkers::on_end(const chief::Finish& finish) {
  check_account(finish);
  if (oracle_ != nullptr && world_.spec().storage == nullptr) check_model(finish.summary);
}

void Checkers::check_account(const chief::Finish& finish) {
  const Job& job = world_.spec().plan->job;
  const auto& epochs = finish.summary.epochs;
  const bool by_steps = job.train.steps > 0 && finish.summary.steps >= job.train.steps;
  if (epochs.size() != job.train.epochs && !by_steps) {
    return world_.violated(str("I2: ", epochs.size(), " epochs have an account, ", job.train.epochs,
                               " were asked for"));
  }
  for (const chief::EpochAccount& epoch : epochs) {
    const wire::ShardCounts& c = epoch.counts;
    const uint64_t sum = c.applied + c.filtered + c.skipped + c.dropped + c.quarantined;
    if (c.read != sum)
      world_.violated(str("I2: of epoch ", epoch.epoch, " ", c.read, " records were read and ", sum,
                          " accounted for"));
    // Its lines stand in the images still: check_model() looks at what it has.
    if (epoch.is_part()) continue;
    uint64_t quarantined = 0;
    for (const BatchId batch : given_up_) {
      if (oracle_ != nullptr && batch.epoch == epoch.epoch)
        quarantined += oracle_->keys(batch).size();
    }
    if (c.quarantined != quarantined && oracle_ != nullptr) {
      world_.violated(str("I2: epoch ", epoch.epoch, " counts ", c.quarantined,
                          " records as quarantined, its batches that were given up have ",
                          quarantined));
    }
    if (oracle_ != nullptr &&
        (c.read != oracle_->records() || c.applied + c.quarantined != oracle_->records())) {
      world_.violated(str("I2: epoch ", epoch.epoch, " has read ", c.read, " and applied ",
                          c.applied, " records of ", oracle_->records()));
    }
    if (c.read != epochs.front().counts.read)
      world_.violated(str("I2: epochs 0 and ", epoch.epoch, " differ in their records"));
  }
}

/// How often the job should have applied a key's record: in every sealed epoch, and in the one
/// after them if its shard has ended; not in batches that it does without.
uint32_t Checkers::weight_in_the_end(const checkpoint::PartitionImage& image, uint64_t key) const {
  const CounterOracle::Entry* const entry = oracle_->find(key);
  if (entry == nullptr) return 0;
  uint32_t weight = 0;
  for (const BatchId batch : entry->batches) {
    bool ended = batch.epoch < sealed_epochs_;
    for (const checkpoint::EpochImage& epoch : image.epochs) {
      if (epoch.epoch != batch.epoch) continue;
      for (const wire::Interval& i : epoch.ended)
        ended = ended || (batch.shard >= i.begin && batch.shard < i.end);
    }
    const bool without =
        given_up_.contains(batch) ||
        std::any_of(image.lines.begin(), image.lines.end(), [&](const wire::QuarantineLine& line) {
          return line.batch == batch && !line.had && !line.withdrawn;
        });
    weight += ended && !without ? 1 : 0;
  }
  return weight;
}

void Checkers::check_model(const chief::JobSummary& summary) {
  const chief::RunPlan& plan = *world_.spec().plan;
  SimStorage storage(world_.disk(), "checker");
  const auto manifest = checkpoint::load_latest(storage, plan.job.run_dir, nullptr);
  if (!manifest)
    return world_.violated(
        str("I7: the job has ended and no checkpoint can be read: ", manifest.error().what));
  const std::string folder = checkpoint::checkpoint_folder(plan.job.run_dir, manifest->id);
  uint64_t applied = 0, told = 0;
  for (const chief::EpochAccount& epoch : summary.epochs) told += epoch.counts.applied;
  for (const auto& chain : checkpoint::chains_of(*manifest)) {
    const auto image = checkpoint::read_partition(storage, folder, chain, plan.tables);
    if (!image)
      return world_.violated(str("I8: ", image.error().what, " (", image.error().where, ")"));
    for (const checkpoint::TableImage& table : image->tables) {
      for (size_t i = 0; i < table.keys.size(); ++i) {
        const uint32_t expected = weight_in_the_end(*image, table.keys[i]);
        applied += expected;
        if (table.members[0][i] == float(expected)) continue;
        return world_.violated(str("I1: in the end the weight of key ", table.keys[i], " is ",
                                   table.members[0][i], ", not ", expected));
      }
    }
  }
  if (applied != told)
    world_.violated(str("I1: in the end the weights are those of ", applied,
                        " records, the accounts say ", told));
}

}  // namespace downpour::sim
