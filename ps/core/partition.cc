#include "ps/core/partition.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace downpour::ps {

Partitions::Partitions(const PsConfig& config)
    : count_(uint32_t{1} << config.partition_bits),
      specs_(config.tables),
      grouped_(std::ranges::any_of(
          specs_, [](const TableSpec& spec) { return spec.group != RowGroup::kAll; })),
      owned_(bits_for(count_)),
      stepped_(bits_for(count_)),
      frozen_(bits_for(count_)),
      serving_(bits_for(count_)),
      serving_bytes_(count_),
      ownership_generations_(count_),
      next_steps_(count_, 1),
      sealed_(count_),
      watermarks_(count_, config.limits),
      markers_(count_),
      awaiting_markers_(bits_for(count_)) {
  for (size_t i = 0; i < specs_.size(); ++i) {
    // Each process draws a random incarnation, so no data file can be made for its salt.
    tables_.push_back(std::make_unique<Table>(TableId(uint32_t(i)), specs_[i], config.seed,
                                              config.partition_bits, config.arenas,
                                              raw(config.incarnation)));
    if (config.incremental_saves) tables_.back()->track_touched();
  }
}

bool Partitions::are_mixed(const Bits& parts) const {
  if (!grouped_ || none(parts)) return false;
  const RowGroup group = group_of(first(parts), count_);
  bool differ = false;
  for_each(parts, [&](PartitionId p) { differ = differ || group_of(p, count_) != group; });
  return differ;
}

void Partitions::versions(const Bits& parts, std::vector<uint64_t>& out) const {
  out.clear();
  out.reserve(ps::count(parts));
  for_each(parts, [&](PartitionId p) { out.push_back(version(p)); });
}

void Partitions::step(const Bits& parts) {
  uint64_t* const steps = next_steps_.data();
  for_each_word(parts, count_, [&](uint32_t begin, uint32_t end, uint64_t word) {
    for (uint32_t p = begin; p < end; ++p) steps[p] += lane(word, begin, p);
  });
}

uint64_t Partitions::next_step() const {
  uint64_t step = 0;
  bool differ = false;
  for_each(stepped_, [&](PartitionId p) {
    const uint64_t here = next_steps_[raw(p)];
    differ = differ || (step != 0 && step != here);
    step = here;
  });
  return differ ? 0 : step;
}

void Partitions::seal(uint32_t epochs) {
  uint32_t least = std::numeric_limits<uint32_t>::max();
  for_each(owned_, [&](PartitionId p) {
    sealed_[raw(p)] = std::max(sealed_[raw(p)], epochs);
    least = std::min(least, sealed_[raw(p)]);
  });
  if (!none(owned_)) {
    watermarks_.forget_below(least);
    markers_.forget_below(least);
  }
  refresh();
}

void Partitions::adopt(PartitionId p, ViewId ownership_generation, uint32_t sealed_epochs) {
  DP_CHECK(!owns(p), p);
  insert(owned_, p);
  if (has_steps(p)) insert(stepped_, p);
  ownership_generations_[raw(p)] = ownership_generation;
  sealed_[raw(p)] = sealed_epochs;
  next_steps_[raw(p)] = 1;
  insert(serving_, p);
  insert(awaiting_markers_, p);
  serving_bytes_[raw(p)] = 1;
  ownership_generation_max_ = std::max(ownership_generation_max_, ownership_generation);
  sealed_max_ = std::max(sealed_max_, sealed_epochs);
}

Result<void> Partitions::adopt(const checkpoint::PartitionImage& image, ViewId ownership_generation,
                               uint32_t sealed_epochs, uint64_t plan_hash) {
  const PartitionId p = image.partition;
  DP_CHECK(raw(p) < count_ && !owns(p), p);
  if (image.sealed_epochs > sealed_epochs) {  // it lacks watermarks that the checkpoint requires
    return Error{ErrorCode::kBadData,
                 str("the image of partition ", p, " has sealed ", image.sealed_epochs,
                     " epochs, but its checkpoint ", sealed_epochs)};
  }
  const bool other_plan = plan_hash != 0 && image.plan_hash != 0 && image.plan_hash != plan_hash;
  if (other_plan && image.holds_from(sealed_epochs)) {
    return Error{ErrorCode::kBadData,
                 str("the image of partition ", p, " contains batches of other data")};
  }
  const uint32_t sealed = sealed_epochs;
  DP_TRY_VOID(watermarks_.check(image, sealed));
  for (const uint64_t steps : {image.version, image.steps_before}) {
    if (steps < std::numeric_limits<uint64_t>::max() / 4) continue;
    return Error{ErrorCode::kBadData,
                 str("image of partition ", p, ": invalid number of steps ", steps)};
  }
  for (const checkpoint::TableImage& rows : image.tables) {
    Result<void> imported;
    if (raw(rows.table) >= tables_.size()) {
      imported = Error{ErrorCode::kBadData, str("unknown table ", rows.table)};
    } else {
      imported = tables_[raw(rows.table)]->import_partition(p, rows);
    }
    if (!imported) {
      for (const std::unique_ptr<Table>& table : tables_) table->drop_partition(p);
      return std::move(imported).context("image of partition ", p);
    }
  }
  markers_.import_from(image.markers, p, sealed);
  watermarks_.import_from(image, sealed);
  adopt(p, ownership_generation, sealed);
  next_steps_[raw(p)] = image.version + 1;
  if (image.steps_before != 0) steps_before_.resize(count_);
  if (!steps_before_.empty()) steps_before_[raw(p)] = image.steps_before;
  return {};
}

Result<void> Partitions::take_markers(const Bits& parts,
                                      const std::vector<wire::QuarantineMarker>& markers,
                                      bool known) {
  Result<void> taken;
  for_each(parts, [&](PartitionId p) {
    if (!owns(p)) return;
    if (known) erase(awaiting_markers_, p);
    for (const wire::QuarantineMarker& marker : markers) {
      if (marker.batch.epoch < sealed(p)) continue;
      if (markers_.take(marker, p, has_applied(marker.batch, p)) || !taken) continue;
      taken = Error{ErrorCode::kBug, str("batch ", marker.batch, " is quarantined at partition ", p,
                                         ", but applied at others")};
    }
  });
  return taken;
}

std::vector<wire::QuarantineMarker> Partitions::reported_markers() const {
  return markers_.all([this](BatchId batch, PartitionId p) { return has_applied(batch, p); });
}

bool Partitions::has_applied(BatchId batch, PartitionId p) const {
  return batch.epoch < sealed(p) || watermarks_.watermark(batch.shard_id(), p) > batch.batch;
}

bool Partitions::hold_unsealed() const {
  bool holds = false;
  for_each(owned_, [&](PartitionId p) {
    if (holds) return;
    checkpoint::PartitionImage state{.partition = p};
    export_state(p, state);
    holds = state.holds_from(sealed(p));
  });
  return holds;
}

void Partitions::drop(const Bits& parts) {
  for_each(parts, [&](PartitionId p) {
    for (const std::unique_ptr<Table>& table : tables_) table->drop_partition(p);
    erase(owned_, p);
    erase(stepped_, p);
    erase(frozen_, p);
    erase(awaiting_markers_, p);
    ownership_generations_[raw(p)] = {};
    sealed_[raw(p)] = 0;
    next_steps_[raw(p)] = 1;
    if (!steps_before_.empty()) steps_before_[raw(p)] = 0;
  });
  watermarks_.drop(parts);
  markers_.drop(parts);
  refresh();
}

void Partitions::freeze(PartitionId p) {
  DP_CHECK(owns(p), p);
  insert(frozen_, p);
  refresh();
}

void Partitions::thaw(PartitionId p, ViewId ownership_generation) {
  DP_CHECK(contains(frozen_, p), p);
  erase(frozen_, p);
  ownership_generations_[raw(p)] = ownership_generation;
  refresh();
}

checkpoint::PartitionImage Partitions::export_image(PartitionId p) const {
  checkpoint::PartitionImage image;
  export_state(p, image);
  for (const std::unique_ptr<Table>& table : tables_) {
    checkpoint::TableImage rows = table->export_partition(p);
    if (!rows.keys.empty()) image.tables.push_back(std::move(rows));
  }
  return image;
}

void Partitions::export_state(PartitionId p, checkpoint::PartitionImage& image) const {
  DP_CHECK(owns(p), p);
  image = {.partition = p, .version = version(p), .sealed_epochs = sealed(p)};
  watermarks_.export_to(p, sealed(p), image);
  image.markers = markers_.of(p, sealed(p));
  image.plan_hash = image.holds_from(sealed(p)) ? plan_hash_ : 0;
  image.steps_before = steps_before_.empty() ? 0 : steps_before_[raw(p)];
}

uint64_t Partitions::snapshot(PartitionId p, uint64_t base, checkpoint::PartitionImage& image) {
  std::vector<checkpoint::TableImage> spare = std::exchange(image.tables, {});
  export_state(p, image);
  uint64_t rows_in_all = 0;
  bool all = true;
  for (const std::unique_ptr<Table>& table : tables_) {
    checkpoint::TableImage rows;
    const auto like = std::find_if(spare.begin(), spare.end(),
                                   [&](const auto& t) { return t.table == table->id(); });
    if (like != spare.end()) rows = std::move(*like);
    const size_t stored = table->snapshot_partition(p, base != 0, snapshot_memory_, rows);
    all = all && rows.keys.size() == stored;
    if (table->spec().kind == TableKind::kEmbedding) rows_in_all += stored;
    if (!rows.keys.empty()) image.tables.push_back(std::move(rows));
  }
  image.base = all ? 0 : base;
  return rows_in_all;
}

void Partitions::end_snapshots() { snapshot_memory_ = {}; }

void Partitions::settle_snapshots(bool published) {
  for (const std::unique_ptr<Table>& table : tables_) table->settle_snapshots(published);
}

uint64_t Partitions::rows() const {
  uint64_t rows = 0;
  for (const std::unique_ptr<Table>& table : tables_) rows += table->rows();
  return rows;
}

uint64_t Partitions::memory_bytes() const {
  uint64_t bytes = 0;
  for (const std::unique_ptr<Table>& table : tables_) {
    const TableMemory memory = table->memory();
    bytes += memory.index_bytes + memory.row_bytes;
  }
  return bytes;
}

void Partitions::refresh() {
  ownership_generation_max_ = {};
  sealed_max_ = 0;
  for (uint32_t p = 0; p < count_; ++p) {
    const bool owned = owns(PartitionId(p));
    const bool served = owned && !contains(frozen_, PartitionId(p));
    serving_bytes_[p] = served ? 1 : 0;
    if (served) {
      insert(serving_, PartitionId(p));
    } else {
      erase(serving_, PartitionId(p));
    }
    if (!owned) continue;
    ownership_generation_max_ = std::max(ownership_generation_max_, ownership_generations_[p]);
    sealed_max_ = std::max(sealed_max_, sealed_[p]);
  }
}

}  // namespace downpour::ps
