// Fields: how one field's text becomes a float or a key, compiled once from its FieldSpec.
#pragma once

#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "shared/base/hash.h"
#include "shared/data/dataset.h"

namespace downpour::data {

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
  explicit MissingMarks(const DataSpec& data) : marks_(data.missing) {}
  bool matches(std::string_view text) const {
    if (text.empty()) return true;
    for (const std::string& mark : marks_)
      if (text == mark) return true;
    return false;
  }

 private:
  std::vector<std::string> marks_;
};

/// Reads a field as floats: number or label list, then the transforms, then the target's range.
class FloatField {
 public:
  /// Errors: kConfig for what no float can come of (a hash, a string without `positive`).
  static Result<FloatField> make(const DataSpec& data, const FieldSpec& spec,
                                 const TargetRule* rule, uint32_t width);

  const std::string& name() const { return name_; }
  uint32_t width() const { return width_; }
  /// Writes width() floats. `text` is followed by a byte that can be no part of a number, and 8
  /// bytes from its start on are readable.
  bool convert(std::string_view text, float* to, Fault& fault) const;
  /// The same from a number that has been read already (not with `positive`, see needs_text()).
  bool convert_number(float value, std::string_view text, float* to, Fault& fault) const;
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
  /// Whether a finite value is taken as it is.
  bool is_plain() const { return plain_; }
  /// What a missing value reads as.
  bool convert_missing(float* to, Fault& fault) const;
  bool needs_text() const { return !positive_.empty(); }

 private:
  FloatField() : missing_(DataSpec{}) {}
  bool refuse(const char* reason, std::string_view text, const char* hint, Fault& fault) const;
  bool convert_any_value(double value, float* to, Fault& fault) const;
  float transformed(float value) const;

  std::string name_;
  uint32_t width_ = 1;
  bool integer_ = false;
  bool plain_ = false;
  MissingMarks missing_;
  std::vector<std::string> positive_;
  std::vector<TransformSpec> transform_;
  // For a transform with a logarithm: its results for 0, 1, 2 ... (counts are mostly small).
  std::shared_ptr<const std::vector<float>> small_;
  TargetKind target_ = TargetKind::kAny;
  uint32_t classes_ = 0;
  std::optional<float> fallback_;
};

/// Reads a field as one key, or (shape {-1}) as a bag of keys, one a word.
class KeyField {
 public:
  /// Errors: kConfig for transforms that give no key.
  static Result<KeyField> make(const DataSpec& data, const FieldSpec& spec);

  const std::string& name() const { return name_; }
  bool is_bag() const { return bag_; }
  /// A float32 field read as key: the field itself is the key and the number its value.
  bool is_number() const { return number_.has_value(); }
  bool convert(std::string_view text, uint64_t& key, Fault& fault) const;
  /// is_number(): the key and the value.
  bool convert_number(std::string_view text, uint64_t& key, float& value, Fault& fault) const;
  /// The same from values that are no texts. An integer gives the key that its decimal digits
  /// would.
  bool convert_value(int64_t value, uint64_t& key, Fault& fault) const;
  bool convert_value(float value, uint64_t& key, float& number, Fault& fault) const {
    key = name_hash_;
    return number_->convert_value(value, &number, fault);
  }
  bool convert_value(int64_t value, uint64_t& key, float& number, Fault& fault) const {
    key = name_hash_;
    return number_->convert_value(value, &number, fault);
  }
  /// A string's key: it is not missing, whatever it is.
  uint64_t key_of(std::string_view text) const { return hash(text); }
  /// is_bag(): appends a key for each blank-separated word. Never refuses.
  void append_words(std::string_view text, std::vector<uint64_t>& keys, size_t& count) const;
  /// The key of an integer, for libsvm's feature numbers.
  uint64_t key_of(uint64_t number, std::string_view text) const {
    return hashed_ ? hash(text) : number;
  }
  bool is_hashed() const { return hashed_; }
  bool missing(std::string_view text) const { return missing_.matches(text); }

 private:
  KeyField() : missing_(DataSpec{}) {}
  uint64_t hash(std::string_view text) const {
    const uint64_t key = hash_combine(name_hash_, hash_string(text));
    if (buckets_ == 0) return key;
    return (buckets_ & (buckets_ - 1)) == 0 ? key & (buckets_ - 1) : key % buckets_;
  }

  std::string name_;
  uint64_t name_hash_ = 0;
  bool bag_ = false;
  bool hashed_ = true;
  bool integer_ = false;
  uint64_t buckets_ = 0;
  MissingMarks missing_;
  std::optional<uint64_t> fallback_;
  std::optional<FloatField> number_;
};

/// The floats of a value of this shape (not a bag's).
uint64_t elements_of(const std::vector<int64_t>& shape);

/// Blanks and carriage returns around a text are cut off.
std::string_view trimmed(std::string_view text);

/// A text as an error shows it: shortened, control bytes escaped.
std::string shown(std::string_view text);

}  // namespace downpour::data
