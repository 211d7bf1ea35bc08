// Checkers: compares the contents of partitions, images and the trained model with the oracle.
#include <algorithm>

#include "tools/sim/checkers.h"

namespace downpour::sim {
namespace {

/// Returns whether a partition has passed a batch, with or without its gradient.
bool holds(const ps::Partitions& partitions, PartitionId p, BatchId batch) {
  if (batch.epoch < partitions.sealed(p)) return true;
  return partitions.watermarks().watermark(batch.shard_id(), p) > batch.batch;
}

/// Returns whether an image has passed a batch, with or without its gradient.
bool holds(const checkpoint::PartitionImage& image, BatchId batch) {
  if (batch.epoch < image.sealed_epochs) return true;
  for (const checkpoint::EpochImage& epoch : image.epochs) {
    if (epoch.epoch != batch.epoch) continue;
    for (const wire::Interval& i : epoch.ended)
      if (batch.shard >= i.begin && batch.shard < i.end) return true;
  }
  for (const checkpoint::ShardImage& shard : image.shards) {
    if (shard.shard == batch.shard_id()) return shard.ended || shard.watermark > batch.batch;
  }
  return false;
}

}  // namespace

// ---- the order in which batches were applied

std::optional<BatchId> Checkers::last_push_of(ProcessNumber process) const {
  const auto at = last_push_.find(process);
  return at == last_push_.end() ? std::nullopt : std::optional(at->second);
}

void Checkers::follow(const Core& core, std::optional<BatchId> last) {
  if (oracle_ == nullptr || !oracle_->order_matters()) return;
  const ps::Partitions& partitions = core.partitions();
  std::vector<std::optional<Holding>>& holdings = holdings_[core.id];
  holdings.resize(partitions.count());
  for (uint32_t i = 0; i < partitions.count(); ++i) {
    const auto p = PartitionId(i);
    std::optional<Holding>& holding = holdings[i];
    if (!partitions.owns(p)) {
      holding.reset();
      continue;
    }
    const uint64_t version = partitions.version(p);
    if (holding && holding->ownership_generation == partitions.ownership_generation(p) &&
        holding->version == version)
      continue;
    const uint32_t number = last ? oracle_->number_of(*last) : UINT32_MAX;
    const bool one_more = holding &&
                          holding->ownership_generation == partitions.ownership_generation(p) &&
                          version == holding->version + 1 && number != UINT32_MAX &&
                          holding->steps[number] == 0 && holds(partitions, p, *last);
    if (!one_more) {
      holding = find_holding(core, p);
      continue;
    }
    holding->node = order_.after(p, holding->node, number);
    holding->steps[number] = holding->version = version;
  }
}

/// Finds the order of a partition that is new, restored or moved. Some ps must have had this order.
Checkers::Holding Checkers::find_holding(const Core& core, PartitionId p) const {
  const ps::Partitions& partitions = core.partitions();
  AppliedOrder::Set set;
  for (uint32_t b = 0; b < oracle_->batches().size(); ++b) {
    if (holds(partitions, p, oracle_->batches()[b].id)) set.add(b);
  }
  const std::vector<AppliedOrder::Node> nodes = order_.find(p, set);
  Holding holding{.ownership_generation = partitions.ownership_generation(p),
                  .version = partitions.version(p)};
  if (nodes.empty() || set.count != holding.version) {
    world_.violated(str("I1: ", core.name, " has partition ", p, " at version ", holding.version,
                        ", with ", set.count, " batches by its watermarks; ", nodes.size(),
                        " orders of these batches were seen"));
    holding.steps.resize(oracle_->batches().size());
    return holding;
  }
  const checkpoint::PartitionImage image = partitions.export_image(p);
  for (const AppliedOrder::Node node : nodes) {
    holding.node = node;
    holding.steps = order_.steps(node, oracle_->batches().size());
    const auto step_of = [&](uint32_t b) {
      return counts(partitions, p, oracle_->batches()[b].id) ? holding.steps[b] : 0;
    };
    if (nodes.size() == 1 || wrong_row(image, step_of).empty()) break;
  }
  return holding;
}

// ---- synchronous steps

void Checkers::check_commit(ViewId view, const wire::Commit& commit) {
  if (oracle_ == nullptr || !batches_are_known()) return;
  if (world_.plan().job.train.backups > 0) return check_step_with_backups(view, commit);
  const std::vector<std::vector<wire::StepPart>>& steps = oracle_->steps();
  if (commit.step == 0 || commit.step > steps.size())
    return world_.violated(str("I9: step ", commit.step, " of ", steps.size()));
  if (commit.parts == steps[commit.step - 1]) return;
  std::string found;
  for (const wire::StepPart& part : commit.parts)
    found += str(found.empty() ? "" : ", ", part.replica, ": ", part.batch);
  world_.violated(str("I9: step ", commit.step, " has the batches ", found));
}

void Checkers::check_step_with_backups(ViewId view, const wire::Commit& commit) {
  const auto& train = world_.plan().job.train;
  if (view < commit_view_) return;  // from before a rollback: no ps applies it
  commit_view_ = view;
  if (commit.step == 0 || commit.step > committed_.size() + 1 || commit.parts.empty() ||
      commit.parts.size() > *train.replicas) {
    return world_.violated(str("I9: step ", commit.step, " after ", committed_.size(),
                               " steps has ", commit.parts.size(), " batches"));
  }
  if (commit.step <= committed_.size()) {
    const CommittedStep& known = committed_[commit.step - 1];
    if (known.parts == commit.parts) return;  // repeated, or the same again after a rollback
    if (view == known.view)
      return world_.violated(
          str("I9: step ", commit.step, " is committed with two sets of batches"));
    committed_.resize(commit.step - 1);
    returned_ = true;
  }
  // Batches of each shard that the steps so far have applied.
  std::map<ShardId, uint32_t> applied, total;
  for (const Oracle::Batch& batch : oracle_->batches()) ++total[batch.id.shard_id()];
  for (const CommittedStep& step : committed_) {
    for (const wire::StepPart& part : step.parts) ++applied[part.batch.shard_id()];
  }
  uint32_t open = 0;  // shards of the epoch with batches left
  for (const auto& [shard, batches] : total)
    open += shard.epoch == commit.parts[0].batch.epoch && applied[shard] < batches ? 1 : 0;
  for (const wire::StepPart& part : commit.parts) {
    uint32_t& next = applied[part.batch.shard_id()];
    if (part.batch.batch != next++)
      return world_.violated(str("I9: step ", commit.step, " has batch ", part.batch,
                                 ", but the steps before have ", next - 1, " of its shard"));
  }
  // A replica may also have the shard that it reads ahead, and several ones after a rollback.
  const bool rolled_back = returned_ || (!committed_.empty() && view > committed_.front().view);
  const auto active = std::min<uint64_t>(*train.replicas, (open + 1) / 2);
  if (!rolled_back && commit.parts.size() + train.backups < active) {
    return world_.violated(str("I9: step ", commit.step, " has ", commit.parts.size(), " of ",
                               active, " batches at least"));
  }
  committed_.push_back({view, commit.parts});
}

// ---- values

/// Returns whether the partition has quarantined a batch.
bool Checkers::quarantined(const ps::Partitions& partitions, PartitionId p, BatchId batch) const {
  return batch.epoch < partitions.sealed(p) ? quarantined_batches_.contains(batch)
                                            : partitions.markers().quarantines(batch, p);
}

/// Returns whether a partition holds the gradient of a batch.
bool Checkers::counts(const ps::Partitions& partitions, PartitionId p, BatchId batch) const {
  return holds(partitions, p, batch) && !quarantined(partitions, p, batch);
}

StepOf Checkers::steps_of(const Core& core, PartitionId p) const {
  const std::vector<uint64_t>* steps = nullptr;
  if (oracle_->order_matters()) steps = &holdings_.at(core.id)[raw(p)]->steps;
  return [this, &partitions = core.partitions(), p, steps](uint32_t b) -> uint64_t {
    if (!counts(partitions, p, oracle_->batches()[b].id)) return 0;
    return steps != nullptr ? (*steps)[b] : 1;
  };
}

void Checkers::check_values(const Core& core) {
  const ps::Partitions& partitions = core.partitions();
  for (uint32_t i = 0; i < partitions.count(); ++i) {
    const auto p = PartitionId(i);
    if (!partitions.owns(p)) continue;
    const StepOf step_of = steps_of(core, p);
    for (uint32_t b = 0; oracle_->order_matters() && b < oracle_->batches().size(); ++b) {
      const BatchId batch = oracle_->batches()[b].id;
      const uint64_t step = (*holdings_[core.id][i]).steps[b];
      if (holds(partitions, p, batch) == (step > 0)) continue;
      return world_.violated(str("I1: at ", core.name, " the watermarks of partition ", p,
                                 step > 0 ? " lack" : " have", " batch ", batch,
                                 ", which was applied in step ", step));
    }
    const std::string wrong = wrong_row(partitions.export_image(p), step_of);
    if (wrong.empty()) continue;
    return world_.violated(str("I1: at ", core.name, " partition ", p, ", ", partitions.sealed(p),
                               " epochs sealed: ", wrong));
  }
}

void Checkers::check_batch(const Core& core, BatchId batch) {
  const ps::Partitions& partitions = core.partitions();
  const uint32_t number = oracle_->number_of(batch);
  if (number == UINT32_MAX) return;
  std::vector<float> weights;
  std::vector<double> expected;
  for (const auto& at : oracle_->batches()[number].rows) {
    if (!partitions.owns(at.first)) continue;
    const Oracle::Row& row = oracle_->row(at);
    const StepOf step_of = steps_of(core, at.first);
    (void)oracle_->state(row, step_of, expected);
    weights.assign(expected.size(), 0);
    partitions.table(row.table).pull(&row.key, 1, weights.data(), nullptr);
    size_t weight = 0, stored = 0;
    for (const Oracle::TableVariable& table_variable : oracle_->table_variables(row.table)) {
      for (size_t i = 0; i < table_variable.dim; ++i, ++weight) {
        if (agrees(weights[weight], expected[stored + i])) continue;
        return world_.violated(
            str("I1: at ", core.name, " partition ", at.first, ", ", partitions.sealed(at.first),
                " epochs sealed: ",
                describe(row, stored + i, weights[weight], expected[stored + i], step_of)));
      }
      stored += table_variable.stored_floats();
    }
  }
}

std::string Checkers::wrong_row(const checkpoint::PartitionImage& image,
                                const StepOf& step_of) const {
  std::vector<uint64_t> steps(oracle_->batches().size());
  for (uint32_t b = 0; b < steps.size(); ++b) steps[b] = step_of(b);
  const StepOf known_step_of = [&steps](uint32_t b) { return steps[b]; };
  std::map<TableId, const checkpoint::TableImage*> tables;
  for (const checkpoint::TableImage& table : image.tables) tables[table.table] = &table;
  std::map<TableId, size_t> next;  // index of the next row in the image
  std::vector<double> expected;
  for (const Oracle::Row& row : oracle_->by_partition()[raw(image.partition)]) {
    const auto table = tables.find(row.table);
    size_t& place = next[row.table];
    const bool stored = table != tables.end() && place < table->second->keys.size() &&
                        table->second->keys[place] == row.key;
    const bool wanted = oracle_->state(row, known_step_of, expected);
    if (stored != wanted) {
      return str("row ", row.key, " of table ", oracle_->table_name(row.table),
                 stored ? " is stored, and no batch has touched it" : " is not stored");
    }
    if (!stored) continue;
    size_t element = 0;
    for (size_t m = 0; m < oracle_->table_variables(row.table).size(); ++m) {
      const Oracle::TableVariable& table_variable = oracle_->table_variables(row.table)[m];
      const size_t floats = table_variable.stored_floats();
      for (size_t i = 0; i < floats; ++i, ++element) {
        const float value = table->second->table_variables[m][place * floats + i];
        if (!agrees(value, expected[element]))
          return describe(row, element, value, expected[element], step_of);
      }
    }
    ++place;
  }
  for (const auto& [id, table] : tables) {
    if (next[id] != table->keys.size()) {
      return str("row ", table->keys[next[id]], " of table ", oracle_->table_name(id),
                 " is stored, and no record has it");
    }
  }
  return {};
}

std::string Checkers::describe(const Oracle::Row& row, size_t element, float stored,
                               double expected, const StepOf& step_of) const {
  size_t table_variable = 0;
  const std::vector<Oracle::TableVariable>& table_variables = oracle_->table_variables(row.table);
  for (; element >= table_variables[table_variable].stored_floats(); ++table_variable)
    element -= table_variables[table_variable].stored_floats();
  const size_t slot = element / table_variables[table_variable].dim;
  std::string text =
      str("row ", row.key, " of table ", oracle_->table_name(row.table), ", member ",
          table_variable, ", ", slot == 0 ? "weight " : str("slot ", slot - 1, " of weight "),
          element % table_variables[table_variable].dim, " is ", stored, " and should be ",
          expected, "; steps of its batches:");
  for (const Oracle::Use& use : row.uses)
    text += str(' ', oracle_->batches()[use.batch].id, " (", step_of(use.batch), ")");
  return text;
}

void Checkers::check_floor(const Core& core) {
  if (world_.spec().faults.on[size_t(FaultKind::kFlip)] || world_.disk().counts().lies > 0) return;
  const ps::Partitions& partitions = core.partitions();
  for (uint32_t i = 0; i < partitions.count(); ++i) {
    const auto p = PartitionId(i);
    // Check only cores that know the latest view, because a zombie may be outdated. Skip partitions
    // that are not in this view yet, because they may still be loading.
    if (!partitions.owns(p) || partitions.ownership_generation(p) > core.core->view().id ||
        core.core->view().id < views_latest())
      continue;
    uint64_t applied = 0;
    for (const Oracle::Batch& batch : oracle_->batches())
      applied += counts(partitions, p, batch.id) ? batch.records : 0;
    if (applied >= floor_[i]) continue;
    return world_.violated(str("I4: at ", core.name, " partition ", p, " holds ", applied,
                               " applied records, checkpoint ", published_, " held ", floor_[i]));
  }
}

// ---- images

bool Checkers::counts(const checkpoint::PartitionImage& image, BatchId batch) const {
  if (!holds(image, batch)) return false;
  if (batch.epoch < image.sealed_epochs) return !quarantined_batches_.contains(batch);
  return std::none_of(image.markers.begin(), image.markers.end(),
                      [&](const wire::QuarantineMarker& line) {
                        return line.batch == batch && !line.had && !line.withdrawn;
                      });
}

uint64_t Checkers::records_in(const checkpoint::PartitionImage& image) const {
  uint64_t records = 0;
  for (const Oracle::Batch& batch : oracle_->batches())
    records += counts(image, batch.id) ? batch.records : 0;
  return records;
}

void Checkers::check_image(const checkpoint::PartitionImage& image) {
  const std::vector<Oracle::Batch>& batches = oracle_->batches();
  std::vector<uint64_t> steps(batches.size(), 1);
  const StepOf step_of = [&](uint32_t b) { return counts(image, batches[b].id) ? steps[b] : 0; };
  std::vector<AppliedOrder::Node> nodes{0};
  if (oracle_->order_matters()) {
    AppliedOrder::Set set;
    for (uint32_t b = 0; b < batches.size(); ++b) {
      if (holds(image, batches[b].id)) set.add(b);
    }
    nodes = order_.find(image.partition, set);
    if (nodes.empty() || set.count != image.version) {
      return world_.violated(str("I7: checkpoint ", published_, " has partition ", image.partition,
                                 " at version ", image.version, ", with ", set.count,
                                 " batches by its watermarks; ", nodes.size(),
                                 " orders of these batches were seen"));
    }
  }
  std::string wrong;
  for (const AppliedOrder::Node node : nodes) {
    if (oracle_->order_matters()) steps = order_.steps(node, batches.size());
    const std::string here = wrong_row(image, step_of);
    if (here.empty()) return;
    if (wrong.empty()) wrong = here;
  }
  world_.violated(str("I7: checkpoint ", published_, ", partition ", image.partition, ", ",
                      image.sealed_epochs, " epochs sealed: ", wrong));
}

// ---- the trained model

void Checkers::check_model(const chief::JobSummary& summary) {
  const chief::RunPlan& plan = *world_.spec().plan;
  SimStorage storage(world_.disk(), "checker");
  read_published({});
  const auto whole = newest_whole(storage);
  if (!whole) return;
  const auto newest = checkpoint::newest_manifest(storage, plan.job.run_dir);
  // The newest checkpoint was damaged after it was published.
  if (world_.has_damage() && (!newest || whole->manifest.id != *newest)) return;
  if (!batches_are_known()) return check_sums_of_keys(whole->images);
  uint64_t told = 0;
  for (const chief::EpochAccount& epoch : summary.epochs) told += epoch.counts.applied;
  for (const checkpoint::PartitionImage& image : whole->images) {
    for (const checkpoint::ShardImage& shard : image.shards) {
      if (shard.ended || shard.watermark == 0) continue;
      return world_.violated(str("I1: in the end partition ", image.partition, " holds ",
                                 shard.watermark, " batches of shard ", shard.shard,
                                 ", which has not ended"));
    }
    const uint64_t applied = records_in(image);
    if (applied == told) continue;
    return world_.violated(str("I1: in the end partition ", image.partition, " holds ", applied,
                               " applied records, the accounts say ", told));
  }
}

/// Checks for the counter model that each record counts once per epoch, in any batch. If a source
/// yielded a different record on the second read, the counts of both forms are added.
void Checkers::check_sums_of_keys(const std::vector<checkpoint::PartitionImage>& images) {
  std::map<uint64_t, float> weights;
  for (const checkpoint::PartitionImage& image : images) {
    for (const checkpoint::TableImage& table : image.tables) {
      for (size_t i = 0; i < table.keys.size(); ++i)
        weights[table.keys[i] % kOtherRecord] += table.table_variables[0][i];
    }
  }
  const uint32_t epochs = world_.plan().job.train.epochs;
  for (const auto& [key, weight] : weights) {
    if (weight == float(epochs)) continue;
    return world_.violated(str("I1: in the end the record of key ", key, " has counted ", weight,
                               " times in ", epochs, " epochs"));
  }
  if (weights.size() == oracle_->records()) return;
  world_.violated(str("I1: in the end ", weights.size(), " records are in the model, not ",
                      oracle_->records()));
}

}  // namespace downpour::sim
