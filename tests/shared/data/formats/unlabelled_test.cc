// Predictions: the same readers, but targets may be missing.
#include <cmath>

#include "tests/shared/data/support.h"

namespace downpour::data {
namespace {

using Floats = std::vector<std::vector<float>>;

std::shared_ptr<ReadPlan> table_plan(const std::string& path, bool header) {
  auto plan = plan_of(path, DataFormat::kCsv);
  plan->data.columns = {"age", "income", "hours"};
  plan->data.header = header;
  plan->data.fields = {{.name = "age"}, {.name = "hours"}, {.name = "rich", .column = "income"}};
  plan->layout.floats = {{"age", 1}, {"rich", 1}, {"hours", 1}};
  plan->targets = {{"rich", TargetKind::kBinary}};
  return plan;
}

TEST_CASE("prediction: a target without a column reads as 0, and one with a column as its value",
          "[data]") {
  const ScratchDir dir;
  const auto without = table_plan(dir.write("a", "age,hours\n39,40\n50,13\n"), true);
  CHECK(read_file(for_prediction(*without)).value().floats == Floats{{39, 0, 40}, {50, 0, 13}});
  const auto with = table_plan(dir.write("b", "age,income,hours\n39,7,40\n50,,13\n"), true);
  CHECK(read_file(for_prediction(*with)).value().floats == Floats{{39, 7, 40}, {50, 0, 13}});
  auto names = table_plan(without->files[0].path, true);
  names->data.columns.clear();  // taken from the header of the file
  CHECK(read_file(for_prediction(*names)).value().floats == Floats{{39, 0, 40}, {50, 0, 13}});
  CHECK(error_of(names).what.find("there is no column \"income\"") != std::string::npos);
}

TEST_CASE("prediction: without a header, a first line that is one cell shorter has no label",
          "[data]") {
  const ScratchDir dir;
  const auto plan = table_plan(dir.write("a", "39,40\n50,13\n"), false);
  CHECK(read_file(for_prediction(*plan)).value().floats == Floats{{39, 0, 40}, {50, 0, 13}});
  CHECK(error_of(plan).what.find("fewer columns") != std::string::npos);  // for training
}

TEST_CASE("prediction: a file that lacks a column other than the label is an error", "[data]") {
  const ScratchDir dir;
  const auto plan = table_plan(dir.write("a", "age,income\n39,0\n"), true);
  CHECK(error_of(std::make_shared<ReadPlan>(*for_prediction(*plan)))
            .what.find("field hours: there is no column \"hours\"") != std::string::npos);
  const auto mixed = table_plan(dir.write("b", "39,40\n50,1,13\n"), false);
  const Error error = error_of(std::make_shared<ReadPlan>(*for_prediction(*mixed)));
  CHECK(error.what.find("more columns") != std::string::npos);
  CHECK(error.where.find(":2") != std::string::npos);
}

TEST_CASE("prediction: the label of a criteo line may be empty or left out", "[data]") {
  const ScratchDir dir;
  const std::string rest = "\t5" + std::string(38, '\t');
  for (const std::string& line : {rest, rest.substr(1)}) {
    auto plan = plan_of(dir.write("a", line + "\n"), DataFormat::kCriteo);
    plan->layout.floats = {{"label", 1}, {"I1", 1}};
    plan->targets = {{"label", TargetKind::kBinary}};
    CHECK(read_file(for_prediction(*plan)).value().floats == Floats{{0, std::log1p(5.0F)}});
    CHECK(error_of(plan).code == ErrorCode::kBadData);
  }
}

TEST_CASE("prediction: a libsvm line may begin with its first feature", "[data]") {
  const ScratchDir dir;
  auto plan = plan_of(dir.write("a", "3:1 11:0.5\n1 7:2\n"));
  reads_libsvm(*plan);
  plan->targets = {{"label", TargetKind::kBinary}};
  const ShardRead read = read_file(for_prediction(*plan)).value();
  CHECK(read.floats == Floats{{0}, {1}});
  CHECK(read.keys == std::vector<std::vector<std::vector<uint64_t>>>{{{3, 11}}, {{7}}});
  CHECK(error_of(plan).what.find("does not begin with a label") != std::string::npos);
}

TEST_CASE("prediction: every record is read in file order, for any shuffle and drop_remainder",
          "[data]") {
  const ScratchDir dir;
  std::string text;
  Floats wanted;
  for (int i = 0; i < 101; ++i) {
    text += str(i, " 1:1\n");
    wanted.push_back({float(i)});
  }
  auto plan = plan_of(dir.write("a", text));
  reads_libsvm(*plan);
  plan->data.shuffle = "shard";
  plan->drop_remainder = true;
  CHECK(read_file(plan).value().floats != wanted);
  CHECK(read_file(for_prediction(*plan)).value().floats == wanted);
}

TEST_CASE("prediction: images need no label file", "[data]") {
  const ScratchDir dir;
  const std::string image("\0\0\x08\x03\0\0\0\x01\0\0\0\x01\0\0\0\x02\xff\0", 18);
  auto plan = plan_of(dir.write("new-images-idx3-ubyte", image), DataFormat::kMnist);
  plan->data.fields = {{.name = "image", .shape = {2}}};
  plan->layout.floats = {{"image", 2}, {"label", 1}};
  plan->targets = {{"label", TargetKind::kClass, 10}};
  CHECK(read_file(for_prediction(*plan)).value().floats == Floats{{1, 0, 0}});
  CHECK(error_of(plan).code == ErrorCode::kNoInput);
}

}  // namespace
}  // namespace downpour::data
