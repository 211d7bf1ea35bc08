#include "shared/data/reading/batch_check.h"

#include <cmath>
#include <limits>

#include <catch2/catch.hpp>

namespace downpour::data {
namespace {

constexpr BatchId kId{1, 2, 3};

ReadPlan plan() {
  ReadPlan plan;
  plan.batch_size = 2;
  plan.layout.floats = {{.field = "x", .width = 2}, {.field = "click"}, {.field = "digit"}};
  plan.layout.bags = {{.field = "words", .table_index = 0}};
  plan.layout.tables = {TableId(4)};
  plan.targets = {{.field = "click", .kind = TargetKind::kBinary},
                  {.field = "digit", .kind = TargetKind::kClass, .classes = 10}};
  return plan;
}

Batch good() {
  Batch batch;
  batch.id = kId;
  batch.records = 2;
  batch.floats = {{.width = 2, .values = {1, 2, 3, 4}}, {.values = {0, 1}}, {.values = {0, 9}}};
  batch.bags = {{.table_index = 0, .keys = {0, 0}}};
  batch.tables = {{TableId(4), {77}}};
  return batch;
}

template <typename Change>
std::string why(Change&& change) {
  Batch batch = good();
  change(batch);
  const Result<void> checked = check_batch(plan(), kId, batch);
  return checked ? "" : checked.error().what;
}

}  // namespace

TEST_CASE("a batch from an input process must match the id and the columns of the job", "[data]") {
  CHECK(why([](Batch&) {}).empty());
  CHECK(why([](Batch& b) { b.id.batch = 4; }) == "batch 1/2/4 instead of 1/2/3");
  CHECK(why([](Batch& b) { b.records = 3; }) == "a batch of 3 records");
  CHECK(why([](Batch& b) { b.records = 0; }) == "a batch of 0 records");
  const std::string columns = "a batch whose columns differ from the columns of the job";
  CHECK(why([](Batch& b) { b.floats.pop_back(); }) == columns);
  CHECK(why([](Batch& b) { b.floats[0].width = 1; }) == columns);
  CHECK(why([](Batch& b) { b.bags.clear(); }) == columns);
  CHECK(why([](Batch& b) { b.bags[0].table_index = 1; }) == columns);
  CHECK(why([](Batch& b) { b.tables[0].table = TableId(5); }) == columns);
  CHECK(why([](Batch& b) {
          b = {};
          b.id = kId;
          b.quarantined = true;
        }).empty());
}

TEST_CASE("every value of a binary or class target is checked", "[data]") {
  for (const float value :
       {10.0F, -1.0F, 0.5F, std::nanf(""), std::numeric_limits<float>::infinity(), 1e30F}) {
    CHECK(why([&](Batch& b) { b.floats[2].values[1] = value; }) ==
          "a batch with an invalid value of the target digit");
  }
  for (const float value : {2.0F, -1.0F, 0.5F, std::nanf("")}) {
    CHECK(why([&](Batch& b) { b.floats[1].values[0] = value; }) ==
          "a batch with an invalid value of the target click");
  }
}

}  // namespace downpour::data
