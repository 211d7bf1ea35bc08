// Random batches of every shape, from a seed.
#pragma once

#include "shared/base/rng.h"
#include "shared/tensor/batch.h"

namespace downpour::wire {

/// Returns a consistent batch of at most `records_max` records, with tables of at most `keys_max`
/// keys.
inline Batch random_batch(Rng& rng, uint32_t records_max, uint32_t keys_max) {
  Batch batch;
  batch.id = {uint32_t(rng.below(9)), uint32_t(rng.below(99)), uint32_t(rng.below(99))};
  batch.records_hash = rng.next();
  batch.counts = {.read = rng.below(1000), .filtered = rng.below(10), .skipped = rng.below(10)};
  batch.end_offset = rng.next();
  batch.first_record = rng.below(1000);
  batch.last_record = batch.first_record + rng.below(1000);
  if (rng.below(8) == 0) {
    batch.counts.quarantined = 7;
    batch.quarantined = true;
    return batch;
  }
  batch.records = 1 + uint32_t(rng.below(records_max));
  for (uint64_t n = rng.below(4); n > 0; --n) {
    FloatColumn column{.width = uint32_t(rng.below(4))};
    column.values.resize(size_t(column.width) * batch.records);
    for (float& value : column.values) value = float(rng.normal());
    batch.floats.push_back(std::move(column));
  }
  for (uint32_t t = 0, n = uint32_t(rng.below(3)); t < n; ++t) {
    TableKeys table{.table = TableId(t)};
    table.keys.resize(1 + rng.below(keys_max));
    for (uint64_t& key : table.keys) key = rng.next();
    batch.tables.push_back(std::move(table));
  }
  for (uint64_t n = batch.tables.empty() ? 0 : rng.below(4); n > 0; --n) {
    BagColumn bag{.table_index = uint32_t(rng.below(batch.tables.size()))};
    size_t keys = batch.records;
    if (rng.below(2) == 0) {
      bag.offsets.push_back(0);
      for (uint32_t r = 0; r < batch.records; ++r)
        bag.offsets.push_back(bag.offsets.back() + uint32_t(rng.below(5)));
      keys = bag.offsets.back();
    }
    bag.keys.resize(keys);
    for (uint32_t& key : bag.keys)
      key = uint32_t(rng.below(batch.tables[bag.table_index].keys.size()));
    if (rng.below(2) == 0) bag.values.assign(keys, 0.5F);
    batch.bags.push_back(std::move(bag));
  }
  return batch;
}

/// Compares two batches, except for the columns of quarantined ones, which have no meaning.
inline bool same_batch(const Batch& a, const Batch& b) {
  const auto all = [](const auto& x, const auto& y, auto&& same) {
    bool equal = x.size() == y.size();
    for (size_t i = 0; equal && i < x.size(); ++i) equal = same(x[i], y[i]);
    return equal;
  };
  return a.id == b.id && a.records == b.records && a.records_hash == b.records_hash &&
         a.counts == b.counts && a.end_offset == b.end_offset && a.first_record == b.first_record &&
         a.last_record == b.last_record && a.quarantined == b.quarantined &&
         (a.quarantined || (all(a.floats, b.floats,
                                [](const auto& x, const auto& y) {
                                  return x.width == y.width && x.values == y.values;
                                }) &&
                            all(a.bags, b.bags,
                                [](const auto& x, const auto& y) {
                                  return x.table_index == y.table_index && x.offsets == y.offsets &&
                                         x.keys == y.keys && x.values == y.values;
                                }) &&
                            all(a.tables, b.tables, [](const auto& x, const auto& y) {
                              return x.table == y.table && x.keys == y.keys;
                            })));
}

}  // namespace downpour::wire
