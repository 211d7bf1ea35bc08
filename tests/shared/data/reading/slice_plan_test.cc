// Slices: columns of an evaluation with the place of each record's value among the listed ones.
#include "shared/data/reading/slice_plan.h"

#include <cmath>

#include "shared/data/values/label_texts.h"
#include "tests/shared/data/support.h"
#include "tests/support/arrays.h"

namespace downpour::data {
namespace {

/// Returns a plan that reads `y` of these records.
std::shared_ptr<ReadPlan> table_plan(const std::string& path, DataFormat format) {
  auto plan = plan_of(path, format);
  if (format == DataFormat::kCsv) plan->data.columns = {"y", "city", "age"};
  plan->data.missing = {"?"};
  plan->data.fields = {{.name = "y"},
                       {.name = "town",
                        .column = "city",
                        .type = FieldType::kString,
                        .fallback = "Rome",
                        .transform = {ops::Hash{.buckets = 8}}},
                       {.name = "age", .type = FieldType::kInt64}};
  plan->layout.floats = {{"y", 1}};
  return plan;
}

const std::vector<SliceSpec> kSlices = {{.field = "town", .values = {"Paris", "Oslo"}},
                                        {.field = "age", .values = {"30", "-4"}}};

TEST_CASE("a slice reads as the place of its value, and any other or missing value as 0",
          "[data]") {
  const ScratchDir dir;
  const std::vector<std::vector<float>> wanted = {
      {1, 1, 1}, {2, 0, 2}, {3, 2, 0}, {4, 0, 0}, {5, 0, 1}};
  const auto check = [&](const std::string& path, DataFormat format) {
    const std::shared_ptr<const ReadPlan> plan = table_plan(path, format);
    const auto sliced = with_slices(plan, kSlices);
    REQUIRE(sliced);
    CHECK(read_shard(*sliced, {0, 0, (*sliced)->files[0].bytes}).value().floats == wanted);
    CHECK(plan->layout.floats.size() == 1);
    CHECK(with_slices(plan, {}).value() == plan);
  };
  check(dir.write("a.csv", "1,Paris,30\n2,Lima,-4\n3,Oslo,31\n4,?,\n5,,30\n"), DataFormat::kCsv);
  check(
      dir.write("a.jsonl",
                "{\"y\":1,\"city\":\"Paris\",\"age\":30}\n{\"y\":2,\"city\":\"Lima\",\"age\":-4}\n"
                "{\"y\":3,\"city\":\"Oslo\",\"age\":31}\n{\"y\":4,\"city\":null}\n"
                "{\"y\":5,\"age\":30}\n"),
      DataFormat::kJsonl);
}

TEST_CASE("a slice of arrays reads the array of its field", "[data]") {
  const ScratchDir dir;
  const std::vector<int64_t> ages = {30, 1, -4};  // 1 is no place
  using testing::bytes_of, testing::floats_npy, testing::npy, testing::npz;
  const std::string archive =
      npz({{"y", floats_npy({1, 2, 3}, "(3,)")}, {"years", npy("'<i8'", "(3,)", bytes_of(ages))}});
  auto plan = plan_of(dir.write("a.npz", archive), DataFormat::kNpz);
  plan->data.fields = {{.name = "y"}, {.name = "age", .path = "years", .type = FieldType::kInt64}};
  plan->layout.floats = {{"y", 1}};
  const std::vector<SliceSpec> slices = {{.field = "age", .values = {"30", "-4"}}};
  const auto sliced = with_slices(plan, slices).value();
  CHECK(read_file(sliced).value().floats ==
        std::vector<std::vector<float>>{{1, 1}, {2, 0}, {3, 2}});
}

TEST_CASE("the texts of open slices are counted without the missing ones", "[data]") {
  const ScratchDir dir;
  const auto plan =
      table_plan(dir.write("a.csv", "1,Lima,30\n2,Rome,4\n3,?,5\n4,Lima,\n"), DataFormat::kCsv);
  const auto counter = std::make_shared<TextCounter>(10);
  const auto counting = counting_slices(*plan, kSlices, {counter, nullptr});
  REQUIRE(counting);
  CHECK((*counting)->layout.floats.size() == 1);
  const auto read = read_shard(*counting, {0, 0, (*counting)->files[0].bytes});
  CHECK(read.value().floats.size() == 4);
  auto texts = counter->texts();
  texts.erase("");
  CHECK(texts == std::map<std::string, uint64_t, std::less<>>{{"Lima", 2}, {"Rome", 1}});
}

TEST_CASE("the values of a group have the same two numbers, which are different for each value",
          "[data]") {
  const ScratchDir dir;
  const std::string csv = dir.write("a.csv", "1,Lima,30\n2,Rome,4\n3,?,5\n4,Lima,\n5,,30\n");
  const std::string jsonl = dir.write("a.jsonl",
                                      "{\"y\":1,\"city\":\"Lima\",\"age\":30}\n"
                                      "{\"y\":2,\"city\":\"Rome\",\"age\":4}\n{\"y\":3,\"age\":5}\n"
                                      "{\"y\":4,\"city\":\"Lima\"}\n{\"y\":5,\"age\":30}\n");
  const auto groups_of = [&](const std::string& path, DataFormat format, const char* field) {
    const std::shared_ptr<const ReadPlan> plan = table_plan(path, format);
    const auto grouped = with_groups(plan, field);
    REQUIRE(grouped);
    const auto read = read_shard(*grouped, {0, 0, (*grouped)->files[0].bytes}).value();
    std::vector<std::pair<float, float>> groups;
    for (const auto& floats : read.floats) groups.emplace_back(floats.at(1), floats.at(2));
    return groups;
  };
  const auto towns = groups_of(csv, DataFormat::kCsv, "town");
  REQUIRE(towns.size() == 5);
  CHECK(towns[0] == towns[3]);
  CHECK(towns[2] == towns[4]);
  CHECK(towns[0].first != towns[1].first);
  CHECK(towns[0].second != towns[1].second);
  CHECK(towns[0] != towns[2]);
  for (const auto& [first, second] : towns) {
    CHECK((first >= 0 && first < 0x1p24F && first == std::floor(first)));
    CHECK((second >= 0 && second < 0x1p24F && second == std::floor(second)));
  }
  CHECK(groups_of(jsonl, DataFormat::kJsonl, "town") == towns);
  CHECK(groups_of(jsonl, DataFormat::kJsonl, "age") == groups_of(csv, DataFormat::kCsv, "age"));
  const std::shared_ptr<const ReadPlan> plan = table_plan(csv, DataFormat::kCsv);
  CHECK(with_groups(plan, "").value() == plan);
}

TEST_CASE("a field that is not declared, or has several values, is no slice", "[data]") {
  const ScratchDir dir;
  const auto plan = table_plan(dir.write("a.csv", "1,Lima,30\n"), DataFormat::kCsv);
  CHECK(with_slices(plan, {{.field = "town2"}}).error().what.find("town2") != std::string::npos);
  plan->data.fields[2].shape = {2};
  CHECK(with_slices(plan, {{.field = "age"}}).error().what.find("has several") !=
        std::string::npos);
}

}  // namespace
}  // namespace downpour::data
