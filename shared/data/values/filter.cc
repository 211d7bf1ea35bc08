#include "shared/data/values/filter.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "shared/data/records/delimited.h"
#include "shared/job/field_output.h"
#include "shared/job/formats.h"

namespace downpour::data {
namespace {

/// Parses a cell, without the blanks around it.
bool read_cell(std::string_view text, long double& number) {
  text = trimmed(text);
  if (!text.empty() && text.front() == '+') text.remove_prefix(1);
  return read_number(text, number);
}

std::vector<FieldSpec> scalars(const DataSpec& data) {
  std::vector<FieldSpec> fields;
  const auto add = [&](const FieldSpec& field) {
    const bool known = std::any_of(fields.begin(), fields.end(),
                                   [&](const FieldSpec& f) { return f.name == field.name; });
    if (field.shape.empty() && !known && !is_cross(field)) fields.push_back(field);
  };
  for (const FieldSpec& field : data.fields) add(field);
  for (const FieldSpec& field : default_fields(data.format)) add(field);
  return fields;
}

}  // namespace

Result<std::unique_ptr<RecordFilter>> RecordFilter::make(const DataSpec& data) {
  if (data.filter.empty()) return std::unique_ptr<RecordFilter>();
  const std::vector<FieldSpec> fields = scalars(data);
  std::vector<ExpressionField> named;
  for (const FieldSpec& field : fields)
    named.push_back(
        {.name = field.name, .is_text = field.type == FieldType::kString || field.is_label()});
  DP_TRY(Expression expression, Expression::compile(data.filter, named));
  std::unique_ptr<RecordFilter> filter(new RecordFilter(std::move(expression)));
  for (const uint32_t index : filter->expression_.fields()) {
    const FieldSpec& field = fields[index];
    filter->specs_.push_back(field);
    filter->inputs_.push_back({.missing = MissingMarks(data),
                               .fallback_text = field.fallback.value_or(""),
                               .is_text = named[index].is_text});
  }
  filter->values_.resize(filter->inputs_.size());
  for (size_t i = 0; i < filter->inputs_.size(); ++i) {
    Input& input = filter->inputs_[i];
    input.fallback.missing = true;
    input.fallback.has_default = filter->specs_[i].fallback.has_value();
    if (!input.fallback.has_default) continue;
    input.fallback.text = input.fallback_text;
    if (!input.is_text && !read_cell(input.fallback_text, input.fallback.number)) {
      return Error{ErrorCode::kConfig,
                   str("field ", filter->specs_[i].name, ": the default \"", input.fallback_text,
                       "\" is not a number"),
                   str("data.fields.", filter->specs_[i].name), ""};
    }
  }
  return filter;
}

bool RecordFilter::set_text(size_t i, std::string_view text, Fault& fault) {
  if (inputs_[i].missing.matches(text)) {
    set_missing(i);
    return true;
  }
  values_[i] = {.text = text};
  if (inputs_[i].is_text || read_cell(text, values_[i].number)) return true;
  fault = {.reason = "is not a number",
           .field = &specs_[i].name,
           .text = text,
           .hint =
               "data.filter compares the field as a number; correct the line, or set "
               "data.bad_records = \"skip\""};
  return false;
}

void RecordFilter::set_number(size_t i, float number) {
  if (std::isnan(number)) return set_number(i, double(number));
  std::array<char, 32> text;
  const auto [end, error] = std::to_chars(text.data(), text.data() + text.size(), number);
  double decimal = 0;
  std::from_chars(text.data(), end, decimal);
  values_[i] = {.number = decimal};
}

bool RecordFilter::passes(Fault& fault) const {
  const Verdict verdict = expression_.judge(values_);
  if (verdict != Verdict::kMissing) return verdict == Verdict::kKeep;
  size_t i = 0;
  while (i + 1 < values_.size() && values_[i].is_usable()) ++i;
  fault = {.reason = "is missing, and data.filter needs it",
           .field = &specs_[i].name,
           .hint = "give the field a `default`, or test missing(...) first"};
  return false;
}

}  // namespace downpour::data
