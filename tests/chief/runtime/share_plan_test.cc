// plan_run() with train.sync_every = "epoch": each replica's share of an epoch is one shard.
#include <algorithm>

#include "shared/data/reading/dataset.h"
#include "shared/model/graph.h"
#include "tests/chief/runtime/support.h"
#include "tests/support/compressed.h"

namespace downpour::chief {
namespace {

using Catch::Matchers::Contains;
using testing::gzipped;

std::string job_of(const std::string& source, int replicas, const std::string& more = {},
                   const std::string& sync_every = "\"epoch\"") {
  return str("data.format = \"csv\"\ndata.columns = [\"x\", \"y\"]\n",
             "data.fields = { x = { type = \"string\" }, y = {} }\n",
             "model.preset = \"linear_regression\"\nmodel.target = \"y\"\ndata.source = ", source,
             "\ntrain.mode = \"local\"\ntrain.sync_every = ", sync_every,
             "\ntrain.batch_size = 32\ntrain.replicas = ", replicas, "\n", more);
}

plan::ShardMap shards_of(const RunPlan& plan) {
  return data::map_shards(plan.job, plan.train_files,
                          plan::cut_streams(plan.train_files, plan.shard_bytes, plan.streams));
}

/// Reads an epoch. Returns the number of records of each shard; every shard must be one batch.
std::vector<uint64_t> records_of(const RunPlan& plan, uint32_t epoch) {
  const auto graph = model::Graph::build(plan.job);
  REQUIRE(graph);
  const auto reading =
      data::make_read_plan(plan.job, (*graph)->inputs(), (*graph)->output_widths(),
                           plan.job.data.source, plan.train_files, plan.job.eval.holdout);
  const plan::ShardMap shards = shards_of(plan);
  std::vector<uint64_t> records;
  for (uint32_t place = 0; place < shards.count(); ++place) {
    auto reader =
        data::open_shard(reading, data::Split::kAll, {epoch, place}, shards.at(epoch, place), 0);
    REQUIRE(reader);
    Batch batch;
    uint64_t batches = 0, applied = 0;
    for (;;) {
      const auto more = (*reader)->next(batch);
      if (!more) FAIL(more.error().what);
      if (!*more) break;
      ++batches;
      applied += batch.records;
    }
    CHECK(batches == 1);
    records.push_back(applied);
  }
  return records;
}

uint64_t sum(const std::vector<uint64_t>& numbers) {
  uint64_t all = 0;
  for (const uint64_t n : numbers) all += n;
  return all;
}

/// Lines whose lengths grow from 6 to 3,000 bytes, so that the first lines say nothing of the rest.
std::string uneven_rows(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) {
    const size_t length = i < count / 2 ? 3 : size_t(i % 3000);
    text += str(std::string(1 + length, char('a' + i % 7)), ",", i % 7, "\n");
  }
  return text;
}

std::string short_rows(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += str("k", 1000 + i % 7919, ",", i % 7, "\n");
  return text;
}

TEST_CASE("each replica's share of an epoch is one shard of one batch", "[chief]") {
  const ScratchDir dir;
  dir.write("d.csv", short_rows(10'000));
  for (const int replicas : {1, 2, 3, 4, 7, 32}) {
    CAPTURE(replicas);
    const RunPlan plan = plan_of(dir, job_of("\"d.csv\"", replicas));
    CHECK(plan.shards == uint32_t(replicas));
    CHECK(double(plan.share_records) == Approx(10'000.0 / replicas).epsilon(0.1));
    for (const uint32_t epoch : {0U, 3U}) {
      const std::vector<uint64_t> records = records_of(plan, epoch);
      CHECK(sum(records) == 10'000);
      const auto [least, most] = std::ranges::minmax_element(records);
      CHECK(double(*most) < 1.1 * double(*least) + 16);
    }
  }
}

TEST_CASE("the plan of shares isn't that of a number of batches with the same ranges", "[chief]") {
  const ScratchDir dir;
  dir.write("d.csv", short_rows(10'000));  // 8 bytes per record
  const auto four = [&](const std::string& sync_every, const std::string& more) {
    return plan_of(dir, job_of("\"d.csv\"", 4, "data.interleave.cycle = 16\n" + more, sync_every));
  };
  const RunPlan shares = four("\"epoch\"", "");
  // 32,768 batches of 32 records are the most records of a share.
  const RunPlan number = four("32768", "data.shard_records = 2500\n");
  const plan::ShardMap of_shares = shards_of(shares), of_number = shards_of(number);
  REQUIRE(of_shares.count() == 4);
  REQUIRE(of_number.count() == 4);
  for (uint32_t place = 0; place < 4; ++place)
    CHECK(of_shares.at(0, place) == of_number.at(0, place));
  CHECK(shares.plan_hash != number.plan_hash);
}

TEST_CASE("shares contain every record, however different the lengths of lines are", "[chief]") {
  const ScratchDir dir;
  dir.write("d.csv", uneven_rows(70'000));
  const RunPlan plan = plan_of(dir, job_of("\"d.csv\"", 2));
  CHECK(plan.shards == 2);
  CHECK(plan.share_records < 100'000);  // by the first lines alone it would be millions
  const std::vector<uint64_t> records = records_of(plan, 0);
  CHECK(sum(records) == 70'000);
  // The columns of a batch begin with room for 65,536 records. All of them are one share here.
  const RunPlan one = plan_of(dir, job_of("\"d.csv\"", 1));
  CHECK(records_of(one, 0) == std::vector<uint64_t>{70'000});
  // Several files, of which one is almost nothing.
  dir.write("e.csv", short_rows(3));
  CHECK(sum(records_of(plan_of(dir, job_of("\"*.csv\"", 3)), 1)) == 70'003);
}

TEST_CASE("a share above the most records of a round is refused, or a second round", "[chief]") {
  const ScratchDir dir;
  dir.write("d.csv", short_rows(1'100'000));
  const auto plan = try_plan(dir, job_of("\"d.csv\"", 1));
  REQUIRE_FALSE(plan);
  const Error& error = plan.error();
  INFO(error.what << " / " << error.hint);
  CHECK(error.where == "train.sync_every");
  CHECK_THAT(error.what, Contains("gives each of the 1 replicas about 1,10") &&
                             Contains("a replica can train at most 1,048,576 alone"));
  CHECK(error.hint ==
        "set train.replicas = 2; or set a number of batches, for example train.sync_every = 16");
  CHECK(plan_of(dir, job_of("\"d.csv\"", 2)).shards == 2);
}

TEST_CASE("files that can't be cut are divided as they are", "[chief]") {
  const ScratchDir dir;
  for (int f = 0; f < 5; ++f) dir.write(str("f", f, ".gz"), gzipped(short_rows(200 + 100 * f)));
  for (const int replicas : {1, 2, 4, 5}) {
    CAPTURE(replicas);
    const RunPlan plan = plan_of(dir, job_of("\"f*.gz\"", replicas));
    CHECK(plan.shards == uint32_t(replicas));
    CHECK(sum(records_of(plan, 0)) == 2000);
  }
  const auto few = try_plan(dir, job_of("\"f*.gz\"", 6));
  REQUIRE_FALSE(few);
  CHECK(few.error().what ==
        "sync_every = \"epoch\" divides the data among 6 replicas, but these "
        "data can only be cut into 5 parts");
  CHECK(few.error().hint ==
        "set train.replicas = 5; or split the data into more files with downpour shard; or set a "
        "number of batches, for example train.sync_every = 16");
  // One compressed file is read as a stream, with a piece for each replica.
  const RunPlan pieces = plan_of(dir, job_of("\"f4.gz\"", 3));
  CHECK(pieces.shards == 3);
  CHECK(sum(records_of(pieces, 0)) == 600);
  CHECK(plan_of(dir, job_of("\"f4.gz\"", 1)).shards == 1);
  CHECK_FALSE(try_plan(dir, job_of("\"f4.gz\"", 3, "data.cache = \"memory\"\n")));
}

TEST_CASE("with streams, a replica's share is its stream", "[chief]") {
  const ScratchDir dir;
  for (int f = 0; f < 5; ++f) dir.write(str("f", f, ".csv"), short_rows(200 + 100 * f));
  for (const std::string sharding : {"file", "data", "off"}) {
    CAPTURE(sharding);
    const RunPlan plan =
        plan_of(dir, job_of("\"f*.csv\"", 3, str("data.sharding = \"", sharding, "\"\n")));
    CHECK(plan.shards == 3);
    CHECK(sum(records_of(plan, 0)) == (sharding == "off" ? 6000 : 2000));
  }
}

TEST_CASE("a program is divided by its number of records, which must be known", "[chief]") {
  const ScratchDir dir;
  dir.write("d.csv", short_rows(1000));
  const auto source = [](const char* more) {
    return str("{ exec = [\"cat\", \"d.csv\"]", more, " }");
  };
  const RunPlan plan = plan_of(dir, job_of(source(", records = 1000"), 3));
  CHECK(plan.shards == 3);
  CHECK(plan.share_records == 334);
  CHECK(plan_of(dir, job_of(source(""), 1)).shards == 1);
  const auto unknown = try_plan(dir, job_of(source(""), 3));
  REQUIRE_FALSE(unknown);
  CHECK(unknown.error().what ==
        "sync_every = \"epoch\" divides the records of an epoch among 3 replicas, but the number "
        "of records of this program is unknown");
  CHECK_THAT(unknown.error().hint, Contains("set `records` of data.source; or set a number"));
}

TEST_CASE("a replica reads at most 256 files at once", "[chief]") {
  const ScratchDir dir;
  for (int f = 0; f < 300; ++f) dir.write(str("f", 1000 + f, ".csv"), "a,1\nb,2\n");
  const auto one = try_plan(dir, job_of("\"f*.csv\"", 1));
  REQUIRE_FALSE(one);
  CHECK_THAT(one.error().what,
             Contains("would make a replica read 300 files at once; the maximum is 256"));
  CHECK(sum(records_of(plan_of(dir, job_of("\"f*.csv\"", 2)), 0)) == 600);
}

}  // namespace
}  // namespace downpour::chief
