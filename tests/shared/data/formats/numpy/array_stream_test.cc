// ArrayStream: reads records from consecutive .npy arrays that a program writes.
#include "shared/data/formats/numpy/array_stream.h"

#include <cmath>

#include "shared/data/reading/program.h"
#include "tests/shared/data/support.h"
#include "tests/support/arrays.h"

namespace downpour::data {
namespace {

using Catch::Contains;
using testing::bytes_of;
using testing::floats_npy;
using testing::npy;

using Floats = std::vector<std::vector<float>>;

/// Returns a plan of a program that writes the bytes of `output`. The fields are x, two floats, and
/// y, an int64.
std::shared_ptr<ReadPlan> plan_of_output(const ScratchDir& dir, const std::string& output,
                                         uint64_t records = 0) {
  dir.write("output", output);
  auto plan = std::make_shared<ReadPlan>();
  plan->data = DataSpec{.format = DataFormat::kNpy, .shuffle = "off"};
  plan->data.fields = {{.name = "x", .shape = {2}}, {.name = "y", .type = FieldType::kInt64}};
  plan->source = {.exec = {"cat", "output"}, .records = records};
  plan->data.source = plan->source;
  plan->base_dir = dir.path();
  plan->layout.floats = {{"x", 2}, {"y", 1}};
  plan->batch_size = 4;
  plan->files = {program_info(plan->source)};
  return plan;
}
Result<ShardRead> read(const std::shared_ptr<ReadPlan>& plan) {
  return read_shard(plan, {0, 0, plan->files[0].bytes});
}
Error error_of(const ScratchDir& dir, const std::string& output) {
  auto found = read(plan_of_output(dir, output));
  REQUIRE(!found);
  return found.error();
}

/// Returns one array of x and one of y with the rows [begin, end): x = {i, i + .5}, y = 10 i.
std::string chunk(int begin, int end) {
  std::vector<float> x;
  std::vector<int64_t> y;
  for (int i = begin; i < end; ++i) {
    x.insert(x.end(), {float(i), float(i) + .5F});
    y.push_back(10 * i);
  }
  const std::string rows = std::to_string(end - begin);
  return floats_npy(x, "(" + rows + ", 2)") + npy("'<i8'", "(" + rows + ",)", bytes_of(y));
}
Floats rows(int end) {
  Floats out;
  for (int i = 0; i < end; ++i) out.push_back({float(i), float(i) + .5F, float(10 * i)});
  return out;
}

TEST_CASE("array stream: batches do not depend on the sizes of the arrays", "[data]") {
  const ScratchDir dir;
  const auto plan = plan_of_output(dir, chunk(0, 3) + chunk(3, 4) + chunk(4, 4) + chunk(4, 11), 11);
  const ShardRead found = read(plan).value();
  CHECK(found.floats == rows(11));
  REQUIRE(found.batches.size() == 3);
  CHECK(found.batches[2].records == 3);
  CHECK(found.totals.counts.read == 11);
}

TEST_CASE("array stream: output larger than a window is read in several windows", "[data]") {
  const ScratchDir dir;
  std::string output;
  for (int i = 0; i < 30'000; i += 10'000) output += chunk(i, i + 10'000);
  CHECK(read(plan_of_output(dir, output)).value().floats == rows(30'000));
  auto shuffled = plan_of_output(dir, output);
  shuffled->data.shuffle = "shard";
  Floats found = read(shuffled).value().floats;
  CHECK(found != rows(30'000));
  std::sort(found.begin(), found.end());
  CHECK(found == rows(30'000));
}

TEST_CASE("array stream: reads every header version, and arrays in the order of data.columns",
          "[data]") {
  const ScratchDir dir;
  auto plan =
      plan_of_output(dir, npy("'>i2'", "(2,)", bytes_of(std::vector<int16_t>{7, 8}, true), 2) +
                              npy("'<f8'", "(2, 2)", bytes_of(std::vector<double>{1, 2, 3, 4}), 3) +
                              npy("'|u1'", "(2,)", std::string("ab")));
  plan->data.columns = {"y", "x", "unused"};
  CHECK(read(plan).value().floats == Floats{{1, 2, 7}, {3, 4, 8}});
}

TEST_CASE("array stream: the pieces of an epoch have its rows, in any order of reading", "[data]") {
  const ScratchDir dir;
  std::string output;
  for (int i = 0; i < 1000; i += 125) output += chunk(i, i + 125);
  for (const uint64_t records : {uint64_t{0}, uint64_t{1000}}) {
    CAPTURE(records);
    const auto plan = plan_of_output(dir, output, records);
    cut_program(plan->source, 160, plan->files[0]);
    REQUIRE(plan->files[0].is_streamed());
    const plan::ShardMap shards(plan::cut_shards(plan->files, 1), 1,
                                joining_of(plan->data, plan->files));
    const auto piece = [&](uint32_t shard) {
      return read_shard(plan, shards.at(0, shard).front(), {0, shard}).value();
    };
    Floats found;
    const ShardRead third = piece(3);
    for (uint32_t shard = 0; shard < 7; ++shard) {
      const ShardRead read = shard == 3 ? third : piece(shard);
      CHECK(read.floats.size() == (shard < 6 ? 160 : 40));
      found.insert(found.end(), read.floats.begin(), read.floats.end());
    }
    CHECK(found == rows(1000));
    if (records > 0) continue;
    CHECK(piece(6).totals.end_offset == plan::kOpenEnd);
    CHECK(piece(9).floats.empty());
  }
  const auto nothing = plan_of_output(dir, "");
  cut_program(nothing->source, 160, nothing->files[0]);
  CHECK(read_shard(nothing, {0, 0, 160}).value().floats.empty());
  // The error for a NaN names its row.
  const auto spoiled =
      plan_of_output(dir, chunk(0, 200) + floats_npy({1, std::nanf("")}, "(1, 2)") +
                              npy("'<i8'", "(1,)", bytes_of(std::vector<int64_t>{1})));
  cut_program(spoiled->source, 160, spoiled->files[0]);
  const auto bad = read_shard(spoiled, {0, 160, 320}, {0, 1});
  REQUIRE(!bad);
  CHECK_THAT(bad.error().where, Contains("record 200 of its output"));
}

TEST_CASE("array stream: empty output and empty arrays give no records", "[data]") {
  const ScratchDir dir;
  CHECK(read(plan_of_output(dir, "")).value().floats.empty());
  CHECK(read(plan_of_output(dir, chunk(0, 0))).value().floats.empty());
}

TEST_CASE("array stream: the error for output that does not match names the array and the record",
          "[data]") {
  const ScratchDir dir;
  const Error cut = error_of(dir, chunk(0, 5) + chunk(5, 9).substr(0, 200));
  CHECK(cut.code == ErrorCode::kBadData);
  CHECK_THAT(cut.what, Contains("ends inside an array"));
  CHECK_THAT(cut.where, Contains("exec: cat output, array `y` of the records from record 5 on"));
  CHECK_THAT(error_of(dir, chunk(0, 5) + floats_npy({1, 2}, "(1, 2)")).where, Contains("`y`"));

  const std::string y2 = npy("'<i8'", "(2,)", bytes_of(std::vector<int64_t>{1, 2}));
  CHECK_THAT(error_of(dir, floats_npy({1, 2}, "(1, 2)") + y2).what,
             Contains("has 2 rows, `x` has 1"));
  CHECK_THAT(error_of(dir, chunk(0, 2) + floats_npy({1, 2, 3, 4, 5, 6}, "(2, 3)") + y2).what,
             Contains("has rows of float32 [3], but the earlier arrays had rows of float32 [2]"));
  CHECK_THAT(error_of(dir, floats_npy({1, 2, 3, 4, 5, 6}, "(2, 3)") + y2).what,
             Contains("field x: its shape differs"));
  const std::string floats = floats_npy({1, 2}, "(2,)");
  CHECK_THAT(error_of(dir, floats_npy({1, 2, 3, 4}, "(2, 2)") + floats).what,
             Contains("field y: is declared int64, but its array contains float32"));
  CHECK_THAT(error_of(dir, "1,2\n").what, Contains("ends inside an array"));
  CHECK_THAT(error_of(dir, "no array, but a longer text").what, Contains("is not an .npy file"));
  // A header with a huge shape does not cause a large allocation.
  CHECK_THAT(error_of(dir, npy("'<f4'", "(1000000000000, 2)", "")).what, Contains("256 MiB"));
  CHECK_THAT(error_of(dir, npy("'<f4'", "(1000000, 2)", "short")).what, Contains("ends inside"));
  const auto nan = error_of(dir, floats_npy({1, NAN}, "(1, 2)") +
                                     npy("'<i8'", "(1,)", bytes_of(std::vector<int64_t>{1})));
  CHECK_THAT(nan.where, Contains("record 0 of its output"));
}

}  // namespace
}  // namespace downpour::data
