#include "shared/model/keyed_product.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "shared/model/gemm.h"
#include "shared/model/parallel.h"

namespace downpour::model {
namespace {

// Costs of a step in floating-point operations per column of the layer. Per record and bag: one
// forward and two backward products of 2 * dim operations each. Per different key: the same
// products, a third slower because they are small. Per key of a record: two gathered floats, which
// take as long as 16 operations. On Zen 4 with dim 16 and 64 units, the method pays below 0.62
// different keys per record and bag.
constexpr uint64_t kByRecord = 6, kByKey = 8, kGather = 16;
// A group of bags shares one pass over the records. Its products fit into the L2 cache.
constexpr uint64_t kGroupFloats = 96 * 1024;
constexpr size_t kGroupBags = 8;
// For the products of one bag; each thread may need that much.
constexpr uint64_t kBagFloatsMax = 16 << 20;
constexpr size_t kGatherRecords = 512;  // records per task
// If the rows of a bag are in more runs than this, or in shorter runs on average, they are
// gathered.
constexpr size_t kRunsMax = 16, kRunRows = 32;

}  // namespace

bool KeyedProduct::begin(const Batch& batch) {
  const auto pays = [&](uint64_t different, uint64_t all) {
    return different * pool_.dim * kByKey + all * kGather <
           uint64_t{batch.records} * pool_.bags.size() * pool_.dim * kByRecord;
  };
  uint64_t all = 0;
  // Lower bound of the number of different keys: the keys of the pool's tables, without as many as
  // bags that the pool does not read can have.
  uint64_t least = 0;
  others_.assign(batch.tables.size(), 0);
  for (const BagColumn& bag : batch.bags) others_[bag.table_index] += bag.keys.size();
  for (size_t b = 0; b < pool_.bags.size(); ++b) {
    others_[column(batch, b).table_index] -= column(batch, b).keys.size();
  }
  size_t most = 0;
  uint32_t table = kNoIndex;  // bags of the same table are adjacent
  for (size_t b = 0; b < pool_.bags.size(); ++b) {
    const BagColumn& bag = column(batch, b);
    const size_t keys = batch.tables[bag.table_index].keys.size();
    all += bag.keys.size();
    most = std::max(most, keys);
    if (bag.table_index != table) least += keys - std::min(keys, others_[bag.table_index]);
    table = bag.table_index;
  }
  active_ = pays(least, all);
  if (!active_) return false;

  records_ = batch.records;
  places_.resize(all);
  gathered_.clear();
  owners_.resize(most);
  seen_.assign(most, 0);
  bags_.assign(pool_.bags.size(), {});
  if (any_key_order_) find_runs(batch);
  uint32_t different = 0;
  size_t first_place = 0;
  for (size_t b = 0; b < bags_.size(); ++b) {
    const std::vector<uint32_t>& keys = column(batch, b).keys;
    bags_[b].first_place = first_place;
    place(keys, different + 1, bags_[b]);
    different += bags_[b].keys;
    first_place += keys.size();
  }
  const auto too_large = [&](const Bag& bag) {
    return uint64_t{bag.keys} * units_ > kBagFloatsMax;
  };
  active_ = pays(different, all) && std::ranges::none_of(bags_, too_large);
  return active_;
}

/// The keys of a table are numbered bag by bag, and a pull plan keeps that order within each
/// message. So most keys of a bag are in a few long runs.
void KeyedProduct::find_runs(const Batch& batch) {
  found_.clear();
  for (size_t begin = 0, end = 0; begin < bags_.size(); begin = end) {
    const uint32_t table = column(batch, begin).table_index;
    const size_t keys = batch.tables[table].keys.size();
    std::fill_n(owners_.begin(), keys, kNoIndex);
    for (end = begin; end < bags_.size() && column(batch, end).table_index == table; ++end) {
      for (const uint32_t key : column(batch, end).keys) owners_[key] = uint32_t(end);
    }
    const size_t first = found_.size();
    for (uint32_t key = 0; key < keys; ++key) {
      if (owners_[key] == kNoIndex) continue;  // no record has this key
      if (found_.size() == first || found_.back().bag != owners_[key] || found_.back().end != key) {
        found_.push_back({key, key, owners_[key]});
      }
      found_.back().end = key + 1;
    }
  }
  std::vector<uint32_t> at(bags_.size() + 1, 0);
  for (const Run& run : found_) ++at[run.bag + 1];
  for (size_t b = 0; b < bags_.size(); ++b) at[b + 1] += at[b];
  runs_.resize(found_.size());
  for (size_t b = 0; b < bags_.size(); ++b) {
    bags_[b].runs = {runs_.data() + at[b], at[b + 1] - at[b]};
  }
  for (const Run& run : found_) runs_[at[run.bag]++] = run;
}

/// Assigns a row of products to each key: first the rows of the runs, then the gathered rows. A key
/// is gathered if it is in a run of another bag, or if the bag's runs are too short. `stamp` is
/// above all values that earlier bags left in seen_.
void KeyedProduct::place(std::span<const uint32_t> keys, uint32_t stamp, Bag& bag) {
  uint32_t* const places = places_.data() + bag.first_place;
  for (const Run& run : bag.runs) bag.rows_in_runs += run.count();
  if (bag.runs.size() > kRunsMax || bag.rows_in_runs < kRunRows * bag.runs.size()) {
    bag.rows_in_runs = 0;
    bag.runs = {};
  }
  std::fill_n(places, keys.size(), kNoIndex);
  uint32_t before = 0;
  for (const Run& run : bag.runs) {
    for (size_t k = 0; k < keys.size(); ++k) {
      // Wraps to a huge value if the key is before the run.
      const uint32_t at = keys[k] - run.begin;
      places[k] = at < run.count() ? before + at : places[k];
    }
    before += run.count();
  }
  bag.first_gathered = uint32_t(gathered_.size());
  bag.keys = bag.rows_in_runs;
  for (size_t k = 0; k < keys.size(); ++k) {
    if (places[k] != kNoIndex) continue;
    uint32_t& seen = seen_[keys[k]];
    if (seen < stamp) {
      seen = stamp + bag.keys++;
      gathered_.push_back(keys[k]);
    }
    places[k] = seen - stamp;
  }
}

size_t KeyedProduct::floats_in(Group group) const {
  size_t floats = 0;
  for (size_t b = group.begin; b < group.end; ++b) floats += size_t{bags_[b].keys} * units_;
  return floats;
}

std::vector<KeyedProduct::Group> KeyedProduct::group(uint64_t floats_max, size_t bags_max) const {
  std::vector<Group> groups;
  for (size_t b = 0; b < bags_.size(); ++b) {
    if (groups.empty() || b - groups.back().begin >= bags_max ||
        floats_in({groups.back().begin, b + 1}) > floats_max) {
      groups.push_back({b, b});
    }
    groups.back().end = b + 1;
  }
  return groups;
}

std::vector<BagView> KeyedProduct::product_views(std::span<const BagView> views, Group group,
                                                 float* products) const {
  std::vector<BagView> to;
  for (size_t b = group.begin; b < group.end; ++b) {
    to.push_back({.bag = views[b].bag,
                  .rows = products,
                  .gradient = products,
                  .places = places_.data() + bags_[b].first_place});
    products += size_t{bags_[b].keys} * units_;
  }
  return to;
}

void KeyedProduct::multiply(const Bag& bag, const BagView& view, const float* kernel,
                            float* products) {
  const size_t dim = pool_.dim;
  const auto multiply_rows = [&](const float* rows, size_t count) {
    gemm(Transpose::kNo, Transpose::kNo, count, units_, dim, {rows, dim}, {kernel, units_}, false,
         {products, units_});
    products += count * units_;
  };
  for (const Run& run : bag.runs) multiply_rows(view.rows + run.begin * dim, run.count());
  float* const rows = rows_.data() + bag.first_gathered * dim;
  for (size_t k = 0; k < bag.gathered(); ++k) {
    std::memcpy(rows + k * dim, view.rows + gathered_[bag.first_gathered + k] * dim,
                dim * sizeof(float));
  }
  if (bag.gathered() > 0) multiply_rows(rows, bag.gathered());
}

void KeyedProduct::multiply_back(const Bag& bag, const BagView& view, const float* kernel,
                                 const float* gradients, float* kernel_gradient) {
  const size_t dim = pool_.dim;
  bool add = false;
  const auto multiply_rows = [&](const float* rows, size_t count, float* to) {
    gemm(Transpose::kYes, Transpose::kNo, dim, units_, count, {rows, dim}, {gradients, units_},
         std::exchange(add, true), {kernel_gradient, units_});
    gemm(Transpose::kNo, Transpose::kYes, count, dim, units_, {gradients, units_}, {kernel, units_},
         to != rows, {to, dim});
    gradients += count * units_;
  };
  for (const Run& run : bag.runs) {
    multiply_rows(view.rows + run.begin * dim, run.count(), view.gradient + run.begin * dim);
  }
  float* const rows = rows_.data() + bag.first_gathered * dim;
  if (bag.gathered() > 0 || bag.runs.empty()) multiply_rows(rows, bag.gathered(), rows);
}

void KeyedProduct::forward(std::span<const BagView> views, const float* kernel, int threads) {
  std::memset(layer_.ensure(records_ * units_), 0, records_ * units_ * sizeof(float));
  rows_.ensure(gathered_.size() * pool_.dim);
  for (const Group& g : group(kGroupFloats * uint64_t(threads), kGroupBags * size_t(threads))) {
    float* const floats = products_.ensure(floats_in(g));
    const std::vector<BagView> products = product_views(views, g, floats);
    parallel_for(threads, g.end - g.begin, [&](size_t i, int) {
      const size_t b = g.begin + i;
      multiply(bags_[b], views[b], kernel + b * pool_.dim * units_, products[i].gradient);
    });
    parallel_for(threads, (records_ + kGatherRecords - 1) / kGatherRecords, [&](size_t i, int) {
      const Rows records{i * kGatherRecords, std::min(records_, (i + 1) * kGatherRecords)};
      pool_forward(products, units_, false, pool_.mean, records, layer(records.begin));
    });
  }
}

void KeyedProduct::backward(std::span<const BagView> views, const float* kernel,
                            float* kernel_gradient, int threads) {
  // Several groups per thread. The bits do not depend on the grouping of bags.
  const std::vector<Group> groups =
      group(kGroupFloats, std::clamp<size_t>(bags_.size() / (4 * size_t(threads)), 1, kGroupBags));
  size_t most = 0;
  for (const Group& g : groups) most = std::max(most, floats_in(g));
  products_.ensure(most * size_t(threads));
  parallel_for(threads, groups.size(), [&](size_t i, int thread) {
    float* const sums = products_.data() + most * size_t(thread);
    std::memset(sums, 0, floats_in(groups[i]) * sizeof(float));
    const std::vector<BagView> products = product_views(views, groups[i], sums);
    pool_backward(products, units_, false, pool_.mean, {0, records_}, layer(0), {});
    for (size_t b = groups[i].begin; b < groups[i].end; ++b) {
      const size_t block = b * pool_.dim * units_;
      multiply_back(bags_[b], views[b], kernel + block, products[b - groups[i].begin].gradient,
                    kernel_gradient + block);
    }
  });
  if (gathered_.empty()) return;
  parallel_for(threads, size_t(threads), [&](size_t i, int) {
    const KeyShare share{uint32_t(i), uint32_t(threads)};
    for (size_t b = 0; b < bags_.size(); ++b) {
      const Bag& bag = bags_[b];
      add_rows({gathered_.data() + bag.first_gathered, bag.gathered()},
               rows_.data() + bag.first_gathered * pool_.dim, pool_.dim, share, views[b].gradient);
    }
  });
}

}  // namespace downpour::model
