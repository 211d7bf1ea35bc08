#include "ps/core/step_sum.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <span>
#include <utility>

#include "shared/base/hash.h"

namespace downpour::ps {
namespace {

constexpr uint32_t kNoPlace = UINT32_MAX;

template <typename T>
T load(const uint8_t* at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return value;
}

}  // namespace

const Piece& StepSum::of(const std::vector<const StagedReplica*>& replicas, double divisor,
                         float clip_value) {
  sections_.clear();
  keys_.clear();
  rows_.clear();
  values_.clear();
  const float factor = divisor > 0 ? float(1.0 / divisor) : 1.0F;
  for (uint32_t t = 0; t < partitions_.table_count(); ++t) {
    runs_.clear();
    places_.clear();
    unique_.clear();
    index_.assign(index_.size(), 0);
    for (const StagedReplica* replica : replicas) {
      for (const StagedPush& push : replica->pushes) {
        for (const StagedPush::Payload& payload : push.payloads) collect(TableId(t), push, payload);
      }
    }
    if (unique_.empty()) continue;
    sections_.push_back({TableId(t), uint32_t(unique_.size())});
    keys_.insert(keys_.end(), unique_.begin(), unique_.end());
    add_runs(partitions_.spec(TableId(t)), factor, clip_value);
  }
  sum_ = {.sections = &sections_,
          .keys = reinterpret_cast<const uint8_t*>(keys_.data()),
          .rows = rows_.data(),
          .values = reinterpret_cast<const uint8_t*>(values_.data())};
  return sum_;
}

/// Finds the place of each key of one table in one payload.
void StepSum::collect(TableId table, const StagedPush& push, const StagedPush::Payload& payload) {
  const uint8_t* keys = payload.keys.data();
  const uint8_t* values = payload.values.data();
  const uint32_t* rows = payload.rows.empty() ? nullptr : payload.rows.data();
  const auto bits = uint32_t(std::countr_zero(partitions_.count()));
  for (const wire::Section& section : payload.sections) {
    const uint64_t floats = *section_floats(partitions_.spec(section.table), section, keys);
    if (section.table == table) {
      runs_.push_back({&push, keys, values, section.keys, places_.size()});
      for (uint32_t i = 0; i < section.keys; ++i) {
        const auto key = load<uint64_t>(keys + i * sizeof(uint64_t));
        const bool admitted =
            push.whole || contains(push.parts, partition_of(row_hash(table, key), bits));
        const uint32_t row = rows == nullptr ? kNoRow : rows[i];
        places_.push_back(admitted ? place_of(key, row) : kNoPlace);
      }
    }
    keys += section.keys * sizeof(uint64_t);
    if (rows != nullptr) rows += section.keys;
    values += floats * sizeof(float);
  }
}

/// Appends the sums of the current table to the values: for each variable, the rows of the unique
/// keys.
void StepSum::add_runs(const TableSpec& spec, float factor, float clip_value) {
  std::vector<uint64_t> at(unique_.size() + 1);
  std::vector<const uint8_t*> from(runs_.size());  // next gradient of each run
  for (size_t r = 0; r < runs_.size(); ++r) from[r] = runs_[r].values;
  for (size_t v = 0; v < spec.table_variables.size(); ++v) {
    at[0] = values_.size();
    for (size_t u = 0; u < unique_.size(); ++u) at[u + 1] = at[u] + spec.row_floats(v, unique_[u]);
    values_.resize(at.back(), 0.0F);
    for (size_t r = 0; r < runs_.size(); ++r) {
      const Run& run = runs_[r];
      for (uint32_t i = 0; i < run.count; ++i) {
        const auto key = load<uint64_t>(run.keys + i * sizeof(uint64_t));
        const uint32_t floats = spec.row_floats(v, key);
        const uint32_t place = places_[run.first_place + i];
        const uint8_t* const gradient = from[r];
        from[r] += floats * sizeof(float);
        if (place == kNoPlace) continue;
        float* const sum = &values_[at[place]];
        for (uint32_t f = 0; f < floats; ++f) sum[f] += load<float>(gradient + f * sizeof(float));
      }
    }
    const std::span<float> sums(values_.data() + at[0], values_.data() + at.back());
    if (factor != 1.0F)
      for (float& sum : sums) sum *= factor;
    if (clip_value == 0) continue;
    for (float& sum : sums) {  // NaN stays NaN
      if (sum > clip_value) sum = clip_value;
      if (sum < -clip_value) sum = -clip_value;
    }
  }
}

std::vector<double> StepSum::squares(const Bits& owned, ClipGroups groups) {
  const auto bits = uint32_t(std::countr_zero(partitions_.count()));
  const bool each = groups == ClipGroups::kVariables;
  const size_t count = each ? variables_before(TableId(partitions_.table_count())) : 1;
  std::vector<double*> sums_of(partitions_.count(), nullptr);
  std::vector<double> sums(count * ps::count(owned));
  double* next = sums.data();
  for_each(owned, [&](PartitionId p) { sums_of[raw(p)] = std::exchange(next, next + count); });
  std::vector<std::pair<uint64_t, uint32_t>> ascending;  // keys and their places
  std::vector<const float*> rows;                        // by place
  const uint64_t* keys = keys_.data();
  const float* values = values_.data();
  for (const wire::Section& section : sections_) {
    const TableSpec& spec = partitions_.spec(section.table);
    ascending.clear();
    for (uint32_t place = 0; place < section.keys; ++place)
      ascending.emplace_back(keys[place], place);
    std::ranges::sort(ascending);
    rows.resize(section.keys);
    for (size_t v = 0; v < spec.table_variables.size(); ++v) {
      for (uint32_t place = 0; place < section.keys; ++place) {
        rows[place] = values;
        values += spec.row_floats(v, keys[place]);
      }
      const size_t group = each ? variables_before(section.table) + v : 0;
      for (const auto& [key, place] : ascending) {
        double& sum = sums_of[raw(partition_of(row_hash(section.table, key), bits))][group];
        for (const float g : std::span(rows[place], spec.row_floats(v, key)))
          sum += double(g) * double(g);
      }
    }
    keys += section.keys;
  }
  return sums;
}

void StepSum::scale(const std::vector<float>& factors) {
  if (factors.empty()) return;
  const uint64_t* keys = keys_.data();
  float* values = values_.data();
  for (const wire::Section& section : sections_) {
    const TableSpec& spec = partitions_.spec(section.table);
    const size_t first = variables_before(section.table);
    for (size_t v = 0; v < spec.table_variables.size(); ++v) {
      const float factor = factors[std::min(first + v, factors.size() - 1)];
      for (uint32_t place = 0; place < section.keys; ++place) {
        const uint32_t floats = spec.row_floats(v, keys[place]);
        for (float& g : std::span(values, floats)) g *= factor;
        values += floats;
      }
    }
    keys += section.keys;
  }
}

/// Returns the number of variables in the tables before this one.
size_t StepSum::variables_before(TableId table) const {
  size_t count = 0;
  for (uint32_t t = 0; t < raw(table); ++t)
    count += partitions_.spec(TableId(t)).table_variables.size();
  return count;
}

uint32_t StepSum::place_of(uint64_t key, uint32_t row) {
  if (2 * (unique_.size() + 1) > index_.size()) grow_index();
  const size_t mask = index_.size() - 1;
  for (size_t slot = first_slot(key);; slot = (slot + 1) & mask) {
    if (index_[slot] == 0) {
      unique_.push_back(key);
      rows_.push_back(row);
      return (index_[slot] = uint32_t(unique_.size())) - 1;
    }
    if (unique_[index_[slot] - 1] == key) return index_[slot] - 1;
  }
}

size_t StepSum::first_slot(uint64_t key) const { return mix64(key ^ salt_) & (index_.size() - 1); }

void StepSum::grow_index() {
  index_.assign(std::max<size_t>(1024, 2 * index_.size()), 0);
  const size_t mask = index_.size() - 1;
  for (uint32_t u = 0; u < unique_.size(); ++u) {
    size_t slot = first_slot(unique_[u]);
    while (index_[slot] != 0) slot = (slot + 1) & mask;
    index_[slot] = u + 1;
  }
}

}  // namespace downpour::ps
