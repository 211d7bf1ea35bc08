// Fields: how one field's text becomes a float or a key, compiled once from its FieldSpec.
#pragma once

#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "shared/base/hash.h"
#include "shared/data/dataset.h"
#include "shared/data/number_ops.h"
#include "shared/data/scratch.h"
#include "shared/data/tokens.h"
#include "shared/data/vocabulary.h"

namespace downpour::data {

/// The hint of an error about a record without the field's value.
constexpr const char* kGiveDefault =
    "give the field a `default`, or set data.bad_records = \"skip\"";

/// Why a value was refused. `reason` is a constant text; null: it was taken.
struct Fault {
  const char* reason = nullptr;
  const std::string* field = nullptr;  // lives as long as the parser; null: the line as a whole
  std::string_view text;               // lies in the window, or in a constant
  std::string made = {};               // instead of `text`, where the window holds no text
  const char* hint = nullptr;
};

/// Whether a text means that there is no value.
class MissingMarks {
 public:
  explicit MissingMarks(const DataSpec& data) : marks_(data.missing) {
    for (const std::string& mark : marks_) nan_ |= mark == "nan" || mark == "NaN";
  }
  bool matches(std::string_view text) const {
    if (text.empty()) return true;
    for (const std::string& mark : marks_)
      if (text == mark) return true;
    return false;
  }
  /// Whether one of them is a number.
  bool are_numbers() const;
  /// Whether a NaN that is no text means the same.
  bool matches_nan() const { return nan_; }

 private:
  std::vector<std::string> marks_;
  bool nan_ = false;
};

/// Reads a field as floats: number or label list, then the ops for numbers, then the target's
/// range.
class FloatField {
 public:
  /// Errors: kConfig for what no float can come of (a hash, a string without `positive`).
  static Result<FloatField> make(const DataSpec& data, const FieldSpec& spec,
                                 const TargetRule* rule, uint32_t width);

  const std::string& name() const { return name_; }
  uint32_t width() const { return width_; }
  /// Writes width() floats. `text` is followed by a byte that can be no part of a number, and 9
  /// bytes from its start on are readable.
  bool convert(std::string_view text, float* to, Fault& fault) const;
  /// The same from a number that has been read already (not with `positive`, see needs_text()).
  bool convert_number(float value, std::string_view text, float* to, Fault& fault) const;
  /// The same of finite numbers in their place; how many could be taken, before one could not.
  size_t convert_numbers(std::span<float> values) const;
  /// The same from a value that is no text: of an array, a protobuf, JSON. Any bits may come.
  bool convert_value(float value, float* to, Fault& fault) const {
    if (plain_ && std::isfinite(value)) [[likely]] {
      *to = value;
      return true;
    }
    return convert_any_value(double(value), to, fault);
  }
  bool convert_value(double value, float* to, Fault& fault) const {
    return convert_any_value(value, to, fault);
  }
  bool convert_value(int64_t value, float* to, Fault& fault) const {
    if (plain_) [[likely]] {
      *to = float(value);
      return true;
    }
    return convert_any_value(double(value), to, fault);
  }
  /// Whether convert() takes every text that parse_short_float() reads as that number: what has
  /// been read so already goes to take_number().
  bool takes_short_numbers() const { return takes_short_numbers_; }
  bool take_number(float value, std::string_view text, float* to, Fault& fault) const {
    if (!plain_) return convert_number(value, text, to, fault);
    *to = value;
    return true;
  }
  /// Whether a finite value is taken as it is.
  bool is_plain() const { return plain_; }
  /// Leaves its ops to whoever has all values of a batch, if no value can be refused for them: then
  /// it takes values as they are, a default too. Else none.
  std::optional<NumberOps> defer_ops();
  /// What a missing value reads as.
  bool convert_missing(float* to, Fault& fault) const;
  bool needs_text() const { return !positive_.empty(); }

 private:
  FloatField() : missing_(DataSpec{}) {}
  bool refuse(const char* reason, std::string_view text, const char* hint, Fault& fault) const;
  bool convert_any_value(double value, float* to, Fault& fault) const;
  std::string name_;
  uint32_t width_ = 1;
  bool integer_ = false;
  bool plain_ = false;
  bool takes_short_numbers_ = false;
  MissingMarks missing_;
  std::vector<std::string> positive_;
  NumberOps ops_;
  // For a transform with a logarithm: its results for 0, 1, 2 ... (counts are mostly small).
  std::shared_ptr<const std::vector<float>> small_;
  bool is_target_ = false;
  TargetKind target_ = TargetKind::kAny;
  uint32_t classes_ = 0;
  std::optional<float> fallback_;
  float fallback_given_ = 0;  // before the ops
};

/// What makes a key of a text's hash.
struct KeyHash {
  uint64_t name_hash = 0;  // of the field
  uint64_t buckets = 0;    // keys are below it; 0: any

  /// `unmixed`: unmixed_hash_string() of the text.
  uint64_t key_of(uint64_t unmixed) const {
    const uint64_t key = hash_combine(name_hash, mix64(unmixed));
    if (buckets == 0) return key;
    return (buckets & (buckets - 1)) == 0 ? key & (buckets - 1) : key % buckets;
  }
  /// A hash that gives `key`, which is one.
  uint64_t unmixed_of(uint64_t key) const { return unmix64(unmix64(unmix64(key) ^ name_hash)); }
  /// Each by key_of(), in loops that the compiler makes vectors of.
  void apply_to_all(std::span<uint64_t> keys) const;
};

/// Reads a field as one key, or as any number of them: by hash, as the integer that it is, by a
/// vocabulary, or by the bucket that a number falls into.
class KeyField {
 public:
  /// Errors: kConfig for transforms that give no key; those of the vocabulary's file.
  static Result<KeyField> make(const ReadPlan& plan, const FieldSpec& spec);
  /// Numbers of any length: the values count, there are no keys.
  static Result<KeyField> make_list(const ReadPlan& plan, const FieldSpec& spec);

  const std::string& name() const { return name_; }
  /// A record has any number of keys: of a field of any length, of a text's words, or where unknown
  /// words are dropped.
  bool is_bag() const { return list_ || drops_ || tokens_; }
  /// A float32 field read as key: the field itself is the key and the number its value.
  bool is_number() const { return how_ == How::kNumber; }
  /// What comes may be any number: its bucket is the key, or it is one of a list.
  bool takes_numbers() const { return how_ == How::kBuckets || how_ == How::kList; }
  /// An integer is the key, whatever it is.
  bool is_plain() const { return how_ == How::kIdentity && range_ == 0; }

  /// Any text is a key, by its hash.
  bool hashes_text() const { return hashes_text_; }
  uint64_t hash(std::string_view text) const {
    const uint64_t unmixed = unmixed_hash_string(text);
    return deferred_ ? unmixed : hash_.key_of(unmixed);
  }
  /// Leaves the last steps of a hash to whoever has all keys of a batch: then its keys are what
  /// KeyHash::key_of() wants, a default too. None: its keys come of no hash.
  std::optional<KeyHash> defer_hash();

  // A text of a table.
  bool convert(std::string_view text, uint64_t& key, Fault& fault) const {
    if (!hashes_text_ || missing_.matches(text)) [[unlikely]]
      return convert_any(text, key, fault);
    key = hash(text);
    return true;
  }
  /// is_number(): the key and the value.
  bool convert_number(std::string_view text, uint64_t& key, float& value, Fault& fault) const;
  /// is_bag(): a key a word, the words parted by blanks where the field is of any length.
  bool append(std::string_view text, KeyBuffer& to, Fault& fault) const;

  // Values that are no texts of a table: a string is not missing, whatever it is. An integer gives
  // the key that its decimal digits would.
  bool convert_value(std::string_view value, uint64_t& key, Fault& fault) const {
    return find(value, key, fault);
  }
  bool convert_value(int64_t value, uint64_t& key, Fault& fault) const;
  bool convert_value(float value, uint64_t& key, Fault& fault) const {
    return find_bucket(value, key, fault);
  }
  bool convert_value(double value, uint64_t& key, Fault& fault) const {
    return find_bucket(value, key, fault);
  }
  template <typename T>
  bool append_value(T value, KeyBuffer& to, Fault& fault) const {
    if constexpr (std::is_same_v<T, std::string_view>) {
      if (tokens_) return append_words(value, to, fault);
    } else if (how_ == How::kList) {
      float number = 0;
      return number_->convert_value(value, &number, fault) && put_number(number, to);
    }
    uint64_t key = 0;
    return convert_value(value, key, fault) && put(key, to);
  }
  /// is_number(): the same with its value.
  template <typename T>
  bool convert_value(T value, uint64_t& key, float& number, Fault& fault) const {
    key = hash_.name_hash;
    return number_->convert_value(value, &number, fault);
  }
  /// libsvm's feature numbers. The key may be one that drops().
  bool convert_feature(uint64_t number, std::string_view digits, uint64_t& key,
                       Fault& fault) const {
    key = number;
    return is_plain() ||
           (how_ == How::kIdentity ? in_range(digits, key, fault) : find(digits, key, fault));
  }
  bool drops(uint64_t key) const { return drops_ && key == Vocabulary::kUnknown; }

 private:
  enum class How : uint8_t { kHash, kIdentity, kVocabulary, kBuckets, kNumber, kList };

  KeyField() : missing_(DataSpec{}) {}
  Result<void> add_op(const ReadPlan& plan, const FieldSpec& spec, size_t op);
  Result<void> add_fallback(const FieldSpec& spec);
  bool put(uint64_t key, KeyBuffer& to) const {
    if (drops(key)) return true;
    to.ensure(1);
    to.keys[to.count++] = key;
    return true;
  }
  static bool put_number(float number, KeyBuffer& to) {
    to.ensure(1);
    to.values[to.count++] = number;
    return true;
  }
  bool append_words(std::string_view text, KeyBuffer& to, Fault& fault) const;
  bool convert_any(std::string_view text, uint64_t& key, Fault& fault) const;
  bool find(std::string_view text, uint64_t& key, Fault& fault) const;
  bool find_integer(std::string_view text, uint64_t& key, Fault& fault) const;
  bool find_word(std::string_view word, uint64_t& key, Fault& fault) const;
  bool in_range(std::string_view text, uint64_t& key, Fault& fault) const;
  uint64_t bucket_of(double value) const;
  template <typename T>
  bool find_bucket(T value, uint64_t& key, Fault& fault) const;
  bool refuse(const char* reason, std::string_view text, const char* hint, Fault& fault) const;

  std::string name_;
  KeyHash hash_;
  bool deferred_ = false;  // hash() does its first half
  How how_ = How::kHash;
  bool list_ = false;   // of any length
  bool drops_ = false;  // a word that the vocabulary has not gives no key
  bool integer_ = false;
  bool hashes_text_ = false;                      // kHash of no integer
  uint64_t range_ = 0;                            // kIdentity: keys are below it; 0: any
  std::optional<uint64_t> otherwise_;             // key of what is out of range or unknown
  std::shared_ptr<const Vocabulary> vocabulary_;  // kVocabulary
  uint64_t unknown_buckets_ = 0;                  // behind its words
  std::vector<double> boundaries_;                // kBuckets
  bool exact_ = false;                            // kBuckets: of integers as they are
  MissingMarks missing_;
  std::optional<uint64_t> fallback_;
  std::optional<FloatField> number_;      // kNumber, kBuckets, kList
  mutable std::optional<Tokens> tokens_;  // its buffers change; a field belongs to one thread
  std::string fallback_text_;             // with tokens
};

/// An error of the job's about a field.
Error field_error(const FieldSpec& spec, const std::string& what, const std::string& hint);

/// The floats of a value of this shape (not a bag's).
uint64_t elements_of(const std::vector<int64_t>& shape);

/// Blanks and carriage returns around a text are cut off.
std::string_view trimmed(std::string_view text);

/// A text as an error shows it: shortened, control bytes escaped.
std::string shown(std::string_view text);

}  // namespace downpour::data
