// Tables in memory: every kind of column, missing values, detection, and errors.
#include "shared/data/formats/memory/memory_table.h"

#include <cmath>
#include <limits>

#include "shared/data/formats/sniff.h"
#include "tests/shared/data/support.h"

namespace downpour::data {
namespace {

using Catch::Contains;
using Kind = MemoryColumn::Kind;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

template <typename T>
MemoryColumn numbers(const std::string& name, NpyType type, const std::vector<T>& values,
                     uint64_t width = 1) {
  return {.name = name,
          .type = type,
          .values = reinterpret_cast<const char*>(values.data()),
          .stride = int64_t(width * sizeof(T)),
          .width = width};
}

/// Texts as Arrow stores them.
struct Texts {
  explicit Texts(const std::vector<std::string>& all) {
    offsets = {0};
    for (const std::string& text : all) {
      bytes += text;
      offsets.push_back(int32_t(bytes.size()));
    }
  }
  MemoryTexts view() const { return {offsets.data(), false, bytes.data()}; }
  std::string bytes;
  std::vector<int32_t> offsets;
};

std::shared_ptr<ReadPlan> table_plan(const SharedTable& table, std::vector<FieldSpec> fields) {
  auto plan = std::make_shared<ReadPlan>();
  plan->data.format = DataFormat::kMemory;
  plan->data.source.paths = {table.path()};
  plan->data.shuffle = "off";
  plan->batch_size = 2;
  plan->data.fields = std::move(fields);
  const auto files = list_files(plan->data, plan->data.source, "/");
  if (!files) FAIL(files.error().what);
  plan->files = *files;
  return plan;
}

Result<std::vector<Batch>> read_table(const std::shared_ptr<ReadPlan>& plan) {
  DP_TRY(const auto reader,
         open_shard(plan, Split::kAll, {}, {.begin = 0, .end = plan->files[0].bytes}, 0));
  std::vector<Batch> batches;
  for (Batch batch;;) {
    DP_TRY(const bool more, reader->next(batch));
    if (!more) return batches;
    batches.push_back(batch);
  }
}

TEST_CASE("memory: reads numbers of any type, stride and width", "[data]") {
  const std::vector<double> wide = {1, 2, 3, 4, 5, 6};
  const std::vector<int16_t> codes = {7, -8, 9};
  MemoryColumn backwards = numbers("b", {'f', 8}, wide);
  backwards.values += 4 * sizeof(double);
  backwards.stride = -2 * int64_t(sizeof(double));  // 5, 3, 1
  const SharedTable table(std::make_shared<MemoryTable>(
      MemoryTable{3, {numbers("w", {'f', 8}, wide, 2), numbers("c", {'i', 2}, codes), backwards}}));
  auto plan = table_plan(table, {{.name = "w", .shape = {2}}, {.name = "c"}, {.name = "b"}});
  plan->layout.floats = {{"w", 2}, {"c", 1}, {"b", 1}};
  const auto batches = read_table(plan).value();
  REQUIRE(batches.size() == 2);
  CHECK(batches[0].floats[0].values == std::vector<float>{1, 2, 3, 4});
  CHECK(batches[0].floats[1].values == std::vector<float>{7, -8});
  CHECK(batches[0].floats[2].values == std::vector<float>{5, 3});
  CHECK(batches[1].records == 1);
  CHECK(batches[1].floats[2].values[0] == 1);
}

TEST_CASE("memory: ops see all digits of doubles and of integers", "[data]") {
  const std::vector<double> times = {1.7e9, 1.7e9 + 0.5, 1.7e9 + 3};
  const std::vector<int64_t> whole = {1'700'000'000, 1'700'000'001, 1'700'000'003};
  const SharedTable table(std::make_shared<MemoryTable>(
      MemoryTable{3, {numbers("t", {'f', 8}, times), numbers("n", {'i', 8}, whole)}}));
  const ops::Standardize standardize{.mean = 1.7e9 + 1, .scale = 2};
  auto plan = table_plan(table, {{.name = "t", .transform = {standardize}},
                                 {.name = "n", .transform = {standardize}}});
  plan->batch_size = 3;
  plan->layout.floats = {{"t", 1}, {"n", 1}};
  const auto batches = read_table(plan).value();
  CHECK(batches[0].floats[0].values == std::vector<float>{-0.5F, -0.25F, 1});
  CHECK(batches[0].floats[1].values == std::vector<float>{-0.5F, 0, 1});
}

TEST_CASE("memory: NaN, a cleared bit and a negative index are missing values", "[data]") {
  const std::vector<float> values = {kNan, 2, 3};
  const uint8_t bits = 0b1011'0000;  // rows 0 and 1 of bits 4, 5 and 6 have values, row 2 has none
  const std::vector<int8_t> codes = {1, -1, 0};
  const Texts texts({"a", "bb"});
  MemoryColumn masked = numbers("m", {'f', 4}, values);
  masked.valid = &bits;
  masked.valid_begin = 4;
  MemoryColumn words{.name = "d", .kind = Kind::kDictionary, .type = {'i', 1}, .stride = 1};
  words.values = reinterpret_cast<const char*>(codes.data());
  words.texts = texts.view();
  words.text_count = 2;
  const SharedTable table(std::make_shared<MemoryTable>(
      MemoryTable{3, {masked, words, numbers("n", {'f', 4}, values)}}));
  auto plan = table_plan(
      table,
      {{.name = "m", .fallback = "9"},
       {.name = "n", .fallback = "8"},
       {.name = "d", .type = FieldType::kString, .fallback = "", .transform = {ops::Hash{}}}});
  plan->batch_size = 3;
  plan->layout.floats = {{"m", 1}, {"n", 1}};
  plan->layout.bags = {{"d", 0}};
  plan->layout.tables = {TableId(0)};
  const auto batches = read_table(plan).value();
  REQUIRE(batches.size() == 1);
  CHECK(batches[0].floats[0].values == std::vector<float>{9, 2, 9});
  CHECK(batches[0].floats[1].values == std::vector<float>{8, 2, 3});
  CHECK(batches[0].tables[0].keys.size() == 3);  // "bb", the default, "a"
}

TEST_CASE("memory: missing values between copied numbers stay at their rows", "[data]") {
  const std::vector<float> values = {1, 2, kNan, 4, kNan, 6, kNan, 8};
  const SharedTable table(
      std::make_shared<MemoryTable>(MemoryTable{8, {numbers("n", {'f', 4}, values)}}));
  auto plan = table_plan(table, {{.name = "n", .fallback = "9"}});
  plan->batch_size = 5;
  plan->layout.floats = {{"n", 1}};
  const auto batches = read_table(plan).value();
  REQUIRE(batches.size() == 2);
  CHECK(batches[0].floats[0].values == std::vector<float>{1, 2, 9, 4, 9});
  CHECK(batches[1].records == 3);
  CHECK(batches[1].floats[0].values[0] == 6);
  CHECK(batches[1].floats[0].values[1] == 9);
  CHECK(batches[1].floats[0].values[2] == 8);
}

TEST_CASE("memory: an infinite number between others is an error of its row", "[data]") {
  const std::vector<double> values = {1, 2, std::numeric_limits<double>::infinity(), 4};
  const SharedTable table(
      std::make_shared<MemoryTable>(MemoryTable{4, {numbers("n", {'f', 8}, values)}}));
  auto plan = table_plan(table, {{.name = "n"}});
  plan->batch_size = 4;
  plan->layout.floats = {{"n", 1}};
  const auto batches = read_table(plan);
  REQUIRE_FALSE(batches);
  CHECK(batches.error().what == "bad record: field n \"inf\" is not a finite number");
  CHECK(batches.error().where == "row 2 of the data");
}

TEST_CASE("memory: a number that means a missing value is compared with the column's precision",
          "[data]") {
  const std::vector<int64_t> integers = {16777216, 16777217, -9007199254740993, -9007199254740992};
  const std::vector<double> doubles = {0.1, 16777217, 0.1F, 2};
  const std::vector<float> floats = {0.1F, 16777216, 16777218, 2};
  const SharedTable table(std::make_shared<MemoryTable>(
      MemoryTable{4,
                  {numbers("i", {'i', 8}, integers), numbers("d", {'f', 8}, doubles),
                   numbers("f", {'f', 4}, floats)}}));
  auto plan = table_plan(table, {{.name = "i", .fallback = "7"},
                                 {.name = "d", .fallback = "7"},
                                 {.name = "f", .fallback = "7"}});
  plan->data.missing = {"16777217", "-9007199254740993", "0.1", "2nd"};
  plan->batch_size = 4;
  plan->layout.floats = {{"i", 1}, {"d", 1}, {"f", 1}};
  const auto batches = read_table(plan).value();
  REQUIRE(batches.size() == 1);
  CHECK(batches[0].floats[0].values == std::vector<float>{16777216, 7, 7, -0x1p53F});
  CHECK(batches[0].floats[1].values == std::vector<float>{7, 7, 0.1F, 2});
  // 16777217 is halfway between two floats, and rounds to the even one.
  CHECK(batches[0].floats[2].values == std::vector<float>{7, 7, 16777218, 2});
}

TEST_CASE("memory: a number and its text have the same key as in a CSV file", "[data]") {
  const ScratchDir dir;
  auto csv = std::make_shared<ReadPlan>();
  csv->data.format = DataFormat::kCsv;
  csv->data.header = true;
  csv->data.columns = {"k"};
  const FieldSpec field{.name = "k", .type = FieldType::kString, .transform = {ops::Hash{}}};
  csv->data.fields = {field};
  csv->layout.bags = {{"k", 0}};
  csv->layout.tables = {TableId(0)};
  csv->data.shuffle = "off";
  csv->files =
      list_files(csv->data, {.paths = {dir.write("k.csv", "k\n3\n-1\n2.5\n")}}, "/").value();
  const std::vector<uint64_t> wanted = read_table(csv).value().at(0).tables[0].keys;
  const auto keys_of = [&](const MemoryColumn& column) {
    const SharedTable table(std::make_shared<MemoryTable>(MemoryTable{3, {column}}));
    auto plan = table_plan(table, {field});
    plan->batch_size = 3;
    plan->layout = csv->layout;
    return read_table(plan).value().at(0).tables[0].keys;
  };
  const std::vector<double> doubles = {3, -1, 2.5};
  CHECK(keys_of(numbers("k", {'f', 8}, doubles)) == wanted);
  const Texts texts({"3", "-1", "2.5"});
  CHECK(keys_of({.name = "k", .kind = Kind::kTexts, .texts = texts.view()}) == wanted);
}

TEST_CASE("memory: a text of several words has the same keys as a cell of a CSV file", "[data]") {
  const ScratchDir dir;
  const FieldSpec field = GENERATE(
      FieldSpec{.name = "k", .type = FieldType::kString, .shape = {-1}, .transform = {ops::Hash{}}},
      FieldSpec{.name = "k", .type = FieldType::kInt64, .shape = {-1}});
  auto csv = std::make_shared<ReadPlan>();
  csv->data.format = DataFormat::kCsv;
  csv->data.columns = {"k"};
  csv->data.fields = {field};
  csv->layout.bags = {{"k", 0}};
  csv->layout.tables = {TableId(0)};
  csv->data.shuffle = "off";
  csv->files = list_files(csv->data, {.paths = {dir.write("k.csv", "3 4 3\n5\n")}}, "/").value();
  const Batch wanted = read_table(csv).value().at(0);
  REQUIRE(wanted.bags[0].offsets == std::vector<uint32_t>{0, 3, 4});
  const Texts texts({"3 4 3", "5"});
  const std::vector<int32_t> codes = {0, 1};
  const MemoryColumn plain{.name = "k", .kind = Kind::kTexts, .texts = texts.view()};
  MemoryColumn indexed = numbers("k", {'i', 4}, codes);
  indexed.kind = Kind::kDictionary;
  indexed.texts = texts.view();
  indexed.text_count = 2;
  for (const MemoryColumn& column : {plain, indexed}) {
    const SharedTable table(std::make_shared<MemoryTable>(MemoryTable{2, {column}}));
    auto plan = table_plan(table, {field});
    plan->layout = csv->layout;
    const Batch got = read_table(plan).value().at(0);
    CHECK(got.tables[0].keys == wanted.tables[0].keys);
    CHECK(got.bags[0].offsets == wanted.bags[0].offsets);
    CHECK(got.bags[0].keys == wanted.bags[0].keys);
  }
}

TEST_CASE("memory: pairs give keys with values", "[data]") {
  const std::vector<int32_t> starts = {0, 2, 2, 3};
  const std::vector<int64_t> keys = {5, 1, 5};
  const std::vector<float> values = {0.5F, 2, 1};
  const MemoryColumn pairs{.name = "features",
                           .kind = Kind::kPairs,
                           .type = {'f', 4},
                           .values = reinterpret_cast<const char*>(values.data()),
                           .start_type = {'i', 4},
                           .key_type = {'i', 8},
                           .starts = reinterpret_cast<const char*>(starts.data()),
                           .keys = reinterpret_cast<const char*>(keys.data())};
  const SharedTable table(std::make_shared<MemoryTable>(MemoryTable{3, {pairs}}));
  auto plan = table_plan(table, {{.name = "features", .type = FieldType::kInt64, .shape = {-1}}});
  plan->batch_size = 3;
  plan->layout.bags = {{"features", 0}};
  plan->layout.tables = {TableId(0)};
  const auto batches = read_table(plan).value();
  REQUIRE(batches.size() == 1);
  CHECK(batches[0].bags[0].offsets == std::vector<uint32_t>{0, 2, 2, 3});
  CHECK(batches[0].bags[0].values == std::vector<float>{0.5F, 2, 1});
  CHECK(batches[0].tables[0].keys == std::vector<uint64_t>{5, 1});
  const auto facts = sniff(table.path());
  CHECK(facts.value().has_pairs);
  CHECK(facts.value().pairs_per_record == Approx((0.25 * 4) / 3));

  const std::vector<float> odd = {0.5F, 2, kNan};
  MemoryColumn changed = pairs;
  changed.values = reinterpret_cast<const char*>(odd.data());
  const SharedTable with_nan(std::make_shared<MemoryTable>(MemoryTable{3, {changed}}));
  CHECK(sniff(with_nan.path()).value().pairs_per_record == Approx((0.25 * 4) / 3));
  const std::vector<uint64_t> hashes = {UINT64_MAX, 1, uint64_t{1} << 63};
  changed = pairs;
  changed.key_type = {'u', 8};
  changed.keys = reinterpret_cast<const char*>(hashes.data());
  CHECK(check_table({3, {changed}}));
  for (const std::vector<int32_t>& wrong :
       {std::vector<int32_t>{-4, 0, 0, 1}, {0, 2, -1, 3}, {0, 2, 2, -1}}) {
    changed.starts = reinterpret_cast<const char*>(wrong.data());
    CHECK_FALSE(check_table({3, {changed}}));
  }
}

TEST_CASE("memory: ranges that are read together give the records of each", "[data]") {
  std::vector<float> x(1000), bad;
  for (size_t i = 0; i < x.size(); ++i) x[i] = float(i);
  bad = x;
  bad[700] = kNan;
  for (const auto& [values, skipped] : {std::pair(x, 0U), {bad, 1U}}) {
    const SharedTable table(
        std::make_shared<MemoryTable>(MemoryTable{1000, {numbers("x", {'f', 4}, values)}}));
    auto plan = table_plan(table, {{.name = "x"}});
    plan->layout.floats = {{"x", 1}};
    plan->data.shuffle = "shard";
    plan->data.bad_records = BadRecords::kSkip;
    plan->batch_size = 64;
    const auto read = [&](const std::vector<plan::ShardRange>& ranges, uint64_t& hash) {
      const auto reader = open_shard(plan, Split::kAll, {}, ranges, 0);
      REQUIRE(reader);
      std::vector<float> all;
      Batch batch;
      while ((*reader)->next(batch).value()) {
        all.insert(all.end(), batch.floats[0].values.begin(), batch.floats[0].values.end());
        hash += batch.records_hash;
      }
      return all;
    };
    const uint64_t bytes = plan->files[0].bytes;
    uint64_t together_hash = 0, one_by_one_hash = 0;
    std::vector<float> together =
        read({{.begin = 0, .end = bytes / 4}, {.begin = bytes / 4, .end = bytes}}, together_hash);
    std::vector<float> one_by_one = read({{.begin = 0, .end = bytes}}, one_by_one_hash);
    CHECK(together != one_by_one);  // another order
    std::ranges::sort(together);
    std::ranges::sort(one_by_one);
    CHECK(together == one_by_one);
    CHECK(together.size() == 1000 - skipped);
    CHECK(together_hash == one_by_one_hash);
  }
}

TEST_CASE("memory: finds fields and the target", "[data]") {
  std::vector<double> ages, labels;
  std::vector<int32_t> codes;
  for (int i = 0; i < 100; ++i) {
    ages.push_back(20 + i * 0.5);
    labels.push_back(i % 2);
    codes.push_back(i % 3 - 1);
  }
  const Texts texts({"red", "blue"});
  MemoryColumn colour{.name = "colour", .kind = Kind::kDictionary, .type = {'i', 4}, .stride = 4};
  colour.values = reinterpret_cast<const char*>(codes.data());
  colour.texts = texts.view();
  colour.text_count = 2;
  const SharedTable table(std::make_shared<MemoryTable>(MemoryTable{
      100, {numbers("age", {'f', 8}, ages), colour, numbers("label", {'f', 8}, labels)}}));
  const FileFacts facts = sniff(table.path()).value();
  CHECK(facts.target == "label");
  CHECK(facts.classes == 2);
  CHECK(facts.records_estimated == 100);
  REQUIRE(facts.fields.size() == 3);
  CHECK(facts.fields[0].name == "age");
  CHECK(facts.fields[1].type == FieldType::kString);
  CHECK_THAT(facts.reason, Contains("1 numeric, 1 categorical"));
}

TEST_CASE("memory: numbers that 32-bit floats can't tell apart are reported", "[data]") {
  for (const double first : {1e3, 1e7}) {
    std::vector<double> x, y;
    for (int i = 0; i < 100; ++i) x.push_back(first * (i % 5 > 0) + i * 0.01), y.push_back(i * 0.5);
    const SharedTable table(std::make_shared<MemoryTable>(
        MemoryTable{100, {numbers("x", {'f', 8}, x), numbers("y", {'f', 8}, y)}}));
    const FileFacts facts = sniff(table.path()).value();
    CHECK(facts.warnings.size() == (first > 1e6 ? 1 : 0));
  }
}

TEST_CASE("memory: integers that a double rounds are keys", "[data]") {
  std::vector<uint64_t> x;
  std::vector<double> y;
  for (int i = 0; i < 100; ++i) x.push_back((uint64_t{1} << 60) + i % 7), y.push_back(i * 0.5);
  const SharedTable table(std::make_shared<MemoryTable>(
      MemoryTable{100, {numbers("hash", {'u', 8}, x), numbers("y", {'f', 8}, y)}}));
  const FieldSpec field = sniff(table.path()).value().fields.at(0);
  CHECK(field.type == FieldType::kString);
  CHECK(std::holds_alternative<ops::Hash>(field.transform.at(0)));
}

TEST_CASE("memory: integers of more than six digits are told apart", "[data]") {
  std::vector<double> x, y;
  for (int i = 0; i < 100; ++i) x.push_back(10'000'001 + i), y.push_back(i * 0.5);
  const SharedTable table(std::make_shared<MemoryTable>(
      MemoryTable{100, {numbers("user_id", {'f', 8}, x), numbers("y", {'f', 8}, y)}}));
  CHECK_THAT(sniff(table.path()).value().reason,
             Contains("left out: user_id (another value in each record)"));
}

TEST_CASE("memory: errors name the column", "[data]") {
  const std::vector<float> values = {1, kNan, 3};
  const SharedTable table(
      std::make_shared<MemoryTable>(MemoryTable{3, {numbers("x", {'f', 4}, values)}}));
  auto absent = table_plan(table, {{.name = "x"}, {.name = "age"}, {.name = "zip"}});
  absent->layout.floats = {{"age", 1}, {"zip", 1}};
  CHECK_THAT(read_table(absent).error().what, Contains("no column age, zip"));
  CHECK_THAT(read_table(absent).error().hint, Contains("x"));
  auto no_default = table_plan(table, {{.name = "x"}});
  no_default->layout.floats = {{"x", 1}};
  CHECK_THAT(read_table(no_default).error().where, Contains("row 1"));
  CHECK(find_table("memory:0").error().code == ErrorCode::kNoInput);

  CHECK_FALSE(check_table({0, {numbers("x", {'f', 4}, values)}}));
  CHECK_FALSE(check_table({uint64_t{1} << 62, {numbers("x", {'f', 4}, values)}}));
  CHECK_FALSE(check_table({3, {}}));
  CHECK_FALSE(check_table({3, {numbers("x", {'f', 4}, values), numbers("x", {'f', 4}, values)}}));
  const std::vector<int8_t> codes = {0, 2, 1};
  const Texts texts({"a", "b"});
  MemoryColumn beyond{.name = "d", .kind = Kind::kDictionary, .type = {'i', 1}, .stride = 1};
  beyond.values = reinterpret_cast<const char*>(codes.data());
  beyond.texts = texts.view();
  beyond.text_count = 2;
  CHECK_THAT(check_table({3, {beyond}}).error().what, Contains("row 1 has the index 2 of 2"));
  const std::vector<uint64_t> huge = {0, (uint64_t{1} << 63) + 5, 1};
  beyond.type = {'u', 8};
  beyond.stride = 8;
  beyond.values = reinterpret_cast<const char*>(huge.data());
  CHECK_THAT(check_table({3, {beyond}}).error().what, Contains("row 1 has the index"));
}

}  // namespace
}  // namespace downpour::data
