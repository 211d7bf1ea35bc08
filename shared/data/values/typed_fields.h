// TypedField: writes the values of one declared field to its columns. For formats whose values are
// numbers and strings instead of text: tf.train.Example, tensors, arrays, JSON. It applies the same
// checks to the values of all of them.
#pragma once

#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "shared/data/values/field_set.h"
#include "shared/data/values/filter.h"

namespace downpour::data {

class FieldWriter;

class TypedField {
 public:
  /// Makes the fields of `set` and moves their parsers out of it. Error kConfig names the field.
  static Result<std::vector<TypedField>> make_all(FieldSet& set);

  /// Returns the inputs of a job's filter. Their values go to `filter`, which must outlive them.
  static std::vector<TypedField> inputs_of(RecordFilter& filter);

  const std::string& name() const { return spec_.name; }
  const FieldSpec& spec() const { return spec_; }
  const std::string& source_name() const { return spec_.source_name(); }
  FieldType type() const { return spec_.type; }
  const std::vector<int64_t>& shape() const { return spec_.shape; }
  /// Returns true if the field can have any number of values.
  bool is_bag() const { return spec_.is_bag(); }
  bool is_filter() const { return kind_ == Kind::kFilter; }
  /// Returns true if the value is a serialized tensor.
  bool encoded() const { return spec_.encoding == "tensor"; }
  /// Returns N if `column` = "N", which means that the field has the elements from index N on.
  /// Error kConfig if `column` is not a number.
  Result<std::optional<uint64_t>> first_element() const;
  /// Returns the converter of a float field, or null for keys. column() is the index of its column.
  const FloatField* floats() const { return floats_ ? &*floats_ : nullptr; }
  uint32_t column() const { return column_; }

  /// The values that take_only() accepts: integers as numbers; integers and floats as numbers;
  /// integers as keys; texts, which are hashed.
  enum class Only : uint8_t { kNothing, kInteger, kFloat, kKey, kText };
  Only only() const;

  /// Writes the only value of the record, if the field has one value of this type that needs no
  /// conversion. Returns false if the value must go through begin() instead.
  bool take_only(int64_t value, Columns& columns) const {
    if (only_ == Only::kKey && value >= 0) [[likely]] {
      put_key(uint64_t(value), columns);
      return true;
    }
    if (only_ != Only::kFloat && only_ != Only::kInteger) return false;
    (*columns.floats)[column_].values[columns.record] = float(value);
    return true;
  }
  bool take_only(uint64_t value, Columns& columns) const {
    return value <= uint64_t(INT64_MAX) && take_only(int64_t(value), columns);
  }
  bool take_only(float value, Columns& columns) const {
    if (only_ != Only::kFloat || !std::isfinite(value)) [[unlikely]]
      return false;
    (*columns.floats)[column_].values[columns.record] = value;
    return true;
  }
  bool take_only(std::string_view value, Columns& columns) const {
    if (only_ != Only::kText) [[unlikely]]
      return false;
    put_key(keys_->hash(value), columns);
    return true;
  }

  /// Starts the values of the current record. A second call for the same record discards the values
  /// of the first.
  FieldWriter begin(Columns& columns) const;
  bool read_missing(Columns& columns, Fault& fault) const;

 private:
  friend class FieldWriter;
  enum class Kind : uint8_t { kFloat, kKey, kNumberKey, kBag, kFilter };

  void put_key(uint64_t key, Columns& columns) const {
    KeyBuffer& keys = (*columns.keys)[column_];
    keys.keys[columns.record] = key;
    keys.count = columns.record + 1;
  }

  Kind kind_ = Kind::kFloat;
  Only only_ = Only::kNothing;
  uint32_t column_ = 0;  // index in Columns::floats, Columns::keys or the filter's inputs
  uint32_t width_ = 1;   // values per record; UINT32_MAX: any number
  std::optional<FloatField> floats_;
  std::optional<KeyField> keys_;
  RecordFilter* filter_ = nullptr;
  FieldSpec spec_;
};

/// Writes the values of one field of one record, in order.
class FieldWriter {
 public:
  bool take(int64_t value, Fault& fault) {
    if (!may_take(field_.spec_.type != FieldType::kString || has_keys())) [[unlikely]]
      return refuse(Found::kInteger, str(value), fault);
    switch (field_.kind_) {
      case Kind::kFloat:
        return field_.floats_->convert_value(value, to_ + count_++, fault);
      case Kind::kNumberKey:
        return take_number(value, fault);
      case Kind::kKey:
      case Kind::kBag:
        if (field_.spec_.type == FieldType::kFloat32 && !field_.keys_->takes_numbers())
          return refuse(Found::kInteger, str(value), fault);
        return take_key(value, fault);
      case Kind::kFilter:
        ++count_;
        field_.filter_->set_number(field_.column_, value);
        return true;
    }
    return false;
  }
  /// A key above the largest int64 is made from the decimal digits; a number is rounded to double.
  bool take(uint64_t value, Fault& fault) {
    if (value <= uint64_t(INT64_MAX)) [[likely]]
      return take(int64_t(value), fault);
    return take_large(value, fault);
  }
  bool take(float value, Fault& fault) { return take_real(value, fault); }
  bool take(double value, Fault& fault) { return take_real(value, fault); }
  bool take(std::string_view value, Fault& fault) {
    if (!may_take(field_.spec_.type == FieldType::kString)) [[unlikely]]
      return refuse(Found::kString, std::string(value), fault);
    if (field_.kind_ == Kind::kFloat)
      return field_.floats_->convert_value(value, to_ + count_++, fault);
    if (field_.kind_ == Kind::kFilter) {
      ++count_;
      return field_.filter_->set_value(field_.column_, value, fault);
    }
    return take_key(value, fault);
  }
  /// Takes a text as a table's cell: blanks separate the values of a field of any length. With
  /// `parse`, a field of numbers takes their texts, too; then kPadBytes after it must be readable.
  bool take_cell(std::string_view text, Fault& fault, bool parse = false) {
    if (field_.kind_ == Kind::kFloat && may_take(field_.spec_.type == FieldType::kString || parse))
      return field_.floats_->convert(text, to_ + count_++, fault);
    if (field_.kind_ != Kind::kBag) return take(text, fault);
    ++count_;
    return field_.keys_->append(text, *keys_, fault);
  }
  size_t count() const { return count_; }
  const TypedField& field() const { return field_; }
  /// Returns false if the number of values differs from the shape.
  bool finish(Fault& fault) {
    if (field_.kind_ == Kind::kBag) {
      keys_->offsets[record_ + 1] = uint32_t(keys_->count);
      if (count_ == 1 || field_.is_bag()) [[likely]]
        return true;
      return wrong_count(fault);
    }
    if (keys_ != nullptr) keys_->count = record_ + 1;
    if (count_ == field_.width_) [[likely]]
      return true;
    return wrong_count(fault);
  }
  bool too_many(Fault& fault) const { return wrong_count(fault); }

 private:
  friend class TypedField;
  using Kind = TypedField::Kind;
  FieldWriter(const TypedField& field, Columns& columns) : field_(field), record_(columns.record) {
    if (field.kind_ == Kind::kFloat) {
      to_ = &(*columns.floats)[field.column_].values[size_t(record_) * field.width_];
      return;
    }
    if (field.kind_ == Kind::kFilter) return;
    keys_ = &(*columns.keys)[field.column_];
    if (field.kind_ == Kind::kBag) keys_->count = keys_->offsets[record_];
  }

  /// Returns true if the field makes keys of its values, for which an integer is as good as its
  /// digits.
  bool has_keys() const { return field_.kind_ == Kind::kKey || field_.kind_ == Kind::kBag; }
  /// Returns true if the field accepts this type and has room for another value.
  bool may_take(bool type) const { return type && count_ < field_.width_; }
  template <typename T>
  bool take_real(T value, Fault& fault) {
    if (!may_take(field_.spec_.type == FieldType::kFloat32)) [[unlikely]] {
      constexpr T kLimit = T(9e18);
      const bool id = has_keys() && field_.keys_->reads_integers() && value == std::floor(value) &&
                      std::abs(value) < kLimit;
      return id ? take(int64_t(value), fault) : refuse(Found::kFloat, str(value), fault);
    }
    if (field_.kind_ == Kind::kFloat)
      return field_.floats_->convert_value(value, to_ + count_++, fault);
    if (field_.kind_ == Kind::kFilter) {
      ++count_;
      field_.filter_->set_number(field_.column_, value);
      return true;
    }
    if (field_.kind_ == Kind::kNumberKey) return take_number(value, fault);
    return take_key(value, fault);
  }
  bool take_large(uint64_t value, Fault& fault) {
    if (field_.kind_ == Kind::kFilter) {
      ++count_;
      field_.filter_->set_number(field_.column_, value);
      return true;
    }
    if (field_.kind_ == Kind::kFloat && may_take(field_.spec_.type != FieldType::kString))
      return field_.floats_->convert_value(double(value), to_ + count_++, fault);
    const bool digits_only =
        has_keys() && (field_.spec_.type != FieldType::kFloat32 || !field_.keys_->takes_numbers());
    if (!digits_only) return take_real(double(value), fault);
    if (!may_take(true)) return refuse(Found::kInteger, str(value), fault);
    std::string digits = std::to_string(value);
    if (take_key(std::string_view(digits), fault)) return true;
    if (!fault.text.empty()) fault.text = {}, fault.made = std::move(digits);
    return false;
  }
  template <typename T>
  bool take_key(T value, Fault& fault) {
    ++count_;
    if (field_.kind_ == Kind::kBag) return field_.keys_->append_value(value, *keys_, fault);
    return field_.keys_->convert_value(value, keys_->keys[record_], fault);
  }
  template <typename T>
  bool take_number(T value, Fault& fault) {
    ++count_;
    float& number = keys_->values[record_];
    if (!field_.keys_->convert_value(value, keys_->keys[record_], number, fault)) return false;
    keys_->all_one &= number == 1.0F;
    return true;
  }
  enum class Found : uint8_t { kFloat, kInteger, kString };
  /// Reports that there is no room, or that the value has the wrong type.
  bool refuse(Found found, std::string value, Fault& fault) const;
  bool wrong_count(Fault& fault) const;

  const TypedField& field_;
  const uint32_t record_;
  float* to_ = nullptr;
  KeyBuffer* keys_ = nullptr;
  size_t count_ = 0;
};

inline FieldWriter TypedField::begin(Columns& columns) const { return FieldWriter(*this, columns); }

}  // namespace downpour::data
