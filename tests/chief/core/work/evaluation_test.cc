#include "chief/core/work/evaluation.h"

#include <cmath>

#include <catch2/catch.hpp>

#include "chief/core/work/prediction.h"
#include "shared/metrics/merge_outputs.h"

namespace downpour::chief {
namespace {

wire::EvalReport report_of(double loss) {
  return {.counts = {.batches = 1, .read = 2, .applied = 2},
          .outputs = {{.sums = {.weight = 2, .loss = loss}, .auc = {{3, 1, 0}, {7, 0, 1}}}}};
}

TEST_CASE("an evaluation's bits do not depend on the order of its reports", "[chief][core]") {
  const std::vector<double> losses{0.1, 1e17, -1e17, 0.3};
  EvaluationRun forward(1, 2, 5), backward(1, 2, 5);
  for (uint32_t s = 0; s < 4; ++s) forward.take(s, report_of(losses[s]));
  for (uint32_t s = 4; s-- > 0;) backward.take(s, report_of(losses[s]));
  const Evaluation a = forward.finish(25), b = backward.finish(25);
  CHECK(a.outputs == b.outputs);
  CHECK(a.outputs[0].sums.weight == 8);
  REQUIRE(a.rankings.size() == 1);
  CHECK(a.rankings[0].auc == 1.0);
  CHECK(a.rankings[0].pr_auc == 1.0);
  CHECK(a.counts.read == 8);
  CHECK(a.wall_ns == 20);
  CHECK(a.epochs_trained == 2);
}

TEST_CASE("an invalid histogram of a peer is skipped", "[chief][core]") {
  std::vector<OutputMetrics> sums;
  merge_outputs(sums, {{.sums = {.weight = 1}, .auc = {{5, 1, 0}, {4, 1, 0}}}});
  merge_outputs(sums, {{.sums = {.weight = 1}, .auc = {{kAucBuckets, 1, 0}}}});
  CHECK(sums[0] == OutputMetrics{});
}

TEST_CASE("predictions of complete attempts come in order, those of incomplete ones never",
          "[chief][core]") {
  PredictionRun run;
  const auto take = [&](uint32_t shard, uint32_t attempt, uint32_t batch, bool ended) {
    return run.take({.lease = {.shard = {0, shard}, .attempt = attempt},
                     .batch = batch,
                     .records = 2,
                     .ended = ended},
                    Bytes::of(std::vector<float>{float(attempt), 0}));
  };
  using enum PredictionRun::Verdict;
  CHECK(take(1, 1, 0, true) == kWhole);
  CHECK(run.next_in_order().empty());
  CHECK(take(0, 1, 0, false) == kKept);
  CHECK(take(0, 1, 0, false) == kRepeated);
  CHECK(take(0, 1, 2, false) == kBroken);
  CHECK(take(0, 2, 0, false) == kKept);
  CHECK(take(0, 2, 1, true) == kWhole);
  const auto batches = run.next_in_order();
  REQUIRE(batches.size() == 3);
  CHECK(batches[0].values.load<float>(0) == 2.0F);
  CHECK(batches[2].shard == 1);
  CHECK(run.records() == 6);
  CHECK(run.first_missing() == 2);
}

}  // namespace
}  // namespace downpour::chief
