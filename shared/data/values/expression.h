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
  bool is_text = false;  // false: a number
};

/// A field's value in one record.
struct ExpressionValue {
  long double number = 0;  // holds every int64 and every float64
  std::string_view text;
  bool missing = false;      // the record has no value
  bool has_default = false;  // the other members are the default, for a record without a value

  bool is_usable() const { return !missing || has_default; }
};

/// Parses a whole text as a finite number. Integers of 64 bits are exact, all others are rounded to
/// double, so that equal texts are equal numbers. Returns false if it is no number.
bool read_number(std::string_view text, long double& number);

/// The result of a condition for one record. kMissing: a field that the condition needed has no
/// value.
enum class Verdict : uint8_t { kKeep, kDrop, kMissing };

/// A condition such as "country != 'XX' && (age >= 18 || missing(age))".
///
///     ||  &&  !                      of conditions; the right side is evaluated only if needed
///     ==  !=  <  <=  >  >=           of two numbers or two texts (by bytes)
///     x in (a, b, c)                 x equals one of them; `not in`: none of them
///     +  -  *  /  %                  of numbers
///     missing(field)                 the record has no value in this field
///
/// Names are fields. A name that is not a plain word is written in backquotes. Texts are written in
/// single or double quotes, with \' \" \\ \n \t. Numbers are written as in JSON. A division by zero
/// gives infinity or NaN; every comparison with NaN is false.
class Expression {
 public:
  /// Compiles a condition. Errors: kConfig with the column in the text (from 1), what was found
  /// there, and what is allowed.
  static Result<Expression> compile(std::string_view text,
                                    const std::vector<ExpressionField>& fields);

  /// Returns the fields that the condition names, each once, as indexes into the `fields` of
  /// compile().
  std::span<const uint32_t> fields() const { return fields_; }
  /// Evaluates the condition. `values` are in the order of fields(). Allocates nothing.
  Verdict judge(std::span<const ExpressionValue> values) const;

 private:
  friend class ExpressionCompiler;
  /// Bounds parentheses and unary operators, and so the evaluation stack. compile() rejects a
  /// deeper condition.
  static constexpr uint32_t kDepthMax = 64;
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
    kInNumbers,  // pop x, push whether lists_[argument] contains it
    kInTexts,
    kAnd,  // if top is false, keep it and continue at step `argument`; else drop it
    kOr,   // if top is true, the same
  };
  struct Step {
    Op op;
    uint32_t argument = 0;
  };
  struct List {
    uint32_t begin = 0, end = 0;  // range in numbers_ or texts_
  };

  std::vector<Step> steps_;
  std::vector<long double> numbers_;
  std::vector<std::string> texts_;
  std::vector<List> lists_;
  std::vector<uint32_t> fields_;
};

}  // namespace downpour::data
