// Expression: evaluates a compiled condition on a stack.
#include <algorithm>
#include <cmath>

#include "shared/data/values/expression.h"

namespace downpour::data {
namespace {

/// A slot of the evaluation stack. It is not initialized, because most of the stack is never used.
struct Slot {
  long double number;
  const char* text;
  size_t text_bytes;
  bool is;
  void set(std::string_view t) { text = t.data(), text_bytes = t.size(); }
  std::string_view as_text() const { return {text, text_bytes}; }
};

/// Returns a result of arithmetic: exact for integers, otherwise as a float64.
long double rounded(long double result, long double a, long double b) {
  const auto is_integer = [](long double x) { return std::trunc(x) == x; };
  const bool exact = is_integer(a) && is_integer(b) && is_integer(result);
  return exact ? result : (long double)(double(result));
}

}  // namespace

Verdict Expression::judge(std::span<const ExpressionValue> values) const {
  // The stack depth is bounded. Chains are left-associative, so each grammar level (or, and,
  // comparison, sum, product) holds at most one left operand while its right operand is evaluated.
  // There are at most kDepthMax nested parentheses in addition to the outermost level, and one
  // value is being computed.
  constexpr size_t kSlotsMax = size_t{5} * (kDepthMax + 1) + 1;
  Slot stack[kSlotsMax + 1];
  Slot* top = stack;  // the first slot stays unused
  const auto number = [&](auto&& result) {
    --top;
    top->number = rounded(result(top[0].number, top[1].number), top[0].number, top[1].number);
  };
  const auto compare = [&](bool texts, auto&& result) {
    --top;
    top->is =
        texts ? result(top[0].as_text(), top[1].as_text()) : result(top[0].number, top[1].number);
  };
  for (size_t at = 0; at < steps_.size(); ++at) {
    const Step step = steps_[at];
    switch (step.op) {
      case Op::kNumber:
        (++top)->number = numbers_[step.argument];
        break;
      case Op::kText:
        (++top)->set(texts_[step.argument]);
        break;
      case Op::kField: {
        const ExpressionValue& value = values[step.argument];
        if (!value.is_usable()) return Verdict::kMissing;
        ++top;
        top->number = value.number;
        top->set(value.text);
        break;
      }
      case Op::kMissing:
        (++top)->is = values[step.argument].missing;
        break;
      case Op::kNot:
        top->is = !top->is;
        break;
      case Op::kNegate:
        top->number = -top->number;
        break;
      case Op::kAdd:
        number([](auto a, auto b) { return a + b; });
        break;
      case Op::kSubtract:
        number([](auto a, auto b) { return a - b; });
        break;
      case Op::kMultiply:
        number([](auto a, auto b) { return a * b; });
        break;
      case Op::kDivide:
        number([](auto a, auto b) { return a / b; });
        break;
      case Op::kRemainder:
        number([](auto a, auto b) { return std::fmod(a, b); });
        break;
      case Op::kEqual:
      case Op::kTextEqual:
        compare(step.op == Op::kTextEqual, [](auto a, auto b) { return a == b; });
        break;
      case Op::kNotEqual:
      case Op::kTextNotEqual:
        // Like all comparisons false for NaN, for which a != b is true.
        compare(step.op == Op::kTextNotEqual, [](auto a, auto b) { return a < b || a > b; });
        break;
      case Op::kLess:
      case Op::kTextLess:
        compare(step.op == Op::kTextLess, [](auto a, auto b) { return a < b; });
        break;
      case Op::kLessEqual:
      case Op::kTextLessEqual:
        compare(step.op == Op::kTextLessEqual, [](auto a, auto b) { return a <= b; });
        break;
      case Op::kGreater:
      case Op::kTextGreater:
        compare(step.op == Op::kTextGreater, [](auto a, auto b) { return a > b; });
        break;
      case Op::kGreaterEqual:
      case Op::kTextGreaterEqual:
        compare(step.op == Op::kTextGreaterEqual, [](auto a, auto b) { return a >= b; });
        break;
      case Op::kInNumbers: {
        const List list = lists_[step.argument];
        const long double* const all = numbers_.data();
        top->is = !std::isnan(top->number) &&
                  std::binary_search(all + list.begin, all + list.end, top->number);
        break;
      }
      case Op::kInTexts: {
        const List list = lists_[step.argument];
        const std::string* const all = texts_.data();
        top->is = std::binary_search(all + list.begin, all + list.end, top->as_text());
        break;
      }
      case Op::kAnd:
        if (!top->is) {
          at = step.argument - 1;
        } else {
          --top;
        }
        break;
      case Op::kOr:
        if (top->is) {
          at = step.argument - 1;
        } else {
          --top;
        }
        break;
    }
  }
  return top->is ? Verdict::kKeep : Verdict::kDrop;
}

}  // namespace downpour::data
