// Ops that need several values of a record: lists, crosses and random ops; also words of texts.
#include "shared/data/values/record_stage.h"

#include <cmath>

#include "shared/base/hash.h"
#include "tests/shared/data/values/transform_support.h"

namespace downpour::data {
namespace {

using Catch::Contains;

uint64_t hashed(const std::string& text) {
  return hash_combine(hash_string("x"), hash_string(text));
}

TEST_CASE("tokens: splits words at separators, converts them to lower case, and forms n-grams",
          "[data][transform]") {
  FieldSpec field{
      .name = "x",
      .type = FieldType::kString,
      .transform = {ops::Tokens{.separators = " ,.!", .lower = true, .ngrams = 2}, ops::Hash{}}};
  CHECK(keys_of<const char*>({"Hello, World!", "a", "A b  c"}, field) ==
        Keys{{hashed("hello"), hashed("world"), hashed("hello world")},
             {hashed("a")},
             {hashed("a"), hashed("b"), hashed("a b"), hashed("c"), hashed("b c")}});
  // Without options, words are split at blanks and keep their case. A vocabulary may have n-grams.
  field.transform = {ops::Tokens{.ngrams = 2}, ops::Vocabulary{.words = {"new", "york", "new york"},
                                                               .unknown = UnknownWord::kDrop}};
  CHECK(keys_of<const char*>({"in new york", "New"}, field) == Keys{{0, 1, 2}, {}});
}

TEST_CASE("tokens: a missing text has no words, or those of the default", "[data][transform]") {
  const ScratchDir dir;
  auto plan = plan_of(dir.write("f", "\t1\na b\t2\n"), DataFormat::kTsv);
  plan->data.columns = {"x", "y"};
  plan->data.fields = {{.name = "x", .type = FieldType::kString, .transform = {ops::Tokens{}}}};
  plan->layout = {.bags = {{"x", 0}}, .tables = {TableId(0)}};
  CHECK(read_file(plan).value().keys[0][0].empty());
  plan->data.fields[0].fallback = "none at";
  CHECK(read_file(plan).value().keys[0][0] == std::vector<uint64_t>{hashed("none"), hashed("at")});
}

/// Returns lists of numbers after the ops. Checks that a table and JSON give the same.
std::vector<std::vector<float>> lists_of(const std::vector<TransformSpec>& ops, uint32_t width,
                                         const std::optional<std::string>& fallback = {}) {
  const ScratchDir dir;
  const std::pair<DataFormat, std::string> files[] = {
      {DataFormat::kTsv, "1 2 3\n4\n \n5 -6 7 8 9\n"},
      {DataFormat::kJsonl, "{\"x\":[1,2,3]}\n{\"x\":[4]}\n{\"x\":[]}\n{\"x\":[5,-6,7,8,9]}\n"}};
  std::optional<std::vector<std::vector<float>>> all;
  for (const auto& [format, text] : files) {
    auto plan = x_plan(dir.write("f", text), format,
                       {.name = "x", .shape = {-1}, .fallback = fallback, .transform = ops}, false);
    plan->layout.floats = {{"x", width}};
    auto read = read_file(plan);
    if (!read) FAIL(read.error().what);
    if (all) CHECK(*all == read->floats);
    all = read->floats;
  }
  return *all;
}
using Lists = std::vector<std::vector<float>>;

TEST_CASE("lists of numbers are padded and truncated to one length, at either end",
          "[data][transform]") {
  CHECK(lists_of({ops::Pad{.length = 3, .value = -1}}, 3) ==
        Lists{{1, 2, 3}, {4, -1, -1}, {-1, -1, -1}, {5, -6, 7}});
  CHECK(lists_of({ops::Pad{.length = 2, .keep = "last"}}, 2) ==
        Lists{{2, 3}, {4, 0}, {0, 0}, {8, 9}});
  CHECK(lists_of({ops::Truncate{.length = 2}, ops::Pool{.how = "sum"}}, 1) ==
        Lists{{3}, {4}, {0}, {-1}});
}

TEST_CASE("an empty list has the default as its only value", "[data][transform]") {
  CHECK(lists_of({ops::Pad{.length = 2, .value = -1}}, 2, "0") ==
        Lists{{1, 2}, {4, -1}, {0, -1}, {5, -6}});
  CHECK(lists_of({ops::Pool{.how = "min"}}, 1, "7") == Lists{{1}, {4}, {7}, {-6}});
  const auto error_of = [](FieldSpec field, bool keys) {
    const ScratchDir dir;
    field.name = "x", field.shape = {-1}, field.fallback = "0";
    const auto plan = x_plan(dir.write("f", "1 2\n"), DataFormat::kTsv, field, keys);
    if (!keys) plan->layout.floats = {{"x", 1}};
    return read_file(plan).error();
  };
  CHECK_THAT(error_of({.transform = {ops::Pool{.how = "count"}}}, false).what,
             Contains("counts its values, so its `default` would count as a value"));
  CHECK_THAT(error_of({.type = FieldType::kInt64, .transform = {ops::Identity{}}}, true).what,
             Contains("is a list of keys, but has default = \"0\""));
}

TEST_CASE("lists of numbers are pooled, with other ops before and after", "[data][transform]") {
  const auto pooled = [](const char* how) { return lists_of({ops::Pool{.how = how}}, 1); };
  CHECK(pooled("mean") == Lists{{2}, {4}, {0}, {4.6F}});
  CHECK(pooled("max") == Lists{{3}, {4}, {0}, {9}});
  CHECK(pooled("min") == Lists{{1}, {4}, {0}, {-6}});
  CHECK(pooled("first") == Lists{{1}, {4}, {0}, {5}});
  CHECK(pooled("last") == Lists{{3}, {4}, {0}, {9}});
  CHECK(pooled("count") == Lists{{3}, {1}, {0}, {5}});
  CHECK(lists_of({ops::Clip{.min = 2.0}, ops::Pool{.how = "min"},
                  ops::Standardize{.mean = 2, .scale = 0.5}},
                 1) == Lists{{0}, {4}, {-4}, {0}});
  CHECK(lists_of({ops::Pool{}}, 1, "7") == Lists{{2}, {4}, {7}, {4.6F}});
}

TEST_CASE("bags of keys are truncated", "[data][transform]") {
  const FieldSpec field{
      .name = "x",
      .type = FieldType::kString,
      .transform = {ops::Tokens{}, ops::Hash{}, ops::Truncate{.length = 2, .keep = "last"}}};
  CHECK(keys_of<const char*>({"a b c", "d"}, field) ==
        Keys{{hashed("b"), hashed("c")}, {hashed("d")}});
}

std::shared_ptr<ReadPlan> cross_plan(const std::string& path, DataFormat format) {
  auto plan = plan_of(path, format);
  if (format == DataFormat::kTsv) plan->data.columns = {"city", "age", "tags"};
  plan->data.fields = {
      {.name = "city", .type = FieldType::kString, .transform = {ops::Hash{}}},
      {.name = "age", .transform = {ops::Bucketize{.boundaries = {18, 65}}}},
      {.name = "tags", .type = FieldType::kString, .transform = {ops::Tokens{}}},
      {.name = "ca", .transform = {ops::Cross{.buckets = 1000, .fields = {"city", "age"}}}},
      {.name = "ct", .transform = {ops::Cross{.fields = {"age", "tags"}}}}};
  return plan;
}

TEST_CASE("a cross has a key for each combination of the keys of its fields, which need no layer",
          "[data][transform]") {
  const ScratchDir dir;
  const auto cross = [](const char* name, uint64_t a, uint64_t b) {
    return hash_combine(hash_combine(hash_string(name), a), b);
  };
  const uint64_t rome = hash_combine(hash_string("city"), hash_string("rome"));
  const auto tag = [](const char* text) {
    return hash_combine(hash_string("tags"), hash_string(text));
  };
  const std::pair<DataFormat, std::string> files[] = {
      {DataFormat::kTsv, "rome\t20\tu v\nrome\t3\t\n"},
      {DataFormat::kJsonl,
       "{\"city\":\"rome\",\"age\":20,\"tags\":\"u v\"}\n{\"tags\":\"\",\"age\":3,\"city\":"
       "\"rome\"}\n"}};
  for (const auto& [format, text] : files) {
    auto plan = cross_plan(dir.write("f", text), format);
    plan->layout = {.bags = {{"ca", 0}, {"ct", 0}}, .tables = {TableId(0)}};
    const ShardRead read = read_file(plan).value();
    CHECK(read.keys[0][0] == std::vector<uint64_t>{cross("ca", rome, 1) % 1000});
    CHECK(read.keys[0][1] ==
          std::vector<uint64_t>{cross("ct", 1, tag("u")), cross("ct", 1, tag("v"))});
    CHECK(read.keys[1][0] == std::vector<uint64_t>{cross("ca", rome, 0) % 1000});
    CHECK(read.keys[1][1].empty());
    // The same if a layer also reads one of its fields.
    plan->layout.bags = {{"city", 0}, {"ca", 0}};
    const ShardRead both = read_file(plan).value();
    CHECK(both.keys[0] ==
          std::vector<std::vector<uint64_t>>{{rome}, {cross("ca", rome, 1) % 1000}});
  }
}

TEST_CASE("a cross with too many keys is a bad record", "[data][transform]") {
  const ScratchDir dir;
  std::string words;
  for (int i = 0; i < 300; ++i) words += str("w", i, " ");
  auto plan = plan_of(dir.write("f", words + "\t" + words + "\n"), DataFormat::kTsv);
  plan->data.columns = {"a", "b"};
  plan->data.fields = {{.name = "a", .type = FieldType::kString, .transform = {ops::Tokens{}}},
                       {.name = "b", .type = FieldType::kString, .transform = {ops::Tokens{}}},
                       {.name = "ab", .transform = {ops::Cross{.fields = {"a", "b"}}}}};
  plan->layout = {.bags = {{"ab", 0}}, .tables = {TableId(0)}};
  CHECK_THAT(error_of(plan).what, Contains("gives more than 65536 keys in one record"));
}

std::shared_ptr<ReadPlan> random_plan(const std::string& path) {
  auto plan = plan_of(path, DataFormat::kTsv);
  plan->data.columns = {"a", "b", "c"};
  plan->data.fields = {{.name = "a", .transform = {ops::Noise{.stddev = 0.5}}},
                       {.name = "b", .transform = {ops::Dropout{.rate = 0.25}}},
                       {.name = "c",
                        .type = FieldType::kString,
                        .transform = {ops::Tokens{}, ops::Hash{}, ops::Crop{.length = 2}}}};
  plan->layout = {.floats = {{"a", 1}, {"b", 1}}, .bags = {{"c", 0}}, .tables = {TableId(0)}};
  return plan;
}

TEST_CASE("random ops: the same for a record within an epoch, for any cuts", "[data][transform]") {
  const ScratchDir dir;
  std::string text;
  for (int i = 0; i < 4000; ++i) text += "0\t1\tp q r s\n";
  auto plan = random_plan(dir.write("f", text));
  const ShardRead whole = read_file(plan).value();
  std::vector<std::vector<float>> pieces;
  std::vector<std::vector<std::vector<uint64_t>>> keys;
  for (const plan::ShardRange& range : plan::cut_shards(plan->files, 5000)) {
    const ShardRead part = read_shard(plan, range).value();
    pieces.insert(pieces.end(), part.floats.begin(), part.floats.end());
    keys.insert(keys.end(), part.keys.begin(), part.keys.end());
  }
  CHECK(pieces == whole.floats);
  CHECK(keys == whole.keys);
  const ShardRead second =
      read_shard(plan, {0, 0, plan->files[0].bytes}, ShardId{.epoch = 1}).value();
  CHECK(second.floats != whole.floats);
  CHECK(second.keys != whole.keys);

  double sum = 0, squares = 0, dropped = 0;
  size_t cropped[3] = {};
  for (size_t i = 0; i < whole.floats.size(); ++i) {
    sum += double(whole.floats[i][0]);
    squares += double(whole.floats[i][0]) * double(whole.floats[i][0]);
    dropped += whole.floats[i][1] == 0;
    CHECK((whole.floats[i][1] == 0 || whole.floats[i][1] == Approx(1 / 0.75)));
    REQUIRE(whole.keys[i][0].size() == 2);
    for (size_t c = 0; c < 3; ++c)
      cropped[c] += whole.keys[i][0][0] ==
                    hash_combine(hash_string("c"), hash_string(std::string(1, char('p' + c))));
  }
  // Five standard errors of 4000 draws.
  CHECK(std::abs(sum / 4000) < 5 * 0.5 / std::sqrt(4000.0));
  CHECK(std::sqrt(squares / 4000) == Approx(0.5).epsilon(0.06));
  CHECK(dropped / 4000 == Approx(0.25).margin(0.035));
  for (const size_t count : cropped) CHECK(double(count) / 4000 == Approx(1 / 3.0).margin(0.038));
}

TEST_CASE("random ops do nothing in evaluations, in predictions and for held-out records",
          "[data][transform]") {
  const ScratchDir dir;
  auto plan = random_plan(dir.write("f", "0\t1\tp q r\n0\t1\tp q r\n"));
  const auto still = [](const Result<ShardRead>& read) {
    for (const auto& floats : read.value().floats) CHECK(floats == std::vector<float>{0, 1});
    for (const auto& keys : read.value().keys)
      CHECK(keys[0][0] == hash_combine(hash_string("c"), hash_string("p")));
  };
  still(read_file(for_evaluation(*plan, plan->source, plan->files)));
  still(read_file(for_prediction(*plan)));
  plan->holdout = 0.5;
  still(read_shard(plan, {0, 0, plan->files[0].bytes}, {}, Split::kHeldOut));
}

}  // namespace
}  // namespace downpour::data
