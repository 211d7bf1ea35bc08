// plan_run(): how the data of a run are cut.
#include <algorithm>

#include "shared/plan/range_limits.h"
#include "tests/chief/runtime/support.h"
#include "tests/support/compressed.h"
#include "tests/support/memory_limit.h"

namespace downpour::chief {
namespace {

using testing::gzipped;

constexpr const char* kRegression =
    "data.format = \"csv\"\ndata.columns = [\"x\", \"y\"]\ndata.fields = { x = {}, y = {} }\n"
    "model.preset = \"linear_regression\"\nmodel.target = \"y\"\n";

RunPlan plan_in(const ScratchDir& dir, const std::string& more,
                wire::Purpose purpose = wire::Purpose::kTrain) {
  return plan_of(dir, kRegression + more, purpose);
}

std::string rows(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += str(int64_t{i} * 7919 % 100'003, ",", i % 7, "\n");
  return text;
}

constexpr const char* kOneFile = "data.source = \"d.gz\"\n";

TEST_CASE(
    "one compressed file is cut into pieces of about the number of records that the job wants",
    "[chief]") {
  const ScratchDir dir;
  dir.write("d.gz", gzipped(rows(400'000)));  // 3 MB of text
  CHECK(plan_in(dir, kOneFile).shards == 1);  // not cut, and shuffled as one
  const std::string wanted = str(kOneFile, "data.shard_records = 10_000\n");
  const RunPlan plan = plan_in(dir, wanted);
  CHECK(plan.train_files[0].is_streamed());
  CHECK(plan.shards >= 36);
  CHECK(plan.shards <= 46);
  // The plan does not depend on input processes, so they may join and leave.
  CHECK(plan_in(dir, str(wanted, "cluster.input_workers = 1\n")).plan_hash == plan.plan_hash);
}

TEST_CASE("with backups the dense gradients of all replicas must fit into the ps", "[chief]") {
  const ScratchDir dir;
  dir.write("d.csv", rows(1000));
  const auto plan = [&](const std::string& more) {
    return try_plan(dir,
                    str("data.source = \"d.csv\"\ndata.format = \"csv\"\ndata.columns = [\"x\", "
                        "\"y\"]\ndata.fields = { x = {}, y = {} }\nmodel.preset = "
                        "\"softmax_mlp\"\nmodel.target = \"y\"\nmodel.units = [512, 512, 7]\n"
                        "train.mode = \"sync\"\ntrain.replicas = 8\n",
                        more));
  };
  const std::string small = "cluster.ps_memory = \"4MiB\"\n";
  CHECK(plan(small));
  CHECK(plan(small + "train.backups = 1\ncluster.ps = 4\n"));
  CHECK(plan("train.backups = 1\n"));
  const auto refused = plan(small + "train.backups = 1\n");
  REQUIRE_FALSE(refused);
  CHECK(refused.error().where == "train.backups");
  INFO(refused.error().what);
  CHECK(refused.error().what.find("gradients of 8 replicas") != std::string::npos);
  CHECK(refused.error().what.find("may keep only 4.0 MiB") != std::string::npos);
}

TEST_CASE("a step reports the norms of so many variables as fit into a message", "[chief]") {
  const ScratchDir dir;
  dir.write("d.csv", rows(1000));
  const auto plan = [&](const std::string& more) {
    std::string units = "1";
    for (int i = 0; i < 20; ++i) units += ", 1";
    return try_plan(dir, str("data.source = \"d.csv\"\ndata.format = \"csv\"\ndata.columns = "
                             "[\"x\", \"y\"]\ndata.fields = { x = {}, y = {} }\nmodel.preset = "
                             "\"softmax_mlp\"\nmodel.target = \"y\"\nmodel.units = [",
                             units, ", 7]\noptimizer.clip.norm = 1\n", more));
  };
  const std::string many = "partitions = 4096\n", sync = "train.mode = \"sync\"\n";
  CHECK(plan(many));
  CHECK(plan(sync));
  CHECK(plan(many + "train.mode = \"local\"\n"));
  const auto refused = plan(many + sync);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().where == "optimizer.clip.norm");
  CHECK(refused.error().what.find("at most 32 variables, but this one has 44") !=
        std::string::npos);
}

TEST_CASE("a path that is not UTF-8 is an error of the job", "[chief]") {
  const ScratchDir dir;
  dir.write("d.csv", rows(10));
  auto loaded = load_job(JobSource{dir / "job.toml", str(kRegression, "data.source = \"d.csv\"\n")},
                         {}, [](const std::string&) { return std::optional<std::string>(); });
  REQUIRE(loaded);
  REQUIRE(complete_job(loaded->job));
  REQUIRE(plan_run(loaded->job, wire::Purpose::kTrain));
  loaded->job.run_dir = "/runs/caf\xe9";
  const auto plan = plan_run(loaded->job, wire::Purpose::kTrain);
  REQUIRE(!plan);
  CHECK(plan.error().code == ErrorCode::kConfig);
  CHECK(plan.error().where == "run_dir");
  CHECK(plan.error().what.find("/runs/caf\\xe9") != std::string::npos);
}

TEST_CASE("a large compressed file is cut into pieces of 16 MiB, or of four batches", "[chief]") {
  const ScratchDir dir;
  const std::string few = rows(1'000'000);  // 8 MB
  std::string text;
  for (int i = 0; i < 12; ++i) text += few;
  dir.write("d.gz", gzipped(text));
  const RunPlan plan = plan_in(dir, kOneFile);
  CHECK(plan.shards >= 5);
  CHECK(plan.shards <= 7);
  const RunPlan batches = plan_in(dir, str(kOneFile, "train.batch_size = 1_000_000\n"));
  CHECK(batches.shards >= 3);
  CHECK(batches.shards <= 4);
  // A piece that would not fit into memory is not cut.
  CHECK(plan_in(dir, str(kOneFile, "data.shard_records = 100_000_000\n")).shards == 1);
}

TEST_CASE("a compressed file stays whole if pieces would not help", "[chief]") {
  const ScratchDir dir;
  dir.write("d.gz", gzipped(rows(400'000)));
  dir.write("e.gz", gzipped(rows(300'000)));
  dir.write("plain", rows(400'000));
  const auto is_streamed = [&](const std::string& more) {
    const RunPlan plan = plan_in(dir, "data.shard_records = 10_000\n" + more);
    return std::any_of(plan.train_files.begin(), plan.train_files.end(),
                       [](const plan::FileInfo& file) { return file.is_streamed(); });
  };
  CHECK(is_streamed(kOneFile));
  CHECK(is_streamed(str(kOneFile, "eval.holdout = 0.1\n")));
  CHECK_FALSE(is_streamed("data.source = [\"d.gz\", \"e.gz\"]\n"));
  CHECK_FALSE(is_streamed("data.source = \"plain\"\n"));
  for (const char* more :
       {"data.sharding = \"off\"\ndata.streams = 2\n", "data.cache = \"memory\"\n",
        "train.steps_per_epoch = 10\n", "data.interleave.cycle = 2\n"})
    CHECK_FALSE(is_streamed(str(kOneFile, more)));
  CHECK_FALSE(is_streamed("data.source = { path = \"d.gz\", take = 1000 }\n"));
}

TEST_CASE("the length of shards follows the records of files that are cut", "[chief]") {
  const ScratchDir dir;
  dir.write("a.gz", gzipped(rows(20'000)));
  dir.write("c", rows(20'000));
  const std::string shards = "data.shard_records = 1000\n";
  const uint64_t wanted = plan_in(dir, "data.source = \"c\"\n" + shards).shard_bytes;
  CHECK(wanted > 6'000);
  CHECK(plan_in(dir, str("data.source = [\"a.gz\", \"c\"]\n", shards)).shard_bytes == wanted);
  const auto mixed = try_plan(
      dir, str(kRegression, "data.source = [{ path = \"c\", weight = 1 }, { path = [\"a.gz\", ",
               "\"c\"], weight = 1 }]\n"));
  REQUIRE_FALSE(mixed);
  CHECK(mixed.error().what.find("a source of a mix has compressed files") == 0);
}

TEST_CASE("only the shards with chosen records of the source exist", "[chief]") {
  const ScratchDir dir;
  dir.write("a.csv", rows(100'000));
  dir.write("b.csv", rows(100'000));
  const std::string shards = "data.shard_records = 1000\n";
  const uint32_t all = plan_in(dir, "data.source = \"*.csv\"\n" + shards).shards;
  REQUIRE(all >= 180);
  const auto source = [&](const std::string& part) {
    return str("data.source = { path = \"*.csv\", ", part, " }\n", shards);
  };
  CHECK(plan_in(dir, source("take = 10")).shards == 1);
  CHECK(plan_in(dir, source("take = 3000")).shards <= 5);
  CHECK(plan_in(dir, source("skip = 199_990")).shards == 1);
  CHECK(plan_in(dir, source("skip = 99_990, take = 20")).shards == 2);
  CHECK(plan_in(dir, source("take = 1_000_000")).shards == all);
  CHECK(plan_in(dir, source("take = 10") + "eval.source = { path = \"b.csv\", take = 5 }\n")
            .eval_files[0]
            .leaves_out());
  const auto none = try_plan(dir, kRegression + source("skip = 200_000"));
  REQUIRE_FALSE(none);
  CHECK(none.error().where == "data.source.skip");
  const auto of_eval = try_plan(dir, kRegression + source("take = 10") +
                                         "eval.source = { path = \"b.csv\", skip = 100_000 }\n");
  REQUIRE_FALSE(of_eval);
  CHECK(of_eval.error().where == "eval.source.skip");
}

TEST_CASE("an evaluation reads a compressed file whole", "[chief]") {
  const ScratchDir dir;
  dir.write("d.gz", gzipped(rows(400'000)));
  const std::string wanted = str(kOneFile, "data.shard_records = 10_000\n");
  const RunPlan plan = plan_in(dir, str(wanted, "eval.source = \"d.gz\"\n"));
  CHECK(plan.train_files[0].is_streamed());
  CHECK_FALSE(plan.eval_files[0].is_cut());
  const RunPlan alone = plan_in(dir, wanted, wire::Purpose::kPredict);
  CHECK_FALSE(alone.train_files[0].is_cut());
}

TEST_CASE("shards of very large files are longer, so that their number stays limited", "[chief]") {
  const ScratchDir dir(/*in_memory=*/true);
  const std::string head = rows(100'000);
  constexpr uint64_t kTiB = 1024 * kGiB;
  if (!testing::write_sparse(dir / "d.csv", head, 100 * kTiB)) {
    WARN("SKIPPED: no file system here knows files of 100 TiB");
    return;
  }
  const std::string job = "data.source = \"d.csv\"\n";
  const RunPlan large = plan_in(dir, job);
  CHECK(large.shards <= plan::kRangesMax);
  CHECK(large.shards > plan::kRangesMax / 2);
  REQUIRE(testing::write_sparse(dir / "d.csv", head, 1024 * kTiB));
  const auto too_large = try_plan(dir, str(kRegression, job));
  REQUIRE_FALSE(too_large);
  CHECK(too_large.error().code == ErrorCode::kConfig);
  CHECK(too_large.error().where == "data.shard_records");
  CHECK(plan_in(dir, job + "data.shard_records = 200_000_000\n").shards <= plan::kRangesMax);
  // The product of records and their length does not fit 64 bits.
  CHECK(plan_in(dir, job + "data.shard_records = 1_000_000_000_000\n").shards < 1000);
  const auto too_small = try_plan(dir, str(kRegression, job, "data.shard_records = 1\n"));
  REQUIRE_FALSE(too_small);
  CHECK(too_small.error().where == "data.shard_records");
}

TEST_CASE("in synchronous training the replicas need as few steps as their batches allow",
          "[chief]") {
  const ScratchDir dir;
  std::string text;
  for (int i = 0; i < 600; ++i) text += "1,23456\n";  // 60 batches of 10 records
  dir.write("rows.csv", text);
  const auto batches_of = [&](const std::string& train) {
    const RunPlan plan =
        plan_of(dir,
                "data = { source = \"rows.csv\", format = \"csv\", columns = [\"x\", \"y\"], "
                "header = false, fields = { x = {}, y = {} } }\n"
                "model = { preset = \"linear_regression\", target = \"y\" }\n"
                "train = { batch_size = 10, " +
                    train + " }\n");
    return plan.shard_bytes / 80;
  };
  CHECK(batches_of("mode = \"async\"") == 4);
  CHECK(batches_of("mode = \"sync\", replicas = 1") == 4);
  CHECK(batches_of("mode = \"sync\", replicas = 2") == 5);   // 6 shards each, and not 8 and 7
  CHECK(batches_of("mode = \"sync\", replicas = 15") == 4);  // one shard each
  CHECK(batches_of("mode = \"sync\", replicas = 11") == 4);  // with 6 one would have none
}

}  // namespace
}  // namespace downpour::chief
