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

/// Adds the gradients of a row. `from` is unaligned.
void add_floats(const uint8_t* __restrict from, uint32_t count, float* __restrict to) {
  for (uint32_t f = 0; f < count; ++f) to[f] += load<float>(from + f * sizeof(float));
}

}  // namespace

void StepSum::begin() {
  for (TableSum& table : tables_) {
    if (table.keys.empty()) continue;
    std::ranges::fill(table.index, 0);
    table.keys.clear();
    table.rows.clear();
    table.starts.clear();
    table.divisors.clear();
    for (std::vector<float>& values : table.values) values.clear();
  }
}

void StepSum::add(const StagedPush& push, float row_weight) {
  for (const StagedPush::Payload& payload : push.payloads) add(push, payload, row_weight);
}

void StepSum::add(const StagedPush& push, const StagedPush::Payload& payload, float row_weight) {
  const uint8_t* keys = payload.keys.data();
  const uint8_t* gradients = payload.values.data();
  const uint32_t* rows = payload.rows.empty() ? nullptr : payload.rows.data();
  for (const wire::Section& section : payload.sections) {
    find_places(push, section, keys, rows);
    TableSum& table = tables_[raw(section.table)];
    if (row_weight != 0) {
      table.divisors.resize(table.keys.size(), 0.0F);
      for (const uint32_t place : places_) {
        if (place != kNoPlace) table.divisors[place] += row_weight;
      }
    }
    const TableSpec& spec = partitions_.spec(section.table);
    const bool dense = spec.kind == TableKind::kDense;
    for (size_t v = 0; v < spec.table_variables.size(); ++v) {
      const uint32_t dim = spec.table_variables[v].dim;
      float* const sums = table.values[v].data();
      for (uint32_t i = 0; i < section.keys; ++i) {
        const uint32_t floats =
            dense ? spec.row_floats(v, load<uint64_t>(keys + i * sizeof(uint64_t))) : dim;
        const uint8_t* const gradient =
            std::exchange(gradients, gradients + floats * sizeof(float));
        const uint32_t place = places_[i];
        if (place == kNoPlace) continue;
        add_floats(gradient, floats, sums + (dense ? table.starts[place] : uint64_t{place} * dim));
      }
    }
    keys += section.keys * sizeof(uint64_t);
    if (rows != nullptr) rows += section.keys;
  }
}

/// Writes the places of the keys of a section to `places_`. New keys get gradients of 0.
void StepSum::find_places(const StagedPush& push, const wire::Section& section, const uint8_t* keys,
                          const uint32_t* rows) {
  constexpr uint32_t kAhead = 16;  // keys; the index may be larger than the caches
  const TableSpec& spec = partitions_.spec(section.table);
  TableSum& table = tables_[raw(section.table)];
  const auto bits = uint32_t(std::countr_zero(partitions_.count()));
  const auto key_at = [&](uint32_t i) { return load<uint64_t>(keys + i * sizeof(uint64_t)); };
  table.values.resize(spec.table_variables.size());
  places_.resize(section.keys);
  for (uint32_t i = 0; i < section.keys; ++i) {
    const uint64_t key = key_at(i);
    if (2 * (table.keys.size() + 1) > table.index.size()) grow_index(table);
    if (i + kAhead < section.keys)
      __builtin_prefetch(&table.index[first_slot(table, key_at(i + kAhead))]);
    const bool admitted =
        push.whole ||
        contains(push.parts, partition_of(row_hash(section.table, key, spec.group), bits));
    const uint32_t row = rows == nullptr ? kNoRow : rows[i];
    places_[i] = admitted ? place_of(section.table, key, row) : kNoPlace;
  }
  if (spec.kind == TableKind::kDense) return;
  for (size_t v = 0; v < table.values.size(); ++v)
    table.values[v].resize(table.keys.size() * spec.table_variables[v].dim, 0.0F);
}

void StepSum::finish(double divisor, float clip_value) {
  const float factor = divisor > 0 ? float(1.0 / divisor) : 1.0F;
  for (uint32_t t = 0; t < tables_.size(); ++t) {
    divide_rows(TableId(t));
    for (std::vector<float>& sums : tables_[t].values) {
      if (factor != 1.0F)
        for (float& sum : sums) sum *= factor;
      if (clip_value == 0) continue;
      for (float& sum : sums) {  // NaN stays NaN
        if (sum > clip_value) sum = clip_value;
        if (sum < -clip_value) sum = -clip_value;
      }
    }
  }
}

void StepSum::divide_rows(TableId id) {
  TableSum& table = tables_[raw(id)];
  for (size_t v = 0; v < table.values.size(); ++v) {
    for (uint32_t place = 0; place < table.divisors.size(); ++place) {
      if (table.divisors[place] == 0) continue;  // only parts without records have the row
      const auto factor = float(1.0 / double(table.divisors[place]));
      float* const row = table.values[v].data() + start_of(id, v, place);
      const uint32_t floats = partitions_.spec(id).row_floats(v, table.keys[place]);
      for (float& sum : std::span(row, floats)) sum *= factor;
    }
  }
}

std::vector<double> StepSum::squares(const Bits& owned, ClipGroups groups) const {
  const auto bits = uint32_t(std::countr_zero(partitions_.count()));
  const bool each = groups == ClipGroups::kVariables;
  const size_t count = each ? variables_before(TableId(partitions_.table_count())) : 1;
  std::vector<double*> sums_of(partitions_.count(), nullptr);
  std::vector<double> sums(count * ps::count(owned));
  double* next = sums.data();
  for_each(owned, [&](PartitionId p) { sums_of[raw(p)] = std::exchange(next, next + count); });
  std::vector<std::pair<uint64_t, uint32_t>> ascending;  // keys and their places
  for (uint32_t t = 0; t < tables_.size(); ++t) {
    const TableId id{t};
    const TableSum& table = tables_[t];
    ascending.clear();
    for (uint32_t place = 0; place < table.keys.size(); ++place)
      ascending.emplace_back(table.keys[place], place);
    std::ranges::sort(ascending);
    for (size_t v = 0; v < table.values.size(); ++v) {
      const size_t group = each ? variables_before(id) + v : 0;
      for (const auto& [key, place] : ascending) {
        double& sum =
            sums_of[raw(partition_of(row_hash(id, key, partitions_.spec(id).group), bits))][group];
        const float* const row = table.values[v].data() + start_of(id, v, place);
        for (const float g : std::span(row, partitions_.spec(id).row_floats(v, key)))
          sum += double(g) * double(g);
      }
    }
  }
  return sums;
}

void StepSum::scale(const std::vector<float>& factors) {
  if (factors.empty()) return;
  for (uint32_t t = 0; t < tables_.size(); ++t) {
    const size_t first = variables_before(TableId(t));
    for (size_t v = 0; v < tables_[t].values.size(); ++v) {
      const float factor = factors[std::min(first + v, factors.size() - 1)];
      for (float& g : tables_[t].values[v]) g *= factor;
    }
  }
}

const std::vector<Piece>& StepSum::pieces() {
  pieces_.clear();
  for (uint32_t t = 0; t < tables_.size(); ++t) {
    TableSum& table = tables_[t];
    if (table.keys.empty()) continue;
    const std::vector<float>* values = &table.values[0];
    if (table.values.size() > 1) {
      table.joined.clear();
      for (const std::vector<float>& of : table.values)
        table.joined.insert(table.joined.end(), of.begin(), of.end());
      values = &table.joined;
    }
    table.sections = {{TableId(t), uint32_t(table.keys.size())}};
    pieces_.push_back({.sections = &table.sections,
                       .keys = reinterpret_cast<const uint8_t*>(table.keys.data()),
                       .rows = table.rows.data(),
                       .values = reinterpret_cast<const uint8_t*>(values->data())});
  }
  return pieces_;
}

uint64_t StepSum::bytes() const {
  uint64_t bytes = 0;
  for (const TableSum& table : tables_) {
    bytes += table.keys.size() * (sizeof(uint64_t) + sizeof(uint32_t));
    bytes += table.divisors.size() * sizeof(float);
    for (const std::vector<float>& values : table.values) bytes += values.size() * sizeof(float);
  }
  return bytes;
}

/// Returns the number of variables in the tables before this one.
size_t StepSum::variables_before(TableId table) const {
  size_t count = 0;
  for (uint32_t t = 0; t < raw(table); ++t)
    count += partitions_.spec(TableId(t)).table_variables.size();
  return count;
}

/// Returns where the row of a place begins among the values of a variable.
uint64_t StepSum::start_of(TableId id, size_t variable, uint32_t place) const {
  const TableSpec& spec = partitions_.spec(id);
  if (spec.kind == TableKind::kDense) return tables_[raw(id)].starts[place];
  return uint64_t{place} * spec.table_variables[variable].dim;
}

/// Returns the place of a key. A new key of a dense table also gets gradients of 0.
uint32_t StepSum::place_of(TableId id, uint64_t key, uint32_t row) {
  TableSum& table = tables_[raw(id)];
  const size_t mask = table.index.size() - 1;
  size_t slot = first_slot(table, key);
  while (table.index[slot] != 0) {
    const uint32_t place = table.index[slot] - 1;
    if (table.keys[place] == key) return place;
    slot = (slot + 1) & mask;
  }
  const TableSpec& spec = partitions_.spec(id);
  if (spec.kind == TableKind::kDense) {  // it does not grow beyond the variable
    std::vector<float>& values = table.values[0];
    values.reserve(spec.table_variables[0].elements());
    table.starts.push_back(values.size());
    values.resize(values.size() + spec.row_floats(0, key), 0.0F);
  }
  table.keys.push_back(key);
  table.rows.push_back(row);
  table.index[slot] = uint32_t(table.keys.size());
  return table.index[slot] - 1;
}

size_t StepSum::first_slot(const TableSum& table, uint64_t key) const {
  return mix64(key ^ salt_) & (table.index.size() - 1);
}

void StepSum::grow_index(TableSum& table) const {
  table.index.assign(std::max<size_t>(1024, 2 * table.index.size()), 0);
  const size_t mask = table.index.size() - 1;
  for (uint32_t place = 0; place < table.keys.size(); ++place) {
    size_t slot = first_slot(table, table.keys[place]);
    while (table.index[slot] != 0) slot = (slot + 1) & mask;
    table.index[slot] = place + 1;
  }
}

}  // namespace downpour::ps
