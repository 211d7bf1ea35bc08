// Ops: the steps of a field's transform. Each op is a struct with its options, and TransformSpec is
// any of them. docs/data.md says what each op does. shared/data/values applies them.
//
// A struct has these members. An op without options needs only kInfo.
//   kInfo               its name, and the type rules
//   visit(v, op)        visits its options as keys of a job (keys.h)
//   hash(hash)          adds its options to the plan hash. The calls must stay the same forever
//   check(input)        optional: returns what is wrong with its options
//   makes_bag()         optional: whether a value becomes any number of keys or words
//   is_open()           optional: whether its statistics have to be learned
//   shape()             with OpInfo::fixes_shape: the shape of its result
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "shared/base/number_range.h"
#include "shared/job/enum_name.h"

namespace downpour {

/// The kind of the values between two ops.
enum class ValueKind : uint8_t { kNumber, kInteger, kText, kKey };

struct KindSet {
  uint8_t bits = 0;
  constexpr KindSet(std::initializer_list<ValueKind> kinds) {
    for (const ValueKind kind : kinds) bits |= uint8_t(1U << uint8_t(kind));
  }
  constexpr bool contains(ValueKind kind) const { return (bits >> uint8_t(kind) & 1) != 0; }
};
inline constexpr KindSet kNumbers{ValueKind::kNumber, ValueKind::kInteger};
inline constexpr KindSet kWordsOrIntegers{ValueKind::kText, ValueKind::kInteger};
inline constexpr KindSet kAllButTexts{ValueKind::kNumber, ValueKind::kInteger, ValueKind::kKey};
inline constexpr KindSet kAnyKind{ValueKind::kNumber, ValueKind::kInteger, ValueKind::kText,
                                  ValueKind::kKey};

/// The kind and shape of the values between two ops, and of those that a field gives to the model.
struct FieldOutput {
  ValueKind kind = ValueKind::kNumber;
  bool any_length = false;
  std::vector<int64_t> shape;  // if not any_length
};

/// The step of reading that applies an op. shared/data/values lowers each op to its step.
enum class OpStage : uint8_t {
  kWords,   // splits a text (tokens.h)
  kNumber,  // maps a number to a number (number_ops.h)
  kKey,     // makes the key of a value (KeyField)
  kCross,   // makes keys from the keys of other fields (record_stage.h)
  kLate,    // changes all values of a record, or is random (record_stage.h)
};

/// What distinguishes an op.
struct OpInfo {
  std::string_view name;  // in job files
  OpStage stage{};
  KindSet takes{};
  bool for_lists = false;    // late: takes only a field of any length
  bool random = false;       // late: differs between epochs
  bool fixes_shape = false;  // late: its result is numbers of a fixed shape
  /// Returns true if the result is keys.
  constexpr bool makes_keys() const { return stage == OpStage::kKey || stage == OpStage::kCross; }
  /// Returns true if no op may stand before this one.
  constexpr bool stands_first() const {
    return stage == OpStage::kWords || stage == OpStage::kCross;
  }
};

/// An error in the options of an op, and the correction.
struct Complaint {
  std::string what, hint;
};
using Checked = std::optional<Complaint>;

/// How a vocabulary handles a word that it does not contain.
enum class UnknownWord : uint8_t { kError, kDrop, kHash, kDefault };
inline constexpr std::array kUnknownWordNames{
    EnumName<UnknownWord>{"error", UnknownWord::kError},
    EnumName<UnknownWord>{"drop", UnknownWord::kDrop},
    EnumName<UnknownWord>{"hash", UnknownWord::kHash},
    EnumName<UnknownWord>{"default", UnknownWord::kDefault}};

namespace ops {

constexpr double kNumberMax = 9e18;  // of keys and counts
constexpr uint32_t kNgramsMax = 8;
constexpr uint32_t kLengthMax = 1U << 20;

/// The options that the plan hash contains for every op, because all ops had them once.
struct HashedAlways {
  uint64_t buckets = 0;
  std::optional<double> min, max;
  double mean = 0, scale = 1;
};
void hash_always(auto& hash, const HashedAlways& options = {}) {
  hash.add("buckets", options.buckets);
  if (options.min) hash.add("min", std::bit_cast<uint64_t>(*options.min));
  if (options.max) hash.add("max", std::bit_cast<uint64_t>(*options.max));
  hash.add("mean", std::bit_cast<uint64_t>(options.mean));
  hash.add("scale", std::bit_cast<uint64_t>(options.scale));
}

/// Checks the length that a list gets.
Checked check_length(uint32_t length);

/// key = hash(field name, value) mod buckets.
struct Hash {
  static constexpr OpInfo kInfo{.name = "hash", .stage = OpStage::kKey, .takes = kWordsOrIntegers};
  uint64_t buckets = 0;   // 0: all 64 bits
  bool integers = false;  // 12.0 has the key of 12
  bool operator==(const Hash&) const = default;
  static void visit(auto& v, auto& t) {
    v.number("buckets", t.buckets, 0, kNumberMax);
    v.flag("integers", t.integers);
  }
  void hash(auto& hash) const {
    hash_always(hash, {.buckets = buckets});
    if (integers) hash.add("integers", 1);
  }
};

struct Log1p {
  static constexpr OpInfo kInfo{.name = "log1p", .stage = OpStage::kNumber, .takes = kNumbers};
  bool operator==(const Log1p&) const = default;
};

struct Clip {
  static constexpr OpInfo kInfo{.name = "clip", .stage = OpStage::kNumber, .takes = kNumbers};
  std::optional<double> min, max;
  bool operator==(const Clip&) const = default;
  static void visit(auto& v, auto& t) {
    v.optional_real("min", t.min);
    v.optional_real("max", t.max);
  }
  void hash(auto& hash) const { hash_always(hash, {.min = min, .max = max}); }
  Checked check(const FieldOutput& input) const;
};

/// The key is the integer itself.
struct Identity {
  static constexpr OpInfo kInfo{
      .name = "identity", .stage = OpStage::kKey, .takes = {ValueKind::kInteger}};
  uint64_t buckets = 0;              // keys must be below it; 0: any
  std::optional<uint64_t> fallback;  // `default`: the key of a value that is out of range
  bool operator==(const Identity&) const = default;
  static void visit(auto& v, auto& t) {
    v.number("buckets", t.buckets, 0, kNumberMax);
    v.optional_number("default", t.fallback, kNumberMax);
  }
  void hash(auto& hash) const {
    hash_always(hash, {.buckets = buckets});
    if (fallback) hash.add("op_default", *fallback);
  }
  Checked check(const FieldOutput& input) const;
};

/// (x - mean) / scale, learned if not given.
struct Standardize {
  static constexpr OpInfo kInfo{
      .name = "standardize", .stage = OpStage::kNumber, .takes = kNumbers};
  std::optional<double> mean, scale;
  bool operator==(const Standardize&) const = default;
  static void visit(auto& v, auto& t) {
    v.optional_real("mean", t.mean);
    v.optional_real("scale", t.scale);
  }
  void hash(auto& hash) const {
    hash_always(hash, {.mean = mean.value_or(0), .scale = scale.value_or(1)});
  }
  Checked check(const FieldOutput& input) const;
  bool is_open() const { return !mean && !scale; }
};

/// (x - min) / (max - min), learned if not given.
struct MinMax {
  static constexpr OpInfo kInfo{.name = "min_max", .stage = OpStage::kNumber, .takes = kNumbers};
  std::optional<double> min, max;
  bool operator==(const MinMax&) const = default;
  static void visit(auto& v, auto& t) { Clip::visit(v, t); }
  void hash(auto& hash) const { hash_always(hash, {.min = min, .max = max}); }
  Checked check(const FieldOutput& input) const;
  bool is_open() const { return !min && !max; }
};

struct Bucketize {
  static constexpr OpInfo kInfo{.name = "bucketize", .stage = OpStage::kKey, .takes = kNumbers};
  std::vector<double> boundaries;  // ascending
  bool operator==(const Bucketize&) const = default;
  static void visit(auto& v, auto& t) { v.reals("boundaries", t.boundaries); }
  void hash(auto& hash) const {
    hash_always(hash);
    for (const double boundary : boundaries)
      hash.add("boundary", std::bit_cast<uint64_t>(boundary));
  }
  Checked check(const FieldOutput& input) const;
};

/// The key is the number of the word.
struct Vocabulary {
  static constexpr OpInfo kInfo{
      .name = "vocabulary", .stage = OpStage::kKey, .takes = kWordsOrIntegers};
  uint64_t buckets = 0;              // number of keys for unknown words
  std::optional<uint64_t> fallback;  // `default`: the key of an unknown word
  std::string file;                  // one word per line; absolute path
  std::vector<std::string> words;    // instead of a file
  UnknownWord unknown = UnknownWord::kError;
  uint64_t size = 0, fingerprint = 0;  // of the file that training read; 0: not read yet
  bool operator==(const Vocabulary&) const = default;
  static void visit(auto& v, auto& t) {
    v.text("file", t.file);
    v.strings("words", t.words);
    v.enumeration("unknown", t.unknown, kUnknownWordNames, {});
    if (t.unknown == UnknownWord::kHash) v.number("buckets", t.buckets, 1, kNumberMax);
    if (t.unknown == UnknownWord::kDefault) v.optional_number("default", t.fallback, kNumberMax);
    if (v.kReads || t.fingerprint != 0) {  // found by the run and stored for later readers
      v.number("size", t.size, 0, kNumberMax);
      v.number("fingerprint", t.fingerprint, 0, kNumberMax);
    }
  }
  void hash(auto& hash) const {
    hash_always(hash, {.buckets = buckets});
    if (fallback) hash.add("op_default", *fallback);
    for (const std::string& word : words) hash.add("word", word);
    hash.add("unknown", uint64_t(unknown)).add("vocabulary", fingerprint);
  }
  Checked check(const FieldOutput& input) const;
  bool makes_bag() const { return unknown == UnknownWord::kDrop; }
};

/// Splits a text into words and n-grams.
struct Tokens {
  static constexpr OpInfo kInfo{
      .name = "tokens", .stage = OpStage::kWords, .takes = {ValueKind::kText}};
  std::string separators;  // each byte separates words; empty: blanks
  bool lower = false;      // converts A to Z to lower case
  uint32_t ngrams = 1;     // also joins up to this many words in a row
  bool operator==(const Tokens&) const = default;
  static void visit(auto& v, auto& t) {
    v.text("separators", t.separators);
    v.flag("lower", t.lower);
    v.number("ngrams", t.ngrams, 1, kNgramsMax);
  }
  void hash(auto& hash) const {
    hash_always(hash);
    if (!separators.empty()) hash.add("separators", separators);
    if (lower) hash.add("lower", 1);
    if (ngrams != 1) hash.add("ngrams", ngrams);
  }
  Checked check(const FieldOutput& input) const;
  static bool makes_bag() { return true; }
};

/// Keeps at most `length` values of a list.
struct Truncate {
  static constexpr OpInfo kInfo{
      .name = "truncate", .stage = OpStage::kLate, .takes = kAllButTexts, .for_lists = true};
  uint32_t length = 0;
  std::string keep = "first";  // or "last"
  bool operator==(const Truncate&) const = default;
  static void visit(auto& v, auto& t) {
    v.number("length", t.length, 1, kLengthMax);
    v.choice("keep", t.keep, {"first", "last"}, {});
  }
  void hash(auto& hash) const {
    hash_always(hash);
    if (length != 0) hash.add("length", length).add("keep", keep);
  }
  Checked check(const FieldOutput& /*input*/) const { return check_length(length); }
};

/// Truncates a list, or fills it, to `length` numbers.
struct Pad {
  static constexpr OpInfo kInfo{.name = "pad",
                                .stage = OpStage::kLate,
                                .takes = kNumbers,
                                .for_lists = true,
                                .fixes_shape = true};
  uint32_t length = 0;
  std::string keep = "first";  // or "last"
  double value = 0;            // to append
  bool operator==(const Pad&) const = default;
  static void visit(auto& v, auto& t) {
    v.real("value", t.value, Range{-3e38});
    Truncate::visit(v, t);
  }
  void hash(auto& hash) const {
    hash_always(hash);
    if (length != 0) hash.add("length", length).add("keep", keep);
    if (value != 0) hash.add("value", std::bit_cast<uint64_t>(value));
  }
  Checked check(const FieldOutput& /*input*/) const { return check_length(length); }
  std::vector<int64_t> shape() const { return {int64_t(length)}; }
};

/// Makes one number of a list.
struct Pool {
  static constexpr OpInfo kInfo{.name = "pool",
                                .stage = OpStage::kLate,
                                .takes = kNumbers,
                                .for_lists = true,
                                .fixes_shape = true};
  std::string how = "mean";  // or "sum", "min", "max", "first", "last", "count"
  bool operator==(const Pool&) const = default;
  static void visit(auto& v, auto& t) {
    v.choice("how", t.how, {"mean", "sum", "min", "max", "first", "last", "count"}, {});
  }
  void hash(auto& hash) const {
    hash_always(hash);
    if (how != "mean") hash.add("how", how);
  }
  static std::vector<int64_t> shape() { return {}; }
};

/// key = hash(field name, keys of the fields) mod buckets, for each combination of keys.
struct Cross {
  static constexpr OpInfo kInfo{.name = "cross", .stage = OpStage::kCross, .takes = kAnyKind};
  uint64_t buckets = 0;  // 0: all 64 bits
  std::vector<std::string> fields;
  bool operator==(const Cross&) const = default;
  static void visit(auto& v, auto& t) {
    v.strings("fields", t.fields, true);
    v.number("buckets", t.buckets, 0, kNumberMax);
  }
  void hash(auto& hash) const {
    hash_always(hash, {.buckets = buckets});
    for (const std::string& field : fields) hash.add("of", field);
  }
  Checked check(const FieldOutput& input) const;
  static bool makes_bag() { return true; }
};

struct Dropout {
  static constexpr OpInfo kInfo{
      .name = "dropout", .stage = OpStage::kLate, .takes = kAllButTexts, .random = true};
  double rate = 0;
  bool operator==(const Dropout&) const = default;
  static void visit(auto& v, auto& t) { v.real("rate", t.rate, kShareBelowOne); }
  void hash(auto& hash) const {
    hash_always(hash);
    if (rate != 0) hash.add("rate", std::bit_cast<uint64_t>(rate));
  }
  Checked check(const FieldOutput& input) const;
};

struct Noise {
  static constexpr OpInfo kInfo{
      .name = "noise", .stage = OpStage::kLate, .takes = kNumbers, .random = true};
  double stddev = 0;
  bool operator==(const Noise&) const = default;
  static void visit(auto& v, auto& t) { v.real("stddev", t.stddev, kPositive); }
  void hash(auto& hash) const {
    hash_always(hash);
    if (stddev != 0) hash.add("stddev", std::bit_cast<uint64_t>(stddev));
  }
  Checked check(const FieldOutput& input) const;
};

/// Keeps `length` values of a list, from a random place on.
struct Crop {
  static constexpr OpInfo kInfo{.name = "crop",
                                .stage = OpStage::kLate,
                                .takes = kAllButTexts,
                                .for_lists = true,
                                .random = true};
  uint32_t length = 0;
  bool operator==(const Crop&) const = default;
  static void visit(auto& v, auto& t) { v.number("length", t.length, 1, kLengthMax); }
  void hash(auto& hash) const {
    hash_always(hash);
    if (length != 0) hash.add("length", length).add("keep", "first");
  }
  Checked check(const FieldOutput& /*input*/) const { return check_length(length); }
};

/// The share of values below x, from 0 to 1, linear between `boundaries`; learned if not given.
struct Quantile {
  static constexpr OpInfo kInfo{.name = "quantile", .stage = OpStage::kNumber, .takes = kNumbers};
  static constexpr uint32_t kIntervalsMax = 1024;
  uint32_t intervals = 64;         // with about equally many values, to be learned
  std::vector<double> boundaries;  // ascending, at least 2
  bool operator==(const Quantile&) const = default;
  static void visit(auto& v, auto& t) {
    if (v.kReads || t.is_open()) v.number("intervals", t.intervals, 1, kIntervalsMax);
    if (v.kReads || !t.is_open()) v.reals("boundaries", t.boundaries);
  }
  void hash(auto& hash) const { Bucketize{boundaries}.hash(hash); }
  Checked check(const FieldOutput& input) const;
  bool is_open() const { return boundaries.empty(); }
};

}  // namespace ops

/// One op of a field's transform. The plan hash contains the index of the op, so new ops come last.
using TransformSpec =
    std::variant<ops::Hash, ops::Log1p, ops::Clip, ops::Identity, ops::Standardize, ops::MinMax,
                 ops::Bucketize, ops::Vocabulary, ops::Tokens, ops::Truncate, ops::Pad, ops::Pool,
                 ops::Cross, ops::Dropout, ops::Noise, ops::Crop, ops::Quantile>;

/// One entry per op, by its index in TransformSpec.
inline constexpr auto kOps = []<size_t... I>(std::index_sequence<I...>) {
  return std::array{std::variant_alternative_t<I, TransformSpec>::kInfo...};
}
(std::make_index_sequence<std::variant_size_v<TransformSpec>>());

constexpr const OpInfo& info_of(const TransformSpec& op) { return kOps[op.index()]; }

/// Returns the op with that index in TransformSpec, without options.
TransformSpec op_at(size_t index);

/// Returns whether statistics of the op have to be learned.
inline bool is_open(const TransformSpec& spec) {
  return std::visit(
      [](const auto& op) {
        if constexpr (requires { op.is_open(); }) return op.is_open();
        return false;
      },
      spec);
}

}  // namespace downpour
