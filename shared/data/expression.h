// Expression: a condition on the fields of a record, compiled once from its text.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "shared/base/result.h"

namespace downpour::data {

/// A field that a condition may name.
struct ExpressionField {
  std::string name;
  bool is_text = false;  // else a number
};

/// A field's value in one record.
struct ExpressionValue {
  long double number = 0;  // holds every int64 and every float64
  std::string_view text;
  bool missing = false;
};

/// What a condition says of a record. kMissing: a field that it needed has no value.
enum class Verdict : uint8_t { kKeep, kDrop, kMissing };

/// A condition such as "country != 'XX' && (age >= 18 || missing(age))".
///
///     ||  &&  !                      of conditions; what the left side decides is not looked at
///     further
///     ==  !=  <  <=  >  >=           of two numbers or two texts (by bytes)
///     x in (a, b, c)                 one of them; `not in`: none
///     +  -  *  /  %                  of numbers
///     missing(field)                 whether the record has no value there
///
/// Names are fields; one that is no plain word stands in backquotes. Texts stand in single or
/// double quotes, with \' \" \\ \n \t. Numbers as in JSON. A division by zero gives infinity or no
/// number, which compares as false.
class Expression {
 public:
  /// Errors: kConfig with the column in the text (from 1), what stands there, and what may.
  static Result<Expression> compile(std::string_view text,
                                    const std::vector<ExpressionField>& fields);

  /// The fields it names, each once: indexes into compile()'s `fields`.
  std::span<const uint32_t> fields() const { return fields_; }
  /// `values` as fields(). Allocates nothing.
  Verdict judge(std::span<const ExpressionValue> values) const;

 private:
  friend class ExpressionCompiler;
  enum class Op : uint8_t {
    kNumber,   // push numbers_[argument]
    kText,     // push texts_[argument]
    kField,    // push values[argument]; kMissing if it has none
    kMissing,  // push whether values[argument] has none
    kNot,
    kNegate,
    kAdd,
    kSubtract,
    kMultiply,
    kDivide,
    kRemainder,
    kEqual,
    kNotEqual,
    kLess,
    kLessEqual,
    kGreater,
    kGreaterEqual,
    kTextEqual,
    kTextNotEqual,
    kTextLess,
    kTextLessEqual,
    kTextGreater,
    kTextGreaterEqual,
    kInNumbers,  // pop x, push whether it is one of lists_[argument]
    kInTexts,
    kAnd,  // top is false: go on at step `argument` with it; else drop it
    kOr,   // top is true: the same
  };
  struct Step {
    Op op;
    uint32_t argument = 0;
  };
  struct List {
    uint32_t begin = 0, end = 0;  // of numbers_ or texts_
  };

  std::vector<Step> steps_;
  std::vector<long double> numbers_;
  std::vector<std::string> texts_;
  std::vector<List> lists_;
  std::vector<uint32_t> fields_;
};

}  // namespace downpour::data
