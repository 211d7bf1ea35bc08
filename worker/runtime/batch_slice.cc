#include "worker/runtime/batch_slice.h"

namespace downpour::worker {
namespace {

constexpr uint32_t kNotInSlice = UINT32_MAX;

}  // namespace

void BatchSlice::cut(const Batch& all, uint32_t begin, uint32_t end, BatchId id) {
  batch_.id = id;
  batch_.records = end - begin;
  batch_.floats.resize(all.floats.size());
  for (size_t f = 0; f < all.floats.size(); ++f) {
    const FloatColumn& from = all.floats[f];
    batch_.floats[f].width = from.width;
    batch_.floats[f].values.assign(from.values.begin() + size_t{begin} * from.width,
                                   from.values.begin() + size_t{end} * from.width);
  }
  rows_.resize(all.tables.size());
  places_.resize(all.tables.size());
  for (size_t t = 0; t < all.tables.size(); ++t) {
    if (places_[t].size() == all.tables[t].keys.size()) {
      for (const uint32_t row : rows_[t]) places_[t][row] = kNotInSlice;
    } else {
      places_[t].assign(all.tables[t].keys.size(), kNotInSlice);
    }
    rows_[t].clear();
  }
  batch_.bags.resize(all.bags.size());
  for (size_t b = 0; b < all.bags.size(); ++b) cut_bag(all.bags[b], begin, end, batch_.bags[b]);
  batch_.tables.resize(all.tables.size());
  for (size_t t = 0; t < all.tables.size(); ++t) {
    batch_.tables[t].table = all.tables[t].table;
    batch_.tables[t].keys.clear();
    for (const uint32_t row : rows_[t]) batch_.tables[t].keys.push_back(all.tables[t].keys[row]);
  }
}

void BatchSlice::cut_bag(const BagColumn& all, uint32_t begin, uint32_t end, BagColumn& bag) {
  const uint32_t first = all.offsets.empty() ? begin : all.offsets[begin];
  const uint32_t last = all.offsets.empty() ? end : all.offsets[end];
  bag.table_index = all.table_index;
  bag.offsets.clear();
  if (!all.offsets.empty()) {
    for (uint32_t r = begin; r <= end; ++r) bag.offsets.push_back(all.offsets[r] - first);
  }
  bag.keys.clear();
  std::vector<uint32_t>& rows = rows_[all.table_index];
  std::vector<uint32_t>& places = places_[all.table_index];
  for (uint32_t k = first; k < last; ++k) {
    uint32_t& place = places[all.keys[k]];
    if (place == kNotInSlice) {
      place = uint32_t(rows.size());
      rows.push_back(all.keys[k]);
    }
    bag.keys.push_back(place);
  }
  bag.values.clear();
  if (!all.values.empty()) bag.values.assign(all.values.begin() + first, all.values.begin() + last);
}

}  // namespace downpour::worker
