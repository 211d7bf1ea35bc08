#include "shared/data/values/record_stage.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <span>
#include <variant>

#include "shared/base/hash.h"

namespace downpour::data {
namespace {

constexpr size_t kCrossedMax = 1 << 16;  // maximum number of keys of one cross in one record

float pooled(const std::string& how, const std::vector<float>& list) {
  if (how == "count") return float(list.size());
  if (list.empty()) return 0;
  if (how == "first") return list.front();
  if (how == "last") return list.back();
  if (how == "min") return *std::min_element(list.begin(), list.end());
  if (how == "max") return *std::max_element(list.begin(), list.end());
  double sum = 0;
  for (const float x : list) sum += double(x);
  return float(how == "mean" ? sum / double(list.size()) : sum);
}

/// The random numbers of one op for one record.
struct Draw {
  Rng rng;
  bool enabled;
};

/// Returns the index of the first of `op.length` values that an op keeps of `count` values.
template <typename Op>
size_t first_kept(const Op& op, size_t count, Draw& /*draw*/) {
  return op.keep == "last" ? count - op.length : 0;
}
size_t first_kept(const ops::Crop& op, size_t count, Draw& draw) {
  return draw.enabled ? size_t(draw.rng.below(count - op.length + 1)) : 0;
}

/// The keys of one record from `begin` on, with their values.
struct KeyList {
  KeyBuffer& buffer;
  size_t begin;

  size_t size() const { return buffer.count - begin; }
  void resize(size_t size) { buffer.count = begin + size; }
  /// Moves `count` keys from one index to a smaller one.
  void move(size_t from, size_t to, size_t count) {
    move_in(buffer.keys, from, to, count);
    if (buffer.has_values) move_in(buffer.values, from, to, count);
  }

 private:
  template <typename Values>
  void move_in(Values& values, size_t from, size_t to, size_t count) const {
    std::copy_n(values.begin() + ptrdiff_t(begin + from), count,
                values.begin() + ptrdiff_t(begin + to));
  }
};

/// Keeps at most `op.length` values.
template <typename Op>
void shorten(const Op& op, std::vector<float>& list, Draw& draw) {
  if (list.size() <= op.length) return;
  const auto first = list.begin() + ptrdiff_t(first_kept(op, list.size(), draw));
  std::move(first, first + op.length, list.begin());
  list.resize(op.length);
}
template <typename Op>
void shorten(const Op& op, KeyList& list, Draw& draw) {
  if (list.size() <= op.length) return;
  list.move(first_kept(op, list.size(), draw), 0, op.length);
  list.resize(op.length);
}

// Each op of OpStage::kLate changes a list of numbers. If it takes keys, it also changes a list of
// keys.

template <typename List>
void change(const ops::Truncate& op, List& list, Draw& draw) {
  shorten(op, list, draw);
}

template <typename List>
void change(const ops::Crop& op, List& list, Draw& draw) {
  shorten(op, list, draw);
}

void change(const ops::Pad& op, std::vector<float>& list, Draw& draw) {
  shorten(op, list, draw);
  list.resize(op.length, float(op.value));
}

void change(const ops::Pool& op, std::vector<float>& list, Draw& /*draw*/) {
  list.assign(1, pooled(op.how, list));
}

void change(const ops::Dropout& op, std::vector<float>& list, Draw& draw) {
  if (!draw.enabled) return;
  for (float& x : list) x = draw.rng.uniform64() < op.rate ? 0 : float(double(x) / (1 - op.rate));
}
void change(const ops::Dropout& op, KeyList& list, Draw& draw) {
  if (!draw.enabled) return;
  size_t kept = 0;
  for (size_t i = 0; i < list.size(); ++i) {
    if (draw.rng.uniform64() >= op.rate) list.move(i, kept++, 1);
  }
  list.resize(kept);
}

void change(const ops::Noise& op, std::vector<float>& list, Draw& draw) {
  if (!draw.enabled) return;
  for (float& x : list) x = float(double(x) + draw.rng.normal() * op.stddev);
}

/// Returns the keys that an entry has for a record.
std::span<const uint64_t> keys_of(const KeyBuffer& buffer, uint32_t record) {
  if (buffer.offsets.empty()) return {&buffer.keys[record], 1};
  const uint32_t begin = buffer.offsets[record];
  return {buffer.keys.data() + begin, buffer.offsets[record + 1] - begin};
}

}  // namespace

size_t PostParseOps::begin_of(const FieldSpec& spec) {
  size_t i = 0;
  while (i < spec.transform.size() && info_of(spec.transform[i]).stage != OpStage::kLate) ++i;
  return i;
}

PostParseOps::PostParseOps(const FieldSpec& spec) {
  for (size_t i = begin_of(spec); i < spec.transform.size(); ++i) {
    Step& step = steps_.emplace_back();
    step.spec = spec.transform[i];
    step.number.add(step.spec);
    step.seed = hash_combine(hash_string(spec.name), i + 1);
  }
}

void PostParseOps::apply(std::vector<float>& list, uint64_t random) const {
  for (const Step& step : steps_) {
    Draw draw{Rng(hash_combine(random, step.seed)), random != 0};
    std::visit(
        [&]<typename Op>(const Op& op) {
          if constexpr (Op::kInfo.stage == OpStage::kLate) {
            change(op, list, draw);
          } else {
            for (float& x : list) x = step.number.apply(x);
          }
        },
        step.spec);
  }
}

void PostParseOps::apply(KeyBuffer& keys, size_t begin, uint64_t random) const {
  for (const Step& step : steps_) {
    Draw draw{Rng(hash_combine(random, step.seed)), random != 0};
    KeyList list{keys, begin};
    std::visit(
        [&]<typename Op>(const Op& op) {
          if constexpr (Op::kInfo.stage == OpStage::kLate &&
                        Op::kInfo.takes.contains(ValueKind::kKey))
            change(op, list, draw);
        },
        step.spec);
  }
}

void RecordStage::add_list(const FieldSpec& spec, uint32_t entry, uint32_t column, uint32_t width) {
  std::optional<float> fallback;
  if (spec.fallback) fallback = std::strtof(spec.fallback->c_str(), nullptr);
  lists_.push_back({.name = spec.name,
                    .ops = PostParseOps(spec),
                    .from_keys = true,
                    .entry = entry,
                    .column = column,
                    .width = width,
                    .fallback = fallback});
}

void RecordStage::add_floats(const FieldSpec& spec, uint32_t column, uint32_t width) {
  List list{.name = spec.name, .ops = PostParseOps(spec), .column = column, .width = width};
  if (!list.ops.empty()) lists_.push_back(std::move(list));
}

void RecordStage::add_keys(const FieldSpec& spec, uint32_t entry) {
  Keys keys{.ops = PostParseOps(spec), .entry = entry};
  if (!keys.ops.empty()) keys_.push_back(std::move(keys));
}

void RecordStage::add_cross(const FieldSpec& spec, uint32_t entry, std::vector<uint32_t> inputs,
                            bool bag) {
  crosses_.push_back({.name = spec.name,
                      .ops = PostParseOps(spec),
                      .name_hash = hash_string(spec.name),
                      .buckets = std::get<ops::Cross>(spec.transform[0]).buckets,
                      .entry = entry,
                      .inputs = std::move(inputs),
                      .bag = bag});
}

bool RecordStage::apply_list(const List& list, Columns& columns, Fault& fault) {
  float* const to = &(*columns.floats)[list.column].values[size_t(columns.record) * list.width];
  if (list.from_keys) {
    const KeyBuffer& from = (*columns.keys)[list.entry];
    const ptrdiff_t begin = from.offsets[columns.record];
    numbers_.assign(from.values.begin() + begin, from.values.begin() + ptrdiff_t(from.count));
    if (numbers_.empty() && list.fallback) numbers_.push_back(*list.fallback);
  } else {
    numbers_.assign(to, to + list.width);
  }
  list.ops.apply(numbers_, columns.random);
  DP_CHECK(numbers_.size() == list.width, numbers_.size(), list.width);
  for (const float x : numbers_) {
    if (std::isfinite(x)) continue;
    fault = {.reason = "has no finite value after its transforms", .field = &list.name};
    return false;
  }
  std::copy(numbers_.begin(), numbers_.end(), to);
  return true;
}

void RecordStage::apply_keys(const PostParseOps& ops, KeyBuffer& keys, const Columns& columns) {
  ops.apply(keys, keys.offsets[columns.record], columns.random);
  keys.offsets[columns.record + 1] = uint32_t(keys.count);
}

bool RecordStage::apply_cross(const Cross& cross, Columns& columns, Fault& fault) {
  crossed_.assign(1, cross.name_hash);
  for (const uint32_t input : cross.inputs) {
    const std::span<const uint64_t> keys = keys_of((*columns.keys)[input], columns.record);
    if (crossed_.size() * keys.size() > kCrossedMax) {
      fault = {.reason = "gives more than 65536 keys in one record",
               .field = &cross.name,
               .hint = "shorten the fields that it crosses: { op = \"truncate\", length = 20 }"};
      return false;
    }
    longer_.clear();
    for (const uint64_t before : crossed_) {
      for (const uint64_t key : keys) longer_.push_back(hash_combine(before, key));
    }
    crossed_.swap(longer_);
  }
  KeyBuffer& to = (*columns.keys)[cross.entry];
  if (cross.bag) to.ensure(crossed_.size());
  size_t at = cross.bag ? to.offsets[columns.record] : columns.record;
  for (const uint64_t key : crossed_)
    to.keys[at++] = cross.buckets == 0 ? key : key % cross.buckets;
  to.count = at;
  if (cross.bag) apply_keys(cross.ops, to, columns);
  return true;
}

bool RecordStage::apply(Columns& columns, Fault& fault) {
  for (const List& list : lists_) {
    if (!apply_list(list, columns, fault)) return false;
  }
  for (const Keys& keys : keys_) apply_keys(keys.ops, (*columns.keys)[keys.entry], columns);
  return std::all_of(crosses_.begin(), crosses_.end(),
                     [&](const Cross& cross) { return apply_cross(cross, columns, fault); });
}

}  // namespace downpour::data
