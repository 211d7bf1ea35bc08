#include "shared/data/values/fields.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "shared/base/hash.h"
#include "shared/base/number_text.h"
#include "shared/data/records/delimited.h"
#include "shared/data/values/number.h"

namespace downpour::data {
namespace {

constexpr size_t kSmallResults = 1024;
constexpr const char* kFixRecord = "correct the record, or set data.bad_records = \"skip\"";
constexpr const char* kGiveClass =
    "add it to `classes` of the field; if only the evaluation's data have it, "
    "eval.unknown_labels = \"skip\" leaves such records out";
constexpr const char* kFixLine = "correct the line, or set data.bad_records = \"skip\"";
constexpr const char* kTrim =
    "set data.trim = true, which removes the blanks around cells, or correct the line";

}  // namespace

Error field_error(const FieldSpec& spec, const std::string& what, const std::string& hint) {
  return Error{ErrorCode::kConfig, str("field ", spec.name, ": ", what),
               str("data.fields.", spec.name), hint};
}

uint64_t elements_of(const std::vector<int64_t>& shape) {
  uint64_t elements = 1;
  for (const int64_t d : shape) elements *= uint64_t(d);
  return elements;
}

MissingMarks::MissingMarks(const DataSpec& data) : marks_(data.missing) {
  for (const std::string& mark : marks_) {
    nan_ |= mark == "nan" || mark == "NaN";
    lengths_ |= uint64_t(1) << std::min(mark.size(), kLongest);
    if (const auto number = Number::parse(mark)) numbers_.push_back(*number);
  }
}

std::optional<MissingMarks::Number> MissingMarks::Number::parse(std::string_view text) {
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  const char* const end = text.data() + text.size();
  const auto parsed = [&](auto& value) {
    const auto read = std::from_chars(text.data(), end, value);
    return read.ec == std::errc() && read.ptr == end;
  };
  Number number;
  int64_t whole = 0;
  if (!parsed(number.wide) || !std::isfinite(number.wide)) return std::nullopt;
  if (!parsed(number.narrow)) number.narrow = std::numeric_limits<float>::quiet_NaN();
  if (parsed(whole)) number.whole = whole;
  return number;
}

bool MissingMarks::matches_number(std::string_view text) const {
  const auto number = are_numbers() ? Number::parse(text) : std::nullopt;
  return number && (number->whole ? matches_number(*number->whole) : matches_number(number->wide));
}

bool MissingMarks::is_mark(std::string_view text) const {
  return text.empty() || std::find(marks_.begin(), marks_.end(), text) != marks_.end();
}

Result<FloatField> FloatField::make(const DataSpec& data, const FieldSpec& spec,
                                    const TargetRule* rule, uint32_t width) {
  FloatField field;
  field.name_ = spec.name;
  field.width_ = width;
  field.missing_ = MissingMarks(data);
  const bool counts = rule != nullptr && rule->counter != nullptr;
  field.label_ = counts ? LabelTexts::counting(rule->counter) : LabelTexts::of(spec);
  field.integer_ = spec.type == FieldType::kInt64;
  if (rule != nullptr) {
    field.is_target_ = true;
    field.any_text_ = rule->any_text;
    field.by_text_ = rule->by_text && field.label_ != nullptr;
    field.hash_part_ = rule->hash_part;
    field.target_ = rule->kind;
    field.classes_ = rule->classes;
  }
  if (spec.is_bag() || elements_of(spec.shape) != width) {
    return field_error(
        spec, str("does not have the shape of the ", width, " floats that the model reads"),
        "set shape = [] for one number, or [n] for n numbers (in text files separated by spaces)");
  }
  if (spec.type == FieldType::kString && field.label_ == nullptr) {
    return field_error(spec, "is a string, but the model needs a number",
                       "set type = \"float32\", or list the texts of a label in `classes`, or in "
                       "`positive` those that mean 1");
  }
  for (const TransformSpec& op : spec.transform) {
    if (NumberOps::takes(op)) {
      field.ops_.add(op);
    } else if (!std::holds_alternative<ops::Identity>(op)) {
      return field_error(spec, "has an op that gives keys, but the model needs a number",
                         "use the field as an input of an embedding or linear layer");
    }
    const auto* const scaled = std::get_if<ops::Standardize>(&op);
    if (scaled == nullptr) continue;
    const double mean = scaled->mean.value_or(0), scale = scaled->scale.value_or(1);
    if (!(scale != 0 && std::isfinite(scale) && std::isfinite(mean)))
      return field_error(spec, "standardize needs a finite mean and a scale other than 0", "");
  }
  if (field.ops_.has_logarithm()) {
    auto small = std::make_shared<std::vector<float>>(kSmallResults);
    for (size_t i = 0; i < kSmallResults; ++i) (*small)[i] = field.ops_.apply(float(i));
    field.small_ = std::move(small);
  }
  field.wide_ = field.label_ == nullptr && field.ops_.need_doubles();
  field.takes_short_numbers_ =
      width == 1 && field.label_ == nullptr && !field.wide_ && !field.missing_.are_numbers();
  field.plain_ = field.label_ == nullptr && field.ops_.empty() && !field.integer_ &&
                 field.target_ == TargetKind::kAny;
  if (spec.fallback) {
    // The default is converted like any other value, but without the check for missing marks.
    Fault fault;
    std::vector<float> values(width);
    double number = 0;
    float narrow = 0;
    const char* const text = spec.fallback->c_str();
    const char* const end = field.label_ != nullptr ? nullptr
                            : field.wide_           ? parse_double(text, number)
                                                    : parse_float(text, narrow);
    if (!field.wide_) number = narrow;
    if (field.label_ != nullptr) {
      const auto known = field.label_->number_of(*spec.fallback);
      if (!known && !field.any_text_)
        return field_error(spec, str("default = \"", *spec.fallback, "\" is none of its classes"),
                           "");
      number = narrow = known.value_or(0);
    } else if (end == nullptr || *end != '\0') {
      return field_error(spec, str("default = \"", *spec.fallback, "\" is not a number"), "");
    }
    if (!field.convert_double(number, *spec.fallback, values.data(), fault)) {
      return field_error(spec, str("default = \"", *spec.fallback, "\": ", fault.reason), "");
    }
    field.fallback_ = values[0];
    field.fallback_given_ = narrow;
  }
  return field;
}

std::optional<NumberOps> FloatField::defer_ops() {
  if (ops_.empty() || wide_ || !ops_.is_total() || target_ != TargetKind::kAny) return {};
  if (fallback_) fallback_ = fallback_given_;
  small_.reset();
  plain_ = label_ == nullptr && !integer_;
  return std::exchange(ops_, NumberOps());
}

bool FloatField::refuse(const char* reason, std::string_view text, const char* hint,
                        Fault& fault) const {
  fault = {.reason = reason, .field = &name_, .text = text, .hint = hint};
  return false;
}

bool FloatField::convert_number(float value, std::string_view text, float* to, Fault& fault) const {
  if (integer_ && value != std::floor(value))
    return refuse("is not an integer", text, kFixLine, fault);
  if (!ops_.empty()) {
    // Whether a value is a small integer varies from value to value, so both parts are tested
    // without a branch.
    const auto whole = uint32_t(std::min(std::max(0.0F, value), float(kSmallResults)));
    const bool small = small_ != nullptr &&
                       (uint32_t(float(whole) == value) & uint32_t(whole < kSmallResults)) != 0;
    value = small ? (*small_)[whole] : ops_.apply(value);
  }
  return check_result(value, text, to, fault);
}

/// Does the same as convert_number() for a number with the digits of a double.
bool FloatField::convert_double(double value, std::string_view text, float* to,
                                Fault& fault) const {
  if (!wide_) return convert_number(float(value), text, to, fault);
  if (integer_ && value != std::floor(value))
    return refuse("is not an integer", text, kFixLine, fault);
  return check_result(ops_.apply_exactly(value), text, to, fault);
}

/// Checks a number after its ops, and writes it.
bool FloatField::check_result(float value, std::string_view text, float* to, Fault& fault) const {
  if (!ops_.empty() && !std::isfinite(value)) {
    return refuse("has no finite value after its transforms", text,
                  "put { op = \"clip\", min = 0 } before \"log1p\"", fault);
  }
  if (target_ == TargetKind::kBinary) {
    // The class of a value is unpredictable, so there is no branch for it.
    const bool one = value == 1.0F;
    if (!(one | (value == 0.0F) | (value == -1.0F))) [[unlikely]] {
      return refuse(
          "is out of range: a logistic target is 0 or 1 (or -1 and 1)", text,
          "list the strings that mean 1 in `positive` of the field, or set model.loss: "
          "softmax_cross_entropy with model.classes for classes from 0, squared for numbers",
          fault);
    }
    value = float(one);
  } else if (target_ == TargetKind::kClass) {
    if (!(value >= 0) || value >= float(classes_) || value != std::floor(value)) {
      return refuse("is out of range: a class is an integer from 0 to the number of classes - 1",
                    text, "raise model.classes or the last layer's units, or choose another target",
                    fault);
    }
  } else if (target_ == TargetKind::kCount && !(value >= 0)) {
    return refuse("is out of range: a count is at least 0", text,
                  "correct the record, or choose another loss, for example \"squared\"", fault);
  } else if (target_ == TargetKind::kPositive) {
    if (!(value > 0)) {
      return refuse("is not above 0: with data.negatives each record is a positive", text,
                    "leave such records out, for example with data.filter = \"label > 0\", or "
                    "remove data.negatives",
                    fault);
    }
    value = 1.0F;
  }
  *to = value;
  return true;
}

size_t FloatField::convert_numbers(std::span<float> values) const {
  Fault fault;
  size_t taken = 0;
  while (taken < values.size() && convert_number(values[taken], {}, &values[taken], fault)) ++taken;
  return taken;
}

bool FloatField::convert_any_value(double value, float* to, Fault& fault) const {
  const auto narrow = float(value);
  if (std::isnan(value) && missing_.matches_nan()) {
    if (!fallback_) return refuse("is missing", "nan", kGiveDefault, fault);
    *to = *fallback_;
    return true;
  }
  if (label_ != nullptr && !std::isnan(value))
    return convert_label(double(narrow) == value ? number_text(narrow) : number_text(value), to,
                         fault);
  if (!std::isfinite(narrow)) {
    refuse("is not a finite number", {}, kFixRecord, fault);
  } else if (integer_ && value != std::floor(value)) {  // checked before the value is rounded
    refuse("is not an integer", {}, kFixRecord, fault);
  } else if (convert_double(value, {}, to, fault)) {
    return true;
  }
  fault.made = str(value);
  return false;
}

bool FloatField::convert_label(std::string text, float* to, Fault& fault) const {
  if (by_text_) {
    *to = number_of(text).value_or(0);
    return true;
  }
  if (convert_value(std::string_view(text), to, fault)) return true;
  fault.made = std::move(text);
  return false;
}

std::optional<float> FloatField::number_of(std::string_view text) const {
  if (hash_part_ == 0) return label_->number_of(text);
  return float(hash_string(text) >> (24 * (hash_part_ - 1)) & 0xff'ffffU);
}

bool FloatField::convert_missing(float* to, Fault& fault) const {
  if (!fallback_) return refuse("is missing", "", is_target_ ? kFixRecord : kGiveDefault, fault);
  std::fill_n(to, width_, *fallback_);
  return true;
}

bool FloatField::convert(std::string_view text, float* to, Fault& fault) const {
  if (missing_.matches(text)) return convert_missing(to, fault);
  return convert_value(text, to, fault);
}

bool FloatField::convert_value(std::string_view text, float* to, Fault& fault) const {
  if (label_ != nullptr) {
    const auto value = number_of(text);
    if (value || any_text_) return convert_number(value.value_or(0), text, to, fault);
    refuse("is none of the classes of its field", text, kGiveClass, fault);
    fault.unknown_label = true;
    return false;
  }
  float number = 0;
  if (width_ == 1 && !wide_ && parse_short_float(text.data(), text.size(), number)) {
    return take_number(number, text, to, fault);
  }
  const char* p = text.data();
  const char* const end = text.data() + text.size();
  for (uint32_t i = 0; i < width_; ++i) {
    while (i > 0 && p < end && is_blank(*p)) ++p;
    float value = 0;
    double exact = 0;
    const char* const begin = p;
    p = p >= end ? nullptr : wide_ ? parse_double(p, exact) : parse_float(p, value);
    if (p == nullptr || p > end || (p < end && !(width_ > 1 && is_blank(*p)))) {
      const bool padded = !text.empty() && (is_blank(text.front()) || is_blank(text.back()));
      return refuse(width_ == 1 ? "is not a finite number"
                                : "is not a list of numbers with the declared shape",
                    text, padded ? kTrim : kFixLine, fault);
    }
    if (integer_ && !is_int64({begin, size_t(p - begin)}))  // checked before the value is rounded
      return refuse("is not a 64-bit integer", text, kFixLine, fault);
    if (!(wide_ ? convert_double(exact, text, to + i, fault)
                : convert_number(value, text, to + i, fault))) {
      return false;
    }
  }
  if (p != end && !trimmed({p, size_t(end - p)}).empty())
    return refuse("has more numbers than the declared shape", text, kFixLine, fault);
  return true;
}

}  // namespace downpour::data
