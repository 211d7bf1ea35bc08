#include "shared/data/values/expression.h"

#include <cmath>
#include <map>
#include <string>

#include <catch2/catch.hpp>

#include "shared/base/rng.h"

namespace downpour::data {
namespace {

const std::vector<ExpressionField> kFields = {
    {"age"}, {"score"}, {"id"}, {"country", true}, {"user name", true}, {"not", true}};

struct Record {
  std::map<std::string, long double> numbers;
  std::map<std::string, std::string> texts;
};
const Record kRecord = {{{"age", 30}, {"score", -0.5L}, {"id", 9007199254740993.0L}},
                        {{"country", "NO"}, {"user name", "o'neil"}, {"not", "x"}}};

Verdict judge(const std::string& text, const Record& record = kRecord) {
  INFO(text);
  const Result<Expression> expression = Expression::compile(text, kFields);
  REQUIRE(expression.has_value());
  std::vector<ExpressionValue> values;
  for (const uint32_t field : expression->fields()) {
    ExpressionValue value{.missing = true};
    const std::string& name = kFields[field].name;
    if (const auto number = record.numbers.find(name); number != record.numbers.end())
      value = {.number = number->second};
    if (const auto found = record.texts.find(name); found != record.texts.end())
      value = {.text = found->second};
    values.push_back(value);
  }
  return expression->judge(values);
}

Error error_of(const std::string& text) {
  INFO(text);
  Result<Expression> expression = Expression::compile(text, kFields);
  REQUIRE_FALSE(expression.has_value());
  CHECK(expression.error().where == "data.filter");
  return expression.error();
}

TEST_CASE("a condition keeps the records for which it is true", "[data][expression]") {
  for (const char* const kept : {
           "age >= 18",
           "age>=18&&country!='XX'",
           "country == \"NO\"",
           "`user name` == 'o\\'neil'",
           "`not` == 'x'",
           "age in (18, 30, 65)",
           "score in (-0.5)",
           "country not in ('XX', 'YY')",
           "country in ('SE', 'NO')",
           "!(age < 18)",
           "!!(age == 30)",
           "age < 18 || country == 'NO' && score < 0",
           "(age < 18 || country == 'NO') && score < 0",
           "age % 7 == 2",
           "age / 4 == 7.5",
           "-score * 2 + 1 == 2",
           "2 - 1 - 1 == 0",
           "age - -1 == 31",
           "country < 'NZ'",
           "id == 9007199254740993",
           "1e1 == 10",
           "0.1 * 10 == 1",
           "0.1 + 0.2 == 0.30000000000000004",
           "1 / 3 == 0.333333333333333314829616256247",
           "id + 1 == 9007199254740994",
           "id - 1 == 9007199254740992",
       }) {
    CHECK(judge(kept) == Verdict::kKeep);
  }
  for (const char* const dropped : {
           "age < 18",
           "country == 'no'",
           "age in (18, 65)",
           "country not in ('NO')",
           "id == 9007199254740992",
           "country >= 'NZ'",
           "age == 30 && score > 0",
           "age / 0 == 1",
       }) {
    CHECK(judge(dropped) == Verdict::kDrop);
  }
}

TEST_CASE("every comparison with NaN is false, also !=", "[data][expression]") {
  const Record record = {{{"age", NAN}}, {}};
  for (const char* const text : {"age == 0", "age != 0", "age < 0", "age >= 0", "age in (1, 2)"})
    CHECK(judge(text, record) == Verdict::kDrop);
  CHECK(judge("age % 0 != 1") == Verdict::kDrop);
}

TEST_CASE("a missing value matters only if the condition needs it", "[data][expression]") {
  const Record record = {{{"score", 1}}, {}};
  CHECK(judge("age > 1", record) == Verdict::kMissing);
  CHECK(judge("missing(age) || age > 1", record) == Verdict::kKeep);
  CHECK(judge("!missing(age) && age > 1", record) == Verdict::kDrop);
  CHECK(judge("score == 1 || country == 'NO'", record) == Verdict::kKeep);
  CHECK(judge("score == 1 && country == 'NO'", record) == Verdict::kMissing);
  CHECK(judge("missing(`user name`)", record) == Verdict::kKeep);
}

TEST_CASE("the error for an invalid condition names the column", "[data][expression]") {
  const std::pair<const char*, const char*> cases[] = {
      {"", "column 1: unexpected end of the condition"},
      {"age", "is a number, not a condition"},
      {"'x'", "is a string, not a condition"},
      {"age >", "column 6: unexpected end of the condition"},
      {"age == 'x'", "column 8: a number can't be compared with a string"},
      {"country == 3", "column 12: a string can't be compared with a number"},
      {"(age == 1) == (age == 2)", "column 1: a condition can't be compared with a condition"},
      {"age = 3", "column 5: unexpected \"=\""},
      {"age == 3 & score == 1", "column 10: unexpected \"&\""},
      {"age && score == 1", "column 1: a number can't be an operand of &&"},
      {"age == 1 || country", "column 13: a string can't be an operand of ||"},
      {"!age", "column 2: ! needs a condition, but this is a number"},
      {"-country == 'x'", "column 2: - needs a number, but this is a string"},
      {"country + 1 == 2", "column 1: + needs numbers, but this is a string"},
      {"agee == 1", "there is no field \"agee\""},
      {"age in ()", "expected a number in the list"},
      {"age in (1, 'x')", "expected a number in the list"},
      {"age in 1", "expected \"(\" after \"in\""},
      {"age not (1)", "expected \"in\" after \"not\""},
      {"missing(3)", "expected a field"},
      {"(age == 1", "expected \")\""},
      {"age == 1)", "unexpected \")\""},
      {"age == 1 age", "unexpected \"age\""},
      {"country == 'NO", "column 12: a quote is not closed"},
      {"age == 1x", "invalid number"},
      {"age == 1e9999", "invalid number"},
      {"age < 1 < 2", "unexpected \"<\""},
      {"age == #", "unexpected \"#\""},
  };
  for (const auto& [text, what] : cases) {
    const std::string found = error_of(text).what;
    INFO(found);
    CHECK(found.find(what) != std::string::npos);
  }
  CHECK(error_of("agee == 1").hint.find("age, score") != std::string::npos);
  CHECK(error_of("age = 3").hint == "write \"==\"");
}

TEST_CASE("the depth and the length of a condition are limited", "[data][expression]") {
  const auto nested = [](size_t levels) {
    return std::string(levels, '(') + "age == 30" + std::string(levels, ')');
  };
  CHECK(judge(nested(64)) == Verdict::kKeep);
  CHECK(error_of(nested(65)).what.find("nested too deeply") != std::string::npos);
  CHECK(error_of(std::string(100, '!') + "(age == 30)").what.find("nested") != std::string::npos);
  CHECK(error_of(std::string(65 * 1024, ' ')).what.find("64 KiB") != std::string::npos);
  // The deepest stack that the grammar allows: each level keeps one operand of every operator.
  std::string text = "age == 30";
  for (int i = 0; i < 63; ++i)
    text = "age == 31 || age == 30 && 1 == 1 + 0 * (" + std::to_string(i) + ") && (" + text + ")";
  CHECK(judge(text) == Verdict::kKeep);
  std::string chain = "age == 30";
  for (int i = 0; i < 3000; ++i) chain += i % 2 == 0 ? " && age > 1" : " || age < 1";
  CHECK(judge(chain) == Verdict::kKeep);
}

TEST_CASE("any text compiles or is rejected", "[data][expression]") {
  const char* const parts[] = {"age", "score", "country", "'x'", "1",  "-",  "(",   ")",
                               "&&",  "||",    "!",       "==",  "<",  "in", "not", ",",
                               "+",   "%",     "missing", "`",   "\"", " ",  "\xff"};
  Rng rng(7);
  size_t compiled = 0;
  for (int i = 0; i < 200'000; ++i) {
    std::string text;
    for (uint64_t n = rng.below(12) + 1; n > 0; --n) text += parts[rng.below(std::size(parts))];
    const Result<Expression> expression = Expression::compile(text, kFields);
    if (!expression) continue;
    ++compiled;
    std::vector<ExpressionValue> values;
    for (const uint32_t field : expression->fields())
      values.push_back(
          {.number = 1, .text = "x", .missing = rng.below(4) == 0 && !kFields[field].is_text});
    (void)expression->judge(values);
  }
  CHECK(compiled > 50);
}

}  // namespace
}  // namespace downpour::data
