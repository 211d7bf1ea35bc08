// JSON lines: values found by their paths, and malformed lines.
#include <algorithm>

#include "shared/base/hash.h"
#include "shared/base/rng.h"
#include "shared/base/units.h"
#include "shared/data/formats/sniff.h"
#include "shared/data/values/fields.h"
#include "tests/shared/data/support.h"
#include "tests/support/memory_limit.h"

namespace downpour::data {
namespace {

using Catch::Contains;
using Catch::EndsWith;

std::shared_ptr<ReadPlan> json_plan(const std::string& path) {
  auto plan = plan_of(path, DataFormat::kJsonl);
  plan->data.fields = {
      {.name = "y"},
      {.name = "age", .path = "user.age"},
      {.name = "x", .shape = {2}, .fallback = "7"},
      {.name = "city", .path = "user.city", .type = FieldType::kString, .fallback = ""},
      {.name = "tags", .type = FieldType::kString, .shape = {-1}},
      {.name = "id", .type = FieldType::kInt64, .fallback = "0", .transform = {ops::Identity{}}}};
  plan->layout = {.floats = {{"y", 1}, {"age", 1}, {"x", 2}},
                  .bags = {{"city", 0}, {"tags", 0}, {"id", 0}},
                  .tables = {TableId(0)}};
  return plan;
}

uint64_t key_of(const std::string& field, const std::string& text) {
  return hash_combine(hash_string(field), hash_string(text));
}

TEST_CASE("JSON lines: reads nested members in any order, among members that no field reads",
          "[data]") {
  const ScratchDir dir;
  const std::string path =
      dir.write("f.jsonl",
                "{\"y\": 1, \"user\": {\"age\": 40, \"city\": \"Z\\u00fcrich\"}, \"x\": [1.5, "
                "-2e3], \"tags\": [\"a\", \"b\"], \"id\": 5}\r\n"
                "\n"
                "{\"other\": {\"age\": [1, {}]}, \"tags\": [], \"user\": {\"city\": null, \"age\": "
                "0.25}, \"y\": false, \"id\": 3.0}\n"
                "{\"y\": 0, \"y\": 2, \"user\": {\"age\": 1}}");
  const ShardRead read = read_file(json_plan(path)).value();
  CHECK(read.floats ==
        std::vector<std::vector<float>>{{1, 40, 1.5F, -2000}, {0, 0.25F, 7, 7}, {2, 1, 7, 7}});
  CHECK(read.keys[0] ==
        std::vector<std::vector<uint64_t>>{
            {key_of("city", "Z\xc3\xbcrich")}, {key_of("tags", "a"), key_of("tags", "b")}, {5}});
  CHECK(read.keys[1] == std::vector<std::vector<uint64_t>>{{key_of("city", "")}, {}, {3}});
  // Each line is read once for any cuts.
  auto plan = json_plan(path);
  for (uint64_t target = 1; target < 300; target += 7) {
    size_t records = 0;
    for (const plan::ShardRange& range : plan::cut_shards(plan->files, target))
      records += read_shard(plan, range).value().floats.size();
    CHECK(records == 3);
  }
}

TEST_CASE("JSON lines: arrays in arrays have the shape of their field", "[data]") {
  const ScratchDir dir;
  const auto read_of = [&](const std::string& value) {
    auto plan = plan_of(dir.write("f", "{\"m\": " + value + "}\n"), DataFormat::kJsonl);
    plan->data.fields = {{.name = "m", .shape = {2, 2}}};
    plan->layout = {.floats = {{"m", 4}}};
    return read_file(plan);
  };
  const std::vector<std::vector<float>> wanted = {{1, 2, 3, 4}};
  CHECK(read_of("[[1, 2], [3, 4]]").value().floats == wanted);
  CHECK(read_of("[1, 2, 3, 4]").value().floats == wanted);
  for (const char* other : {"[[1, 2, 3], [4]]", "[[1, 2, 3, 4]]", "[[], [1, 2], [3, 4]]"})
    CHECK_THAT(read_of(other).error().what, Contains("inner array of another length"));
}

TEST_CASE("JSON lines: a number may be the text of a class", "[data]") {
  const ScratchDir dir;
  auto plan =
      plan_of(dir.write("f", "{\"s\": 3}\n{\"s\": \"4\"}\n{\"s\": 3.0}\n"), DataFormat::kJsonl);
  plan->data.fields = {{.name = "s", .type = FieldType::kString, .classes = {"4", "3"}}};
  plan->layout = {.floats = {{"s", 1}}};
  CHECK(read_file(plan).value().floats == std::vector<std::vector<float>>{{1}, {0}, {1}});
}

TEST_CASE("JSON lines: a name may contain a dot, and two fields may read one member", "[data]") {
  const ScratchDir dir;
  auto plan = plan_of(dir.write("f", "{\"a.b\": 3, \"c\": \"5\"}\n"), DataFormat::kJsonl);
  plan->data.fields = {
      {.name = "a.b"},
      {.name = "key", .path = "a.b", .type = FieldType::kInt64, .transform = {ops::Identity{}}}};
  plan->layout = {.floats = {{"a.b", 1}}, .bags = {{"key", 0}}, .tables = {TableId(0)}};
  const ShardRead read = read_file(plan).value();
  CHECK(read.floats == std::vector<std::vector<float>>{{3}});
  CHECK(read.keys == std::vector<std::vector<std::vector<uint64_t>>>{{{3}}});
}

TEST_CASE("the text of a number is compared exactly with the numbers that mean missing values",
          "[data]") {
  DataSpec data;
  data.missing = {"16777217", "-999", "9007199254740993", "+0.5", "2nd"};
  const MissingMarks marks(data);
  for (const std::string_view same :
       {"16777217", "1.6777217e7", "-999.0", "9007199254740993", "0.5"})
    CHECK(marks.matches_number(same));
  for (const std::string_view other : {"16777216", "-999.5", "9007199254740992", "2", "nan", ""})
    CHECK_FALSE(marks.matches_number(other));
}

TEST_CASE("JSON lines: a filter sees texts, numbers and missing values", "[data]") {
  const ScratchDir dir;
  auto plan = json_plan(
      dir.write("f",
                "{\"y\": 1, \"user\": {\"age\": 40, \"city\": \"Oslo\"}}\n"
                "{\"y\": \"bad, but dropped\", \"user\": {\"age\": 4, \"city\": \"Oslo\"}}\n"
                "{\"y\": 1, \"user\": {\"age\": 30}}\n"));
  plan->data.filter = "age > 18 && city == 'Oslo'";
  const ShardRead read = read_file(plan).value();
  CHECK(read.floats.size() == 1);
  CHECK(read.totals.counts == ReadCounts{.read = 3, .filtered = 2});
}

TEST_CASE("JSON lines: an empty text and a mark of data.missing have a value in a filter",
          "[data]") {
  const ScratchDir dir;
  auto plan = json_plan(dir.write("f",
                                  "{\"y\": 1, \"user\": {\"age\": 40, \"city\": \"\"}}\n"
                                  "{\"y\": 1, \"user\": {\"age\": 41, \"city\": \"NA\"}}\n"
                                  "{\"y\": 1, \"user\": {\"age\": 42, \"city\": null}}\n"));
  plan->data.missing = {"NA"};
  plan->data.fields[3].fallback = "none";
  for (const char* one : {"city == ''", "city == 'NA'", "missing(city)"}) {
    CAPTURE(one);
    plan->data.filter = one;
    CHECK(read_file(plan).value().floats.size() == 1);
  }
}

TEST_CASE("JSON lines: the error for each kind of bad line names the file and the line", "[data]") {
  const ScratchDir dir;
  const std::string good = "{\"y\": 1, \"user\": {\"age\": 1}}\n";
  const auto what = [&](const std::string& line) {
    auto plan = json_plan(dir.write("f", good + line + "\n" + good));
    const Error error = error_of(plan);
    CHECK(error.code == ErrorCode::kBadData);
    CHECK_THAT(error.where, EndsWith("/f:2"));
    plan->data.bad_records = BadRecords::kSkip;
    CHECK(read_file(plan).value().totals.counts == ReadCounts{.read = 3, .skipped = 1});
    return error.what;
  };
  CHECK_THAT(what("[1]"), Contains("is not a JSON object"));
  CHECK_THAT(what("{\"y\": 1"), Contains("is not a JSON object"));
  CHECK_THAT(what("{\"y\": 1, \"user\": {\"age\": 1}} {}"), Contains("after its JSON object"));
  CHECK_THAT(what("{\"y\": 1, \"user\": {\"age\": 1}, \"tags\": [\"\xff\"]}"), Contains("UTF-8"));
  CHECK_THAT(what("{\"y\": \"1\", \"user\": {\"age\": 1}}"),
             Contains("field y") && Contains("is a string, but the field is declared float32"));
  CHECK_THAT(what("{\"y\": 1e999, \"user\": {\"age\": 1}}"), Contains("number"));
  CHECK_THAT(what("{\"y\": 1e300, \"user\": {\"age\": 1}}"),
             Contains("field y") && Contains("finite"));
  CHECK_THAT(what("{\"y\": {}, \"user\": {\"age\": 1}}"), Contains("field y"));
  CHECK_THAT(what("{\"y\": 1}"), Contains("field age is missing"));
  CHECK_THAT(what("{\"y\": 1, \"user\": {\"age\": 1}, \"x\": [1]}"), Contains("fewer values"));
  CHECK_THAT(what("{\"y\": 1, \"user\": {\"age\": 1}, \"id\": 3.5}"),
             Contains("\"3.5\" is not an integer"));
  CHECK_THAT(what("{\"y\": 1, \"user\": {\"age\": 1}, \"id\": -3}"),
             Contains("is not a non-negative integer"));
  CHECK_THAT(what("{\"y\": 1, \"user\": {\"age\": 1}, \"x\": " + std::string(5000, '[') + "}"),
             Contains("JSON") || Contains("deep"));
}

TEST_CASE("JSON lines: a line of any bytes is read or counted as bad", "[data]") {
  const ScratchDir dir;
  const std::string line =
      "{\"y\": 1, \"user\": {\"age\": 40, \"city\": \"Oslo\"}, \"x\": [1.5, -2e3], \"tags\": "
      "[\"a\", \"b\"], \"id\": 5}";
  std::string text;
  size_t lines = 0;
  Rng rng(9);
  for (size_t at = 0; at < line.size(); ++at) {
    for (int turn = 0; turn < 6; ++turn) {
      std::string bad = line;
      bad[at] = char(rng.below(256));
      if (turn == 0) bad.resize(at);
      if (turn == 1) bad.insert(at, line.substr(rng.below(line.size())));
      std::replace(bad.begin(), bad.end(), '\n', ' ');
      if (bad.find_first_not_of(" \t\r") == std::string::npos) continue;
      text += bad + "\n";
      ++lines;
    }
  }
  auto plan = json_plan(dir.write("f", text));
  plan->data.bad_records = BadRecords::kSkip;
  const ShardRead read = read_file(plan).value();
  CHECK(read.totals.counts.read == lines);
  CHECK(read.totals.counts.skipped + read.floats.size() == lines);
}

TEST_CASE("sniff: detects JSON lines by their braces, and fields by their values", "[data]") {
  const ScratchDir dir;
  std::string text;
  for (int i = 0; i < 100; ++i) {
    text += str("{\"label\": ", i % 2, ", \"user\": {\"age\": ", 20 + i % 50, "}, \"country\": \"",
                i % 3 == 0 ? "NO" : "CH", "\", \"v\": [1, 2], \"tags\": [\"t", i % 7,
                "\"], \"odd\": [{}]}\n");
  }
  const std::string path = dir.write("f.jsonl.zst", zstd_compressed(text));
  const FileFacts facts = sniff(path).value();
  CHECK(facts.format == DataFormat::kJsonl);
  CHECK(facts.target == "label");
  CHECK(facts.classes == 2);
  CHECK_THAT(facts.reason, Contains("ignored: odd"));
  auto plan = plan_of(path, DataFormat::kJsonl);
  plan->data.fields = facts.fields;
  plan->layout = {.floats = {{"label", 1}, {"user.age", 1}, {"v", 2}},
                  .bags = {{"country", 0}, {"tags", 0}},
                  .tables = {TableId(0)}};
  CHECK(read_file(plan).value().totals.counts == ReadCounts{.read = 100});
}

TEST_CASE("sniff: ids of JSON lines are keys, and long texts are bags of words", "[data]") {
  const ScratchDir dir;
  std::string text;
  for (int i = 0; i < 100; ++i) {
    text += str("{\"label\": ", i % 2, ", \"user_id\": ", 7 + i % 20, i % 3 == 0 ? ".0" : "",
                ", \"note\": \"it was thing number ", i, " of all\"}\n");
  }
  const std::string path = dir.write("f.jsonl", text);
  auto plan = plan_of(path, DataFormat::kJsonl);
  plan->data.fields = sniff(path).value().fields;
  plan->layout = {
      .floats = {{"label", 1}}, .bags = {{"user_id", 0}, {"note", 0}}, .tables = {TableId(0)}};
  const ShardRead read = read_file(plan).value();
  CHECK(read.totals.counts == ReadCounts{.read = 100});
  CHECK(read.keys[0][0] == std::vector<uint64_t>{key_of("user_id", "7")});
  CHECK(read.keys[20][0] == read.keys[0][0]);
  REQUIRE(read.keys[5][1].size() == 7);
  CHECK(read.keys[5][1][4] == key_of("note", "5"));
}

TEST_CASE("several fields that read one member get all of its values", "[data]") {
  const ScratchDir dir;
  auto plan = plan_of(dir.write("f.jsonl",
                                "{\"y\": 1, \"v\": [1, 2.0, [3]]}\n{\"v\": [4, 5, 6], \"y\": 0}\n"
                                "{\"y\": 1, \"v\": [1, 2]}\n{\"y\": 1, \"v\": [1, 2, 2.5]}\n"),
                      DataFormat::kJsonl);
  plan->data.fields = {{.name = "y"},
                       {.name = "numbers", .path = "v", .shape = {3}},
                       {.name = "keys",
                        .path = "v",
                        .type = FieldType::kInt64,
                        .shape = {-1},
                        .transform = {ops::Identity{}}}};
  plan->layout = {
      .floats = {{"y", 1}, {"numbers", 3}}, .bags = {{"keys", 0}}, .tables = {TableId(0)}};
  plan->data.bad_records = BadRecords::kSkip;
  const ShardRead read = read_file(plan).value();
  CHECK(read.floats == std::vector<std::vector<float>>{{1, 1, 2, 3}, {0, 4, 5, 6}});
  using KeyLists = std::vector<std::vector<uint64_t>>;
  CHECK(read.keys[0] == KeyLists{{1, 2, 3}});
  CHECK(read.keys[1] == KeyLists{{4, 5, 6}});
  CHECK(read.totals.counts.skipped ==
        2);  // a list that is too short, and one with a value that is not an integer
}

TEST_CASE("a JSON line of 15 MB needs at most 256 MiB of memory for any content", "[data]") {
  const auto line = [](std::string_view piece) {
    std::string text = "{\"y\": 1, \"v\": [";
    while (text.size() < 15'000'000) text += piece;
    return text.substr(0, text.size() - 1) + "]}\n";
  };
  const ScratchDir dir;
  const auto reads = [&](const std::string& path) {
    auto plan = plan_of(path, DataFormat::kJsonl);
    plan->data.fields = {{.name = "y"},
                         {.name = "a", .path = "v", .shape = {3}},
                         {.name = "b", .path = "v", .shape = {4}}};
    plan->layout = {.floats = {{"y", 1}, {"a", 3}, {"b", 4}}};
    plan->data.bad_records = BadRecords::kSkip;
    const auto read = read_file(plan);
    return read && read->totals.counts.skipped == 1;
  };
  for (const std::string_view piece : {"1,", "[],", "[1],", "[", "{},", "\"\","}) {
    INFO(piece);
    const std::string path = dir.write("f.jsonl", line(piece));
    CHECK(testing::fits_in_memory(256 * kMiB, [&] { return reads(path); }));
    CHECK(testing::fits_in_memory(256 * kMiB, [&] {
      const auto facts = sniff(path);
      return !facts && facts.error().code == ErrorCode::kBadData;
    }));
  }
}

TEST_CASE("JSON lines: a number may have more digits than a double holds", "[data]") {
  const ScratchDir dir;
  const std::vector<std::string> numbers = {
      "1700000008.5650000572",      "1.00000000000000000005",
      "-0.12345678901234567890123", "18446744073709551615",
      "-9223372036854775808",       "1.7976931348623157000e+30",
      "1.0000000000000000e-400",    "0.00000000000000000000000000000000000012345"};
  std::string lines;
  for (const std::string& number : numbers) lines += str("{\"x\": ", number, "}\n");
  auto plan = plan_of(dir.write("f", lines), DataFormat::kJsonl);
  plan->data.fields = {{.name = "x"}};
  plan->layout = {.floats = {{"x", 1}}};
  const ShardRead read = read_file(plan).value();
  REQUIRE(read.floats.size() == numbers.size());
  for (size_t i = 0; i < numbers.size(); ++i)
    CHECK(read.floats[i][0] == float(std::strtod(numbers[i].c_str(), nullptr)));
  for (const char* wrong :
       {"01234567890123456789012", "18446744073709551616", "-9223372036854775809",
        "123456789012345678901234", "1.0000000000000000e+400", "1234567890123456789012.",
        "--1234567890123456789", "12345678901234567890x12", "1.e12345678901234567890"}) {
    plan->files =
        list_files({}, {.paths = {dir.write("g", str("{\"x\": ", wrong, "}\n"))}}, "/").value();
    CHECK_FALSE(read_file(plan));
  }
}

TEST_CASE("JSON lines: an id above the largest int64 has the key of its digits", "[data]") {
  const ScratchDir dir;
  auto plan = plan_of(dir.write("f.jsonl",
                                "{\"id\": 18446744073709551615, \"x\": 1e19}\n"
                                "{\"id\": \"18446744073709551615\", \"x\": "
                                "18446744073709551615}\n"),
                      DataFormat::kJsonl);
  plan->data.fields = {
      {.name = "id", .type = FieldType::kString, .transform = {ops::Hash{.integers = true}}},
      {.name = "x"}};
  plan->layout = {.floats = {{"x", 1}}, .bags = {{"id", 0}}, .tables = {TableId(0)}};
  const ShardRead read = read_file(plan).value();
  CHECK(read.keys[0][0] == std::vector<uint64_t>{key_of("id", "18446744073709551615")});
  CHECK(read.keys[1] == read.keys[0]);
  CHECK(read.floats == std::vector<std::vector<float>>{{1e19F}, {18446744073709551615.0F}});
}

}  // namespace
}  // namespace downpour::data
