#include "shared/job/resume.h"

#include "tests/shared/job/job_test_support.h"

namespace downpour {
namespace {

const char* const kText = R"(
data = { source = "d", format = "criteo" }
model = { preset = "wide_deep" }
optimizer = { type = "adagrad", rules = [{ variables = "wide/*", type = "ftrl" }] }
eval = { holdout = 0.1 }
)";

/// Returns the frozen keys that differ after `change`.
std::vector<std::string> frozen_keys(void (*change)(Job&), bool epoch_open) {
  const Job saved = test::completed(kText);
  Job now = saved;
  change(now);
  std::vector<std::string> keys;
  for (const FrozenDifference& one : frozen_differences(saved, now, epoch_open))
    keys.push_back(one.key);
  return keys;
}

using Keys = std::vector<std::string>;

TEST_CASE("keys that may change on resume are not reported, even within an epoch",
          "[job][resume]") {
  const auto change = [](Job& job) {
    job.train.epochs = 9;
    job.train.in_flight = 7;
    job.optimizer.learning_rate = 0.5F;
    job.optimizer_rules[0].optimizer.learning_rate = 0.5F;
    job.eval.metrics = {"auc"};
    job.model.outputs[0].metrics = {"logloss"};
    job.cluster.ps = 4;
    job.cluster.workers = 8;
    job.data.prefetch = 3;
    job.data.parallelism = 2;
    job.data.bad_records = BadRecords::kSkip;
    job.name = "other";
    job.run_dir = "/x";
    job.base_dir = "/y";
  };
  CHECK(frozen_keys(change, true).empty());
}

TEST_CASE("keys that are frozen within an epoch may change between epochs", "[job][resume]") {
  const auto change = [](Job& job) {
    job.data.source.paths = {"e"};
    job.data.fields[1].fallback = "1";
    job.data.shuffle = "off";
    job.train.batch_size = 64;
    job.train.drop_remainder = true;
    job.eval.holdout = 0.2;
  };
  CHECK(frozen_keys(change, true) == Keys{"data.source", "data.shuffle", "data.fields.I1.default",
                                          "train.batch_size", "train.drop_remainder",
                                          "eval.holdout"});
  CHECK(frozen_keys(change, false).empty());
}

TEST_CASE("seed, partitions, model and optimizer types are frozen for the run", "[job][resume]") {
  const auto change = [](Job& job) {
    job.seed = 2;
    job.partitions = 64;
    job.model.layers[1].dim = 8;
    job.optimizer.type = OptimizerType::kSgd;
    job.optimizer_rules.clear();
  };
  CHECK(frozen_keys(change, false) == Keys{"seed", "partitions", "model.layers[1].dim",
                                           "optimizer.type", "optimizer.rules[0].variables",
                                           "optimizer.rules[0].type"});
  const auto extra_layer = [](Job& job) { job.model.layers.push_back(job.model.layers[0]); };
  CHECK_FALSE(frozen_keys(extra_layer, false).empty());
}

TEST_CASE("the error names the key, both values and the possible actions", "[job][resume]") {
  const Job saved = test::completed(kText);
  Job now = saved;
  now.train.batch_size = 64;
  const auto differences = frozen_differences(saved, now, true);
  REQUIRE(differences.size() == 1);
  CHECK(differences[0] == FrozenDifference{"train.batch_size", "512", "64", false});
  const Error error = frozen_error(differences, "/runs/x");
  CHECK(error.what.find("`train.batch_size` was 512 and is 64 now") != std::string::npos);
  CHECK(error.hint.find("--fresh") != std::string::npos);
  CHECK(exit_code(error.code) == 78);
}

}  // namespace
}  // namespace downpour
