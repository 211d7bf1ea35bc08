#include "shared/data/reading/record_trace.h"

#include "tests/shared/data/support.h"

namespace downpour::data {
namespace {

/// Returns ten records of nine bytes: "1 1000:1\n" to "1 1009:1\n".
std::string ten_lines() {
  std::string text;
  for (int i = 0; i < 10; ++i) text += str("1 ", 1000 + i, ":1\n");
  return text;
}

std::shared_ptr<ReadPlan> libsvm_plan(const ScratchDir& dir, const std::string& text) {
  auto plan = plan_of(dir.write("a.svm", text));
  reads_libsvm(*plan);
  return plan;
}

TEST_CASE("a quarantined batch is counted and not parsed, and the other batches stay the same",
          "[data]") {
  const ScratchDir dir;
  std::string text = ten_lines();
  const size_t poison = text.find("1005");
  text.replace(poison, 4, "ab:c");  // record 5, in batch 1; a batch has 4 records
  const auto plan = libsvm_plan(dir, text);
  const plan::ShardRange range{0, 0, plan->files[0].bytes};
  Batch batch;
  {
    const auto reader = open_shard(plan, Split::kAll, {}, range, 0).value();
    REQUIRE(reader->next(batch).value());
    const auto failed = reader->next(batch);
    REQUIRE(!failed);
    CHECK(failed.error().code == ErrorCode::kBadData);
    CHECK(reader->failed_batch() == 1);
  }
  const auto reader = open_shard(plan, Split::kAll, {}, range, 0, {1}).value();
  REQUIRE(reader->next(batch).value());
  const uint64_t first_hash = batch.records_hash;
  CHECK(batch.records == 4);
  CHECK(!batch.quarantined);
  REQUIRE(reader->next(batch).value());
  CHECK(batch.quarantined);
  CHECK(batch.id.batch == 1);
  CHECK(batch.records == 0);
  CHECK(batch.counts.quarantined == 4);
  REQUIRE(reader->next(batch).value());
  CHECK(!batch.quarantined);
  CHECK(batch.records == 2);
  CHECK(batch.first_record == 8 * 9);
  CHECK(batch.last_record == 9 * 9);
  CHECK(!reader->next(batch).value());
  const ShardTotals& totals = reader->totals();
  CHECK(totals.batches == 3);
  CHECK(totals.counts.read == 10);
  CHECK(totals.counts.quarantined == 4);
  CHECK(totals.records_hash == first_hash + batch.records_hash);
}

TEST_CASE("a shard read that starts after a quarantined batch has the same totals", "[data]") {
  const ScratchDir dir;
  const auto plan = libsvm_plan(dir, ten_lines());
  plan->data.shuffle = "shard";
  const plan::ShardRange range{0, 0, plan->files[0].bytes};
  std::vector<ShardTotals> all;
  for (const uint32_t first : {0U, 1U, 2U, 3U}) {
    const auto reader = open_shard(plan, Split::kAll, {1, 2}, range, first, {1}).value();
    Batch batch;
    while (reader->next(batch).value()) CHECK(batch.id.batch >= first);
    all.push_back(reader->totals());
  }
  for (const ShardTotals& totals : all) {
    CHECK(totals.records_hash == all[0].records_hash);
    CHECK(totals.counts == all[0].counts);
    CHECK(totals.counts.quarantined == 4);
  }
}

TEST_CASE("find_record finds a record by its number, its line and any of its bytes", "[data]") {
  const ScratchDir dir;
  const auto plan = libsvm_plan(dir, "# a comment\n1 5:1\n\n1 6:1\n1 7:1");
  const auto place = [&](uint64_t n, RecordUnit unit) { return find_record(plan, 0, n, unit); };
  CHECK(place(1, RecordUnit::kRecord).value().offset == 12);
  CHECK(place(2, RecordUnit::kRecord).value().where.ends_with("a.svm:4"));
  CHECK(place(4, RecordUnit::kLine).value().number == 2);
  CHECK(place(5, RecordUnit::kLine).value().number == 3);
  CHECK(place(20, RecordUnit::kByte).value().number == 2);
  CHECK(place(3, RecordUnit::kRecord).value().bytes == 5);
  for (const auto& [n, unit, what] :
       {std::tuple{4ULL, RecordUnit::kRecord, "the highest number is 3"},
        {1ULL, RecordUnit::kLine, "line 1 is not a record"},
        {3ULL, RecordUnit::kLine, "line 3 is not a record"},
        {6ULL, RecordUnit::kLine, "the highest number is 5"},
        {3ULL, RecordUnit::kByte, "byte 3 is not in a record"}}) {
    const auto missing = place(n, unit);
    REQUIRE(!missing);
    CHECK(missing.error().code == ErrorCode::kNoInput);
    CHECK(missing.error().what.find(what) != std::string::npos);
  }
  plan->source.skip = 1;  // the number does not depend on which records are chosen
  CHECK(place(1, RecordUnit::kRecord).value().offset == 12);
}

TEST_CASE("a shuffled record is traced to the batch in which a worker gets it", "[data]") {
  const ScratchDir dir;
  const auto plan = libsvm_plan(dir, ten_lines());
  plan->data.shuffle = "shard";
  const plan::ShardRange range{0, 0, plan->files[0].bytes};
  const ShardId shard{3, 7};
  const ShardRead read = read_shard(plan, range, shard).value();
  for (uint64_t record = 0; record < 10; ++record) {
    const RecordFate fate =
        trace_record(plan, Split::kAll, shard, {range}, {}, 0, 9 * record).value();
    CHECK(fate.kind == RecordFate::Kind::kBatch);
    const std::vector<uint64_t>& keys = read.batches.at(fate.batch).tables.at(0).keys;
    CHECK(std::count(keys.begin(), keys.end(), 1000 + record) == 1);
  }
  CHECK(!trace_record(plan, Split::kAll, shard, {range}, {}, 0, 4));
}

TEST_CASE("a trace says why a record is not in any batch", "[data]") {
  const ScratchDir dir;
  std::string text = ten_lines();
  text.replace(text.find("1003"), 4, "ab:c");
  const auto plan = libsvm_plan(dir, text);
  const plan::ShardRange range{0, 0, plan->files[0].bytes};
  using Kind = RecordFate::Kind;
  const auto kind = [&](uint64_t record, std::vector<uint32_t> quarantined_batches = {}) {
    return trace_record(plan, Split::kTrain, {}, {range}, std::move(quarantined_batches), 0,
                        9 * record)
        .value()
        .kind;
  };
  CHECK(!trace_record(plan, Split::kTrain, {}, {range}, {}, 0,
                      9 * 9));  // the bad record fails the shard
  CHECK(kind(3, {0}) == Kind::kQuarantined);
  plan->data.bad_records = BadRecords::kSkip;
  CHECK(kind(3) == Kind::kSkipped);
  CHECK(kind(9) == Kind::kBatch);
  plan->drop_remainder = true;
  CHECK(kind(9) == Kind::kDropped);
  plan->holdout = 0.5;
  size_t held_out = 0;
  for (uint64_t record = 0; record < 10; ++record) held_out += kind(record) == Kind::kHeldOut;
  CHECK(held_out > 0);
  CHECK(held_out < 10);
}

}  // namespace
}  // namespace downpour::data
