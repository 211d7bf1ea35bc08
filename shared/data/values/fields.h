// FloatField and KeyField: convert values of a field to floats or keys. Both are made once from a
// FieldSpec.
#pragma once

#include <algorithm>
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
#include "shared/data/values/field_context.h"
#include "shared/data/values/key_buffer.h"
#include "shared/data/values/label_texts.h"
#include "shared/data/values/number_ops.h"
#include "shared/data/values/tokens.h"
#include "shared/data/values/vocabulary.h"

namespace downpour::data {

/// The hint of an error about a record in which the field has no value.
constexpr const char* kGiveDefault =
    "give the field a `default`, or set data.bad_records = \"skip\"";

/// The reason why a value was refused. `reason` is a constant text; null if there is no fault.
struct Fault {
  const char* reason = nullptr;
  const std::string* field = nullptr;  // lives as long as the parser; null: the fault is in the
                                       // whole line
  std::string_view text;               // points into the window or to a constant
  std::string made = {};               // used in place of `text` if the window does not contain the
                                       // text
  const char* hint = nullptr;
  bool unknown_label = false;  // the text of a label is none of its field's classes
};

/// Decides whether a text means that a value is missing.
class MissingMarks {
 public:
  explicit MissingMarks(const DataSpec& data);
  bool matches(std::string_view text) const {
    // Most texts have a length that no mark has.
    return (lengths_ >> std::min(text.size(), kLongest) & 1) != 0 && is_mark(text);
  }
  /// Returns whether one of the marks is a number.
  bool are_numbers() const { return !numbers_.empty(); }
  /// Returns whether a number of a format without texts equals one of the marks, with the precision
  /// that the number has.
  template <typename T>
  bool matches_number(T value) const {
    return are_numbers() &&
           std::ranges::any_of(numbers_, [&](const Number& mark) { return mark.is(value); });
  }
  /// Does the same for the text of a number.
  bool matches_number(std::string_view text) const;
  /// Returns whether a NaN of a binary format also means that a value is missing.
  bool matches_nan() const { return nan_; }

 private:
  static constexpr size_t kLongest = 63;
  /// A number as float, as double and, if it is an integer of 64 bits, exactly.
  struct Number {
    float narrow = 0;
    double wide = 0;
    std::optional<int64_t> whole = {};

    static std::optional<Number> parse(std::string_view text);
    bool is(float value) const { return narrow == value; }
    bool is(double value) const { return wide == value; }
    bool is(uint64_t value) const {
      return value <= uint64_t(INT64_MAX) ? is(int64_t(value)) : wide == double(value);
    }
    bool is(int64_t value) const { return whole ? *whole == value : wide == double(value); }
  };
  bool is_mark(std::string_view text) const;

  std::vector<std::string> marks_;
  std::vector<Number> numbers_;  // of the marks that are numbers
  uint64_t lengths_ =
      1;  // bit n: some mark has length n; bit 0 is always set, because an empty text is missing
  bool nan_ = false;
};

/// Reads a field as floats: parses numbers or the texts of a label, applies the ops for numbers,
/// and checks the target's range.
class FloatField {
 public:
  /// Errors: kConfig if the field can't be read as floats (it has a hash, or is a string without
  /// `positive` and `classes`).
  static Result<FloatField> make(const DataSpec& data, const FieldSpec& spec,
                                 const TargetRule* rule, uint32_t width);

  const std::string& name() const { return name_; }
  uint32_t width() const { return width_; }
  /// Writes width() floats. The byte after `text` must be readable and must not be one that can
  /// continue a number. At least 9 bytes from text.data() must be readable, even if `text` is
  /// shorter.
  bool convert(std::string_view text, float* to, Fault& fault) const;
  /// Does the same for a number that has been parsed already. Not allowed if needs_text().
  bool convert_number(float value, std::string_view text, float* to, Fault& fault) const;
  /// Converts finite numbers in place. Returns how many it converted before the first one that is
  /// refused. Not allowed if needs_text().
  size_t convert_numbers(std::span<float> values) const;
  /// Converts a value of an array, a protobuf message or a JSON document. Any bit pattern is
  /// allowed.
  bool convert_value(float value, float* to, Fault& fault) const {
    if (plain_ && std::isfinite(value)) [[likely]] {
      *to = value;
      return true;
    }
    return convert_any_value(double(value), to, fault);
  }
  /// Converts a text of a format in which an empty text is a value too.
  bool convert_value(std::string_view text, float* to, Fault& fault) const;
  bool convert_value(double value, float* to, Fault& fault) const {
    return convert_any_value(value, to, fault);
  }
  bool convert_value(int64_t value, float* to, Fault& fault) const {
    if (plain_) [[likely]] {
      *to = float(value);
      return true;
    }
    if (label_ != nullptr) return convert_label(std::to_string(value), to, fault);
    return convert_any_value(double(value), to, fault);
  }
  /// Returns true if a caller may parse short texts with parse_short_float() and pass the number to
  /// take_number(), instead of calling convert().
  bool takes_short_numbers() const { return takes_short_numbers_; }
  bool take_number(float value, std::string_view text, float* to, Fault& fault) const {
    if (!plain_) return convert_number(value, text, to, fault);
    *to = value;
    return true;
  }
  /// Returns whether finite values are taken unchanged.
  bool is_plain() const { return plain_; }
  /// Moves the ops out of the field, to be applied to all values of a batch at once. Afterwards the
  /// field writes values, and its default, without the ops. Returns std::nullopt, and changes
  /// nothing, if there are no ops, if their result can be infinite or NaN, or if the field is a
  /// target with a range.
  std::optional<NumberOps> defer_ops();
  /// Writes the field's default in place of a missing value. Fails if there is no default.
  bool convert_missing(float* to, Fault& fault) const;
  /// Returns whether the texts of the values decide: of a label, of a slice, or of numbers whose
  /// ops need the digits that a float does not have (NumberOps::need_doubles()).
  bool needs_text() const { return label_ != nullptr || wide_; }

 private:
  FloatField() : missing_(DataSpec{}) {}
  bool refuse(const char* reason, std::string_view text, const char* hint, Fault& fault) const;
  bool convert_any_value(double value, float* to, Fault& fault) const;
  /// Reads the decimal text of a number as a label.
  bool convert_label(std::string text, float* to, Fault& fault) const;
  bool convert_double(double value, std::string_view text, float* to, Fault& fault) const;
  bool check_result(float value, std::string_view text, float* to, Fault& fault) const;
  /// Returns the number of a text, or nothing if it is none of the classes.
  std::optional<float> number_of(std::string_view text) const;
  std::string name_;
  uint32_t width_ = 1;
  bool integer_ = false;
  bool plain_ = false;
  bool takes_short_numbers_ = false;
  bool wide_ = false;  // the ops are applied to doubles
  MissingMarks missing_;
  std::shared_ptr<const LabelTexts> label_;  // null: the values are numbers
  bool any_text_ = false;                    // an unknown text reads as 0
  bool by_text_ = false;                     // a number reads as its decimal text
  uint32_t hash_part_ = 0;                   // TargetRule
  NumberOps ops_;
  // Precomputed results for the values 0, 1, 2, ..., if the ops include a logarithm. Most counts
  // are small.
  std::shared_ptr<const std::vector<float>> small_;
  bool is_target_ = false;
  TargetKind target_ = TargetKind::kAny;
  uint32_t classes_ = 0;
  std::optional<float> fallback_;
  float fallback_given_ = 0;  // before the ops
};

/// Makes a key from the hash of a text.
struct KeyHash {
  uint64_t name_hash = 0;  // of the field
  uint64_t buckets = 0;    // keys are below this; 0: no limit

  /// Returns the key. `unmixed` is the unmixed_hash_string() of the text.
  uint64_t key_of(uint64_t unmixed) const {
    const uint64_t key = hash_combine(name_hash, mix64(unmixed));
    if (buckets == 0) return key;
    return (buckets & (buckets - 1)) == 0 ? key & (buckets - 1) : key % buckets;
  }
  /// Returns a hash for which key_of() gives `key`. `key` must be a possible key.
  uint64_t unmixed_of(uint64_t key) const { return unmix64(unmix64(unmix64(key) ^ name_hash)); }
  /// Replaces each hash by its key_of(). The compiler vectorizes these loops.
  void apply_to_all(std::span<uint64_t> keys) const;
};

/// Reads a field as one key or a variable number of keys: by hash, as the integer itself, by a
/// vocabulary, or by the bucket that contains a number.
class KeyField {
 public:
  /// Errors: kConfig if the transforms give no key, and any error of reading the vocabulary's file.
  static Result<KeyField> make(const FieldContext& context, const FieldSpec& spec);
  /// Makes a field that reads a list of numbers of any length. It fills values and no keys.
  static Result<KeyField> make_list(const FieldContext& context, const FieldSpec& spec);

  const std::string& name() const { return name_; }
  /// Returns true if a record has a variable number of keys: if the shape of the field is [-1], if
  /// a text is split into words, or if unknown words are dropped.
  bool is_bag() const { return list_ || drops_ || tokens_; }
  /// Returns true if this is a float32 field with one fixed key (the hash of its name) whose value
  /// is the number.
  bool is_number() const { return how_ == How::kNumber; }
  /// Returns true if the field accepts any number: as the bucket that is its key, or as an element
  /// of a list.
  bool takes_numbers() const { return how_ == How::kBuckets || how_ == How::kList; }
  /// Returns true if every integer of 0 or more is its own key.
  bool is_plain() const { return how_ == How::kIdentity && range_ == 0; }

  /// Returns true if 12.0 has the key of 12.
  bool reads_integers() const { return integers_; }

  /// Returns whether every text gives a key, by its hash.
  bool hashes_text() const { return hashes_text_; }
  uint64_t hash(std::string_view text) const {
    const uint64_t unmixed = unmixed_hash_string(text);
    return deferred_ ? unmixed : hash_.key_of(unmixed);
  }
  /// From now on the field gives unmixed hashes instead of keys, also for its default. The caller
  /// turns the hashes of a whole batch into keys with KeyHash::key_of(). Returns std::nullopt if
  /// the keys do not come from a hash.
  std::optional<KeyHash> defer_hash();

  // Converts a text of a delimited file, such as CSV.
  [[gnu::always_inline]] bool convert(std::string_view text, uint64_t& key, Fault& fault) const {
    if (!hashes_text_ || missing_.matches(text)) [[unlikely]]
      return convert_any(text, key, fault);
    key = hash(text);
    return true;
  }
  /// Converts a text to key and value; only if is_number().
  bool convert_number(std::string_view text, uint64_t& key, float& value, Fault& fault) const;
  /// Appends the keys of a text; only if is_bag(). If the field has any length, blanks separate its
  /// words, and each word gives a key (or a value, for a list of numbers).
  bool append(std::string_view text, KeyBuffer& to, Fault& fault) const;

  // The following functions convert values that are not texts of a delimited file. A string is not
  // compared with the marks for missing values. An integer gives the same key as its decimal
  // digits.
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
  /// Converts to key and value; only if is_number().
  template <typename T>
  bool convert_value(T value, uint64_t& key, float& number, Fault& fault) const {
    key = hash_.name_hash;
    return number_->convert_value(value, &number, fault);
  }
  /// Converts a feature number of libsvm. The key may be one for which drops() is true.
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
  /// Where an op stands.
  struct OpPlace {
    const FieldContext& context;
    const FieldSpec& spec;
    size_t index = 0;  // in the field's transform
  };
  Result<void> add_op(const OpPlace& place);
  // Each op of OpStage::kKey has one of these.
  Result<void> lower(const ops::Hash& op, const OpPlace& place);
  Result<void> lower(const ops::Identity& op, const OpPlace& place);
  Result<void> lower(const ops::Vocabulary& op, const OpPlace& place);
  Result<void> lower(const ops::Bucketize& op, const OpPlace& place);
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
  bool deferred_ = false;  // hash() does only its first half
  How how_ = How::kHash;
  bool list_ = false;   // of any length
  bool drops_ = false;  // a word that is not in the vocabulary gives no key
  bool integer_ = false;
  bool hashes_text_ = false;                      // kHash, and every text gives its own hash
  bool integers_ = false;                         // kHash: 12.0 has the key of 12
  uint64_t range_ = 0;                            // kIdentity: keys are below this; 0: no limit
  std::optional<uint64_t> otherwise_;             // key for values that are out of range or unknown
  std::shared_ptr<const Vocabulary> vocabulary_;  // kVocabulary
  uint64_t unknown_buckets_ = 0;                  // numbered after the words of the vocabulary
  std::vector<double> boundaries_;                // kBuckets
  bool exact_ = false;  // kBuckets: compares integers, not rounded to float
  MissingMarks missing_;
  std::optional<uint64_t> fallback_;
  std::optional<FloatField> number_;      // kNumber, kBuckets, kList
  mutable std::optional<Tokens> tokens_;  // has mutable buffers; a field belongs to one thread
  std::string fallback_text_;             // used with tokens_
};

/// Returns an error of the job's settings about a field.
Error field_error(const FieldSpec& spec, const std::string& what, const std::string& hint);

/// Returns the number of floats of a value with this shape. Not for a bag.
uint64_t elements_of(const std::vector<int64_t>& shape);

}  // namespace downpour::data
