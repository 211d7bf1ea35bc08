#include "shared/data/values/expression.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <optional>

#include "shared/base/enum_text.h"
#include "shared/base/str.h"

namespace downpour::data {
namespace {

constexpr size_t kTextBytesMax = 64 * 1024;

enum class Kind : uint8_t { kNumber, kText, kCondition };

const char* name_of(Kind kind) {
  return enum_text<Kind::kCondition>(kind, {"a number", "a string", "a condition"}, "?");
}

bool is_word_start(char c) {
  return (uint8_t(c | 0x20) >= 'a' && uint8_t(c | 0x20) <= 'z') || c == '_';
}
bool is_word(char c) { return is_word_start(c) || (c >= '0' && c <= '9') || c == '.'; }

struct Token {
  enum class Type : uint8_t { kEnd, kNumber, kText, kName, kSign } type = Type::kEnd;
  size_t begin = 0;
  std::string text;     // of a sign, a name, or a text without its quotes
  bool quoted = false;  // a text, or a name in backquotes, which is never a keyword
  long double number = 0;
};

}  // namespace

bool read_number(std::string_view text, long double& number) {
  const char* const end = text.data() + text.size();
  const auto reads_as = [&](auto value) {
    const auto [read_to, error] = std::from_chars(text.data(), end, value);
    if (error != std::errc() || read_to != end) return false;
    number = (long double)(value);
    return true;
  };
  return reads_as(int64_t{}) || reads_as(uint64_t{}) ||
         (reads_as(double{}) && std::isfinite(number));
}

/// A recursive-descent compiler. Each level returns the kind of value that its steps leave on the
/// stack.
class ExpressionCompiler {
 public:
  ExpressionCompiler(std::string_view text, const std::vector<ExpressionField>& fields)
      : text_(text), all_(fields) {}

  Result<Expression> compile() {
    if (text_.size() > kTextBytesMax) return fail(0, "the condition is longer than 64 KiB", "");
    DP_TRY_VOID(advance());
    DP_TRY(const Kind kind, either());
    if (token_.type != Token::Type::kEnd) {
      return fail(token_.begin, str("unexpected \"", token_.text, "\""),
                  "join conditions with && or ||");
    }
    if (kind != Kind::kCondition) {
      return fail(0, str("the result is ", name_of(kind), ", not a condition"),
                  "compare it: age >= 18");
    }
    return std::move(out_);
  }

 private:
  using Op = Expression::Op;

  Error fail(size_t at, std::string_view what, std::string_view hint) const {
    return {ErrorCode::kConfig,
            str("condition \"", text_.substr(0, 200), "\": column ", at + 1, ": ", what),
            "data.filter", std::string(hint)};
  }

  // ---- tokens
  Result<void> advance() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\n'))
      ++at_;
    token_ = {.begin = at_};
    if (at_ == text_.size()) return {};
    const char c = text_[at_];
    if (c == '\'' || c == '"') return quoted(c, Token::Type::kText);
    if (c == '`') return quoted(c, Token::Type::kName);
    if ((c >= '0' && c <= '9') || c == '.') return number();
    if (is_word_start(c)) {
      size_t end = at_;
      while (end < text_.size() && is_word(text_[end])) ++end;
      token_.type = Token::Type::kName;
      token_.text = std::string(text_.substr(at_, end - at_));
      at_ = end;
      return {};
    }
    for (const std::string_view sign : {"&&", "||", "==", "!=", "<=", ">="}) {
      if (text_.substr(at_, 2) == sign) return take_sign(2);
    }
    if (std::string_view("!<>()+-*/%,").find(c) != std::string_view::npos) return take_sign(1);
    const bool doubled = c == '=' || c == '&' || c == '|';
    return fail(at_, str("unexpected \"", c, "\""),
                doubled ? str("write \"", c, c, "\"") : "put strings in quotes: country == 'NO'");
  }

  Result<void> take_sign(size_t size) {
    token_.type = Token::Type::kSign;
    token_.text = std::string(text_.substr(at_, size));
    at_ += size;
    return {};
  }

  Result<void> quoted(char quote, Token::Type type) {
    token_.type = type;
    token_.quoted = true;
    for (size_t i = at_ + 1; i < text_.size(); ++i) {
      char c = text_[i];
      if (c == quote) {
        at_ = i + 1;
        return {};
      }
      if (c == '\\' && i + 1 < text_.size()) {
        c = text_[++i];
        c = c == 'n' ? '\n' : c == 't' ? '\t' : c;
      }
      token_.text += c;
    }
    return fail(at_, "a quote is not closed", str("end it with ", quote));
  }

  Result<void> number() {
    const std::string rest(text_.substr(at_, 64));
    char* end = nullptr;
    std::strtold(rest.c_str(), &end);
    const size_t size = size_t(end - rest.c_str());
    if ((size < rest.size() && is_word(rest[size])) ||
        !read_number(rest.substr(0, size), token_.number)) {
      return fail(at_, "invalid number", "write numbers as 18, -0.5 or 1e6");
    }
    token_.type = Token::Type::kNumber;
    token_.text = rest.substr(0, size);
    at_ += size;
    return {};
  }

  bool at_sign(std::string_view sign) const {
    return token_.type == Token::Type::kSign && token_.text == sign;
  }
  bool at_word(std::string_view word) const {
    return token_.type == Token::Type::kName && !token_.quoted && token_.text == word;
  }
  Result<void> expect(std::string_view sign, std::string_view why) {
    if (!at_sign(sign)) return fail(token_.begin, str("expected \"", sign, "\" ", why), "");
    return advance();
  }

  // ---- grammar
  Result<Kind> either() { return joined("||", Op::kOr, &ExpressionCompiler::both); }
  Result<Kind> both() { return joined("&&", Op::kAnd, &ExpressionCompiler::comparison); }

  Result<Kind> joined(std::string_view sign, Op op, Result<Kind> (ExpressionCompiler::*part)()) {
    const size_t begin = token_.begin;
    DP_TRY(const Kind kind, (this->*part)());
    std::vector<size_t> jumps;
    while (at_sign(sign)) {
      if (kind != Kind::kCondition) return wrong_side(begin, sign, kind);
      jumps.push_back(out_.steps_.size());
      add(op);
      DP_TRY_VOID(advance());
      const size_t right = token_.begin;
      DP_TRY(const Kind other, (this->*part)());
      if (other != Kind::kCondition) return wrong_side(right, sign, other);
    }
    for (const size_t jump : jumps) out_.steps_[jump].argument = uint32_t(out_.steps_.size());
    return kind;
  }

  Error wrong_side(size_t at, std::string_view sign, Kind kind) const {
    return fail(at, str(name_of(kind), " can't be an operand of ", sign),
                "compare the value first, as in age > 18");
  }

  Result<Kind> comparison() {
    const size_t begin = token_.begin;
    DP_TRY(const Kind left, sum());
    const bool negated = at_word("not");
    if (negated) {
      DP_TRY_VOID(advance());
      if (!at_word("in"))
        return fail(token_.begin, "expected \"in\" after \"not\"", "x not in (1, 2)");
    }
    if (at_word("in")) {
      DP_TRY_VOID(advance());
      DP_TRY_VOID(list(left, begin));
      if (negated) add(Op::kNot);
      return Kind::kCondition;
    }
    static constexpr std::string_view kSigns[] = {"==", "!=", "<", "<=", ">", ">="};
    const auto* const sign = std::find_if(std::begin(kSigns), std::end(kSigns),
                                          [&](std::string_view s) { return at_sign(s); });
    if (sign == std::end(kSigns)) return left;
    DP_TRY_VOID(advance());
    const size_t right_begin = token_.begin;
    DP_TRY(const Kind right, sum());
    if (left != right || left == Kind::kCondition) {
      return fail(left == Kind::kCondition ? begin : right_begin,
                  str(name_of(left), " can't be compared with ", name_of(right)),
                  "write numbers without quotes, and strings with quotes");
    }
    const auto first = left == Kind::kNumber ? Op::kEqual : Op::kTextEqual;
    add(Op(uint8_t(first) + uint8_t(sign - std::begin(kSigns))));
    return Kind::kCondition;
  }

  Result<void> list(Kind kind, size_t begin) {
    if (kind == Kind::kCondition) return fail(begin, "a condition can't be in a list", "");
    DP_TRY_VOID(expect("(", "after \"in\""));
    Expression::List list;
    list.begin = uint32_t(kind == Kind::kNumber ? out_.numbers_.size() : out_.texts_.size());
    for (;;) {
      const bool negative = kind == Kind::kNumber && at_sign("-");
      if (negative) DP_TRY_VOID(advance());
      if (kind == Kind::kNumber && token_.type == Token::Type::kNumber) {
        out_.numbers_.push_back(negative ? -token_.number : token_.number);
      } else if (kind == Kind::kText && token_.type == Token::Type::kText) {
        out_.texts_.push_back(token_.text);
      } else {
        return fail(token_.begin, str("expected ", name_of(kind), " in the list"), "");
      }
      DP_TRY_VOID(advance());
      if (!at_sign(",")) break;
      DP_TRY_VOID(advance());
    }
    DP_TRY_VOID(expect(")", "after the list"));
    list.end = uint32_t(kind == Kind::kNumber ? out_.numbers_.size() : out_.texts_.size());
    if (kind == Kind::kText) std::sort(out_.texts_.begin() + list.begin, out_.texts_.end());
    if (kind == Kind::kNumber) std::sort(out_.numbers_.begin() + list.begin, out_.numbers_.end());
    add(kind == Kind::kNumber ? Op::kInNumbers : Op::kInTexts, uint32_t(out_.lists_.size()));
    out_.lists_.push_back(list);
    return {};
  }

  struct Arithmetic {
    std::string_view sign;
    Op op;
  };
  Result<Kind> sum() {
    static constexpr Arithmetic kOps[] = {{"+", Op::kAdd}, {"-", Op::kSubtract}};
    return arithmetic(kOps, &ExpressionCompiler::product);
  }
  Result<Kind> product() {
    static constexpr Arithmetic kOps[] = {
        {"*", Op::kMultiply}, {"/", Op::kDivide}, {"%", Op::kRemainder}};
    return arithmetic(kOps, &ExpressionCompiler::unary);
  }
  Result<Kind> arithmetic(std::span<const Arithmetic> ops,
                          Result<Kind> (ExpressionCompiler::*part)()) {
    const size_t begin = token_.begin;
    DP_TRY(const Kind left, (this->*part)());
    for (;;) {
      const auto op = std::find_if(ops.begin(), ops.end(),
                                   [&](const Arithmetic& o) { return at_sign(o.sign); });
      if (op == ops.end()) return left;
      DP_TRY_VOID(advance());
      const size_t right_begin = token_.begin;
      DP_TRY(const Kind right, (this->*part)());
      if (left != Kind::kNumber || right != Kind::kNumber) {
        return fail(left != Kind::kNumber ? begin : right_begin,
                    str(op->sign, " needs numbers, but this is ",
                        name_of(left != Kind::kNumber ? left : right)),
                    "");
      }
      add(op->op);
    }
  }

  Result<Kind> unary() {
    if (!at_sign("!") && !at_sign("-")) return primary();
    const bool negate = at_sign("-");
    DP_TRY_VOID(deeper());
    DP_TRY_VOID(advance());
    const size_t begin = token_.begin;
    DP_TRY(const Kind kind, unary());
    --depth_;
    if (kind != (negate ? Kind::kNumber : Kind::kCondition)) {
      return fail(
          begin,
          str(negate ? "- needs a number" : "! needs a condition", ", but this is ", name_of(kind)),
          negate ? "" : "put the comparison in parentheses: !(a == 1)");
    }
    add(negate ? Op::kNegate : Op::kNot);
    return kind;
  }

  Result<Kind> primary() {
    switch (token_.type) {
      case Token::Type::kNumber:
        add(Op::kNumber, uint32_t(out_.numbers_.size()));
        out_.numbers_.push_back(token_.number);
        DP_TRY_VOID(advance());
        return Kind::kNumber;
      case Token::Type::kText:
        add(Op::kText, uint32_t(out_.texts_.size()));
        out_.texts_.push_back(token_.text);
        DP_TRY_VOID(advance());
        return Kind::kText;
      case Token::Type::kName:
        return named();
      case Token::Type::kSign:
        break;
      case Token::Type::kEnd:
        return fail(token_.begin, "unexpected end of the condition",
                    "expected a field, a number or a string");
    }
    if (!at_sign("(")) {
      return fail(token_.begin, str("unexpected \"", token_.text, "\""),
                  "expected a field, a number or a string");
    }
    DP_TRY_VOID(deeper());
    DP_TRY_VOID(advance());
    DP_TRY(const Kind kind, either());
    DP_TRY_VOID(expect(")", "for an open parenthesis"));
    --depth_;
    return kind;
  }

  Result<Kind> named() {
    const bool asks_missing = at_word("missing");
    const Token name = token_;
    DP_TRY_VOID(advance());
    if (asks_missing && at_sign("(")) {
      DP_TRY_VOID(advance());
      if (token_.type != Token::Type::kName)
        return fail(token_.begin, "expected a field", "missing(age)");
      DP_TRY(const uint32_t place, place_of(token_));
      add(Op::kMissing, place);
      DP_TRY_VOID(advance());
      DP_TRY_VOID(expect(")", "after the field"));
      return Kind::kCondition;
    }
    DP_TRY(const uint32_t place, place_of(name));
    add(Op::kField, place);
    return all_[out_.fields_[place]].is_text ? Kind::kText : Kind::kNumber;
  }

  /// Returns the index of the field among the named ones, and adds it if it is new.
  Result<uint32_t> place_of(const Token& name) {
    const auto field = std::find_if(all_.begin(), all_.end(),
                                    [&](const ExpressionField& f) { return f.name == name.text; });
    if (field == all_.end()) {
      std::string there;
      for (size_t i = 0; i < std::min<size_t>(all_.size(), 50); ++i)
        there += (i == 0 ? "" : ", ") + all_[i].name;
      return fail(name.begin, str("there is no field \"", name.text, "\""),
                  there.empty() ? "declare it in data.fields" : str("the fields are: ", there));
    }
    const auto index = uint32_t(field - all_.begin());
    const auto known = std::find(out_.fields_.begin(), out_.fields_.end(), index);
    if (known == out_.fields_.end()) {
      out_.fields_.push_back(index);
      return uint32_t(out_.fields_.size() - 1);
    }
    return uint32_t(known - out_.fields_.begin());
  }

  Result<void> deeper() {
    if (++depth_ > Expression::kDepthMax)
      return fail(token_.begin, "the condition is nested too deeply",
                  "at most 64 levels are allowed");
    return {};
  }
  void add(Op op, uint32_t argument = 0) { out_.steps_.push_back({op, argument}); }

  std::string_view text_;
  const std::vector<ExpressionField>& all_;
  size_t at_ = 0;
  Token token_;
  uint32_t depth_ = 0;
  Expression out_;
};

Result<Expression> Expression::compile(std::string_view text,
                                       const std::vector<ExpressionField>& fields) {
  return ExpressionCompiler(text, fields).compile();
}

}  // namespace downpour::data
