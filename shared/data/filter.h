// RecordFilter: the job's data.filter, asked of one record after another.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "shared/data/expression.h"
#include "shared/data/fields.h"

namespace downpour::data {

/// A condition and the values it needs. It sees fields as they are read, a missing one as its
/// `default`, before any transform: a hashed text is still a text. A parser sets every input of a
/// record, then asks.
class RecordFilter {
 public:
  /// Null where the job has no filter. Errors: kConfig naming data.filter and the column in it.
  static Result<std::unique_ptr<RecordFilter>> make(const DataSpec& data);

  /// The fields that the condition names.
  const std::vector<FieldSpec>& inputs() const { return specs_; }
  /// Sets input `i`. `text` as FloatField::convert wants it, and valid until the record is judged.
  /// False: it is no number where one is needed.
  bool set_text(size_t i, std::string_view text, Fault& fault);
  void set_number(size_t i, long double number) { values_[i] = {.number = number}; }
  void set_missing(size_t i) { values_[i] = inputs_[i].fallback; }

  /// True: the record passes. False: it does not (fault.reason stays null), or it lacks a value
  /// that decides (fault says which).
  bool passes(Fault& fault) const;

 private:
  struct Input {
    MissingMarks missing;
    std::string fallback_text;
    ExpressionValue fallback;  // what a missing value reads as
    bool is_text = false;
  };
  explicit RecordFilter(Expression expression) : expression_(std::move(expression)) {}

  Expression expression_;
  std::vector<FieldSpec> specs_;
  std::vector<Input> inputs_;
  std::vector<ExpressionValue> values_;
};

}  // namespace downpour::data
