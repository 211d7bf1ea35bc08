// RecordFilter: evaluates the job's data.filter on one record after another.
#pragma once

#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "shared/data/values/expression.h"
#include "shared/data/values/fields.h"

namespace downpour::data {

/// A condition and the values that it needs. It sees fields before any transform: a hashed text is
/// still a text. A missing field reads as its `default`. A parser sets every input of a record and
/// then calls passes().
class RecordFilter {
 public:
  /// Returns null if the job has no filter. Errors: kConfig naming data.filter and the column in
  /// its text.
  static Result<std::unique_ptr<RecordFilter>> make(const DataSpec& data);

  /// The fields that the condition names.
  const std::vector<FieldSpec>& inputs() const { return specs_; }
  /// Sets input `i` to a cell of a table. `text` must meet the conditions of FloatField::convert(),
  /// and must stay valid until passes() returns. Returns false if a number is needed and `text` is
  /// not one.
  bool set_text(size_t i, std::string_view text, Fault& fault);
  /// Does the same for a text that is not a cell: a text input that is empty, or a mark of
  /// data.missing, has a value.
  bool set_value(size_t i, std::string_view text, Fault& fault) {
    if (!inputs_[i].is_text) return set_text(i, text, fault);
    values_[i] = {.text = text};
    return true;
  }
  void set_number(size_t i, int64_t number) { values_[i] = {.number = (long double)(number)}; }
  void set_number(size_t i, uint64_t number) { values_[i] = {.number = (long double)(number)}; }
  void set_number(size_t i, double number) {
    values_[i] = {.number = number};
    if (std::isnan(number) && inputs_[i].missing.matches_nan()) set_missing(i);
  }
  /// The number is the shortest decimal that the float stands for, so that 0.1F equals 0.1.
  void set_number(size_t i, float number);
  void set_missing(size_t i) { values_[i] = inputs_[i].fallback; }

  /// Returns true if the record passes. Returns false if the condition drops it (fault.reason stays
  /// null), or if a value that decides is missing (`fault` names it).
  bool passes(Fault& fault) const;

 private:
  struct Input {
    MissingMarks missing;
    std::string fallback_text;
    ExpressionValue fallback;  // value of a missing field
    bool is_text = false;
  };
  explicit RecordFilter(Expression expression) : expression_(std::move(expression)) {}

  Expression expression_;
  std::vector<FieldSpec> specs_;
  std::vector<Input> inputs_;
  std::vector<ExpressionValue> values_;
};

}  // namespace downpour::data
