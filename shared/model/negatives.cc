#include "shared/model/negatives.h"

#include <algorithm>
#include <variant>

#include "shared/base/rng.h"
#include "shared/job/field_output.h"
#include "shared/model/bag_view.h"

namespace downpour::model {
namespace {

bool is_of_item(const Job& job, const std::string& name) {
  const std::vector<std::string>& items = job.data.negatives.fields;
  const auto named = [&](const std::string& field) { return std::ranges::count(items, field) > 0; };
  const FieldSpec* const field = job.data.find_field(name);
  if (field == nullptr || !is_cross(*field)) return named(name);
  return std::ranges::all_of(std::get<ops::Cross>(field->transform[0]).fields, named);
}

uint64_t seed_of(const Negatives& negatives, const BatchId& id, bool training) {
  const uint64_t epoch = training ? id.epoch : 0;
  const uint64_t seed = hash_combine(0x6e656761746976ULL, negatives.seed);
  return hash_combine(hash_combine(seed, epoch << 32 | id.shard), id.batch);
}

/// Returns for each row the record that gives its item.
std::vector<uint32_t> draw(uint64_t seed, uint32_t records, uint32_t group) {
  std::vector<uint32_t> items;
  items.reserve(size_t{records} * group);
  for (uint32_t record = 0; record < records; ++record) {
    Rng rng(hash_combine(seed, record));
    items.push_back(record);
    for (uint32_t j = 1; j < group; ++j) {
      const auto other = uint32_t(rng.below(records - 1));
      items.push_back(other < record ? other : other + 1);
    }
  }
  return items;
}

/// Returns which record gives the values of a column in a row.
struct Source {
  const std::vector<uint32_t>& items;
  uint32_t group;
  bool of_item;
  uint32_t operator()(size_t row) const { return of_item ? items[row] : uint32_t(row / group); }
};

bool are_too_many(const Negatives& negatives, const Batch& batch,
                  const std::vector<uint32_t>& items, uint32_t group) {
  for (const FloatColumn& column : batch.floats)
    if (uint64_t{column.width} * items.size() > negatives.values_max) return true;
  for (size_t b = 0; b < batch.bags.size(); ++b) {
    if (batch.bags[b].offsets.empty()) continue;
    const Source source{items, group, negatives.bags[b]};
    uint64_t keys = 0;
    for (size_t row = 0; row < items.size(); ++row) {
      keys += keys_of(batch.bags[b], source(row)).count();
    }
    if (keys > negatives.values_max) return true;
  }
  return false;
}

void gather(const FloatColumn& from, const Source& source, FloatColumn& to) {
  to.width = from.width;
  to.values.resize(source.items.size() * from.width);
  for (size_t row = 0; row < source.items.size(); ++row)
    std::copy_n(from.values.data() + size_t{source(row)} * from.width, from.width,
                to.values.data() + row * from.width);
}

void gather(const BagColumn& from, const Source& source, BagColumn& to) {
  to.table_index = from.table_index;
  to.offsets.clear();
  to.keys.clear();
  to.values.clear();
  if (!from.offsets.empty()) to.offsets.push_back(0);
  for (size_t row = 0; row < source.items.size(); ++row) {
    const auto [begin, end] = keys_of(from, source(row));
    to.keys.insert(to.keys.end(), from.keys.data() + begin, from.keys.data() + end);
    if (!from.values.empty())
      to.values.insert(to.values.end(), from.values.data() + begin, from.values.data() + end);
    if (!from.offsets.empty()) to.offsets.push_back(uint32_t(to.keys.size()));
  }
}

}  // namespace

Negatives negatives_of(const Job& job, const InputLayout& layout) {
  Negatives negatives{.per_record = job.data.negatives.per_record, .seed = job.seed};
  if (!negatives.given()) return {};
  for (const FloatInput& input : layout.floats)
    negatives.floats.push_back(is_of_item(job, input.field));
  for (const BagInput& input : layout.bags) negatives.bags.push_back(is_of_item(job, input.field));
  return negatives;
}

BatchRows rows_of(const Negatives& negatives, const Batch& batch, bool training, Batch& memory) {
  if (!negatives.given()) return {batch};
  const uint64_t seed = seed_of(negatives, batch.id, training);
  uint32_t per_record = batch.records > 1 ? negatives.per_record : 0;
  std::vector<uint32_t> items = draw(seed, batch.records, 1 + per_record);
  while (per_record > 0 && are_too_many(negatives, batch, items, 1 + per_record)) {
    per_record /= 2;
    items = draw(seed, batch.records, 1 + per_record);
  }
  const uint32_t group = 1 + per_record;
  memory.id = batch.id;
  memory.records = batch.records * group;
  memory.tables = batch.tables;
  memory.floats.resize(batch.floats.size() + 1);
  for (size_t f = 0; f < batch.floats.size(); ++f) {
    const bool of_item = f < negatives.floats.size() && negatives.floats[f];
    gather(batch.floats[f], {items, group, of_item}, memory.floats[f]);
  }
  memory.bags.resize(batch.bags.size());
  for (size_t b = 0; b < batch.bags.size(); ++b)
    gather(batch.bags[b], {items, group, negatives.bags[b]}, memory.bags[b]);
  FloatColumn& labels = memory.floats.back();
  labels.width = 1;
  labels.values.assign(memory.records, 0.0F);
  for (size_t row = 0; row < memory.records; row += group) labels.values[row] = 1.0F;
  return {memory, group};
}

void keep_first_rows(uint32_t group, uint32_t width, std::vector<float>& predictions) {
  const size_t records = predictions.size() / group / width;
  for (size_t record = 1; record < records; ++record)
    std::copy_n(predictions.data() + record * group * width, width,
                predictions.data() + record * width);
  predictions.resize(records * width);
}

}  // namespace downpour::model
