// The keys of local training: how they are read, printed, frozen and checked.
#include "shared/job/resume.h"
#include "tests/shared/job/job_test_support.h"

namespace downpour {
namespace {

TEST_CASE("rounds of replicas that train alone are read, printed and frozen", "[job]") {
  const std::string local = "train.mode = \"local\"\ntrain.replicas = 4\n";
  const Job usual = test::loaded(test::small_job(local));
  CHECK(usual.train.sync_every == kSyncEveryDefault);
  CHECK(usual.train.part_records() == usual.train.batch_size * kSyncEveryDefault);
  CHECK(usual.train.outer.type == OptimizerType::kSgd);
  CHECK(usual.train.outer.learning_rate == 1.0F);
  CHECK(job_to_toml(usual).find("outer") == std::string::npos);
  CHECK(job_to_toml(usual).find("average") == std::string::npos);
  const Job job = test::loaded(test::small_job(
      local +
      "train.sync_every = 8\ntrain.average = \"touched\"\ntrain.outer = { type = \"momentum\" }\n" +
      "optimizer.type = \"adagrad\"\n"));
  CHECK(job.train.sync_every == 8);
  CHECK(job.train.average == "touched");
  CHECK(job.train.outer.learning_rate == 0.7F);
  CHECK(job.train.outer.momentum == 0.9F);
  CHECK(job.train.outer.nesterov);
  const auto again = job_from_toml(job_to_toml(job), job.base_dir);
  REQUIRE(again);
  CHECK(again->train == job.train);
  CHECK(test::loaded(test::small_job()).train.part_records() ==
        test::loaded(test::small_job()).train.batch_size);

  Job other = job;
  other.train.sync_every = 4;
  CHECK(frozen_differences(job, other, true).size() == 1);
  other.train.average = "all";
  CHECK(frozen_differences(job, other, true).size() == 2);
  CHECK(frozen_differences(job, other, false).empty());
  // The ps store the state of `outer` in this mode, and that of `optimizer` in the others.
  const auto mode =
      frozen_differences(test::loaded(test::small_job("train.mode = \"sync\"\n")), usual, false);
  REQUIRE(mode.size() == 1);
  CHECK(mode[0].key == "train.mode");
  CHECK(mode[0].for_the_run);
}

TEST_CASE("a round may be a replica's share of an epoch", "[job]") {
  const std::string local = "train.mode = \"local\"\ntrain.replicas = 4\n";
  const Job job = test::loaded(
      test::small_job(local + "train.sync_every = \"epoch\"\ntrain.batch_size = 300\n"));
  CHECK(job.train.whole_epochs());
  CHECK(job.train.shares() == 4);
  CHECK(job.train.part_records() == 1'048'500);  // the most batches of 300 in 1,048,576 records
  CHECK(job.train.eval_records() == 300);
  CHECK(job_to_toml(job).find("sync_every = \"epoch\"") != std::string::npos);
  const auto again = job_from_toml(job_to_toml(job), job.base_dir);
  REQUIRE(again);
  CHECK(again->train == job.train);

  const Job number = test::loaded(test::small_job(local + "train.sync_every = 7\n"));
  CHECK_FALSE(number.train.whole_epochs());
  CHECK(number.train.shares() == 0);
  CHECK(number.train.eval_records() == 7 * number.train.batch_size);
  CHECK(test::loaded(test::small_job()).train.shares() == 0);
  Job other = job;
  other.train.sync_every = 7;
  CHECK(frozen_differences(job, other, false).empty());
  const auto inside = frozen_differences(job, other, true);
  REQUIRE(inside.size() == 1);
  CHECK(inside[0].was == "\"epoch\"");
  CHECK(inside[0].now == "7");
}

TEST_CASE("a job whose epochs can't be divided into one shard per replica is refused", "[job]") {
  const std::string epochs = "train.mode = \"local\"\ntrain.sync_every = \"epoch\"\n";
  const auto error = [&](const std::string& lines) {
    return test::error_of(test::small_job(epochs + lines));
  };
  const Error shards = error("data.shard_records = 500\n");
  CHECK(shards.what.find("one shard for each replica, but `shard_records` is 500") !=
        std::string::npos);
  CHECK(shards.hint == "leave it out, or set train.sync_every to a number of batches");
  CHECK(error("train.drop_remainder = true\n").what.find("all batches") != std::string::npos);
  CHECK(test::error_of(test::small_job("train.sync_every = \"epoch\"\n")).what ==
        "mode \"async\" has no rounds of replicas that train alone");
  CHECK(test::error_of(test::small_job("train.mode = \"local\"\ntrain.sync_every = \"epochs\"\n"))
            .hint == "a number, or \"epoch\"");
}

TEST_CASE("a job with rounds is refused if a part of it would not do what it says", "[job]") {
  const auto error = [](const std::string& lines) {
    return test::error_of(test::small_job("train.mode = \"local\"\ntrain.replicas = 2\n" + lines));
  };
  CHECK(error("train.sync_every = 0\n").where.find("job.toml:6") != std::string::npos);
  CHECK(error("train.sync_every = 1048576\n").what.find("more than 1048576 records") !=
        std::string::npos);
  CHECK(error("train.backups = 1\n").what == "mode \"local\" has no backups");
  CHECK(error("train.drop_remainder = true\n").what.find("all batches") != std::string::npos);
  CHECK(error("train.steps_per_epoch = 9\n").what.find("all batches") != std::string::npos);
  CHECK(error("train.outer = { type = \"adam\" }\n").what.find("can't be adam") !=
        std::string::npos);
  CHECK(error("optimizer.type = \"ftrl\"\ntrain.outer.learning_rate = 0.5\n").what.find("ftrl") !=
        std::string::npos);
  CHECK(test::error_of(test::small_job("train.sync_every = 2\n")).what ==
        "mode \"async\" has no rounds of replicas that train alone");
  CHECK(test::error_of(test::small_job("train.mode = \"sync\"\ntrain.average = \"touched\"\n"))
            .what == "mode \"sync\" has no rounds of replicas that train alone");
  CHECK(error("train.average = \"some\"\n").hint == "use one of: all, touched");
  CHECK(test::error_of(test::small_job("train.mode = \"sync\"\ntrain.outer.learning_rate = 0.5\n"))
            .what == "mode \"sync\" has no rounds of replicas that train alone");
  // Each batch is clipped where it is trained.
  CHECK(test::loaded(test::small_job("train.mode = \"local\"\noptimizer.clip = { norm = 1 }\n"))
            .clip.norm == 1.0F);
}

}  // namespace
}  // namespace downpour
