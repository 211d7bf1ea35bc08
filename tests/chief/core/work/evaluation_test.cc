#include "chief/core/work/evaluation.h"

#include <array>
#include <cmath>
#include <utility>

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
  const Evaluation a = forward.finish({}, 25), b = backward.finish({}, 25);
  CHECK(a.outputs == b.outputs);
  CHECK(a.outputs[0].sums.weight == 8);
  REQUIRE(a.rankings.size() == 1);
  CHECK(a.rankings[0].auc == 1.0);
  CHECK(a.rankings[0].pr_auc == 1.0);
  CHECK(a.counts.read == 8);
  CHECK(a.wall_ns == 20);
  CHECK(a.epochs_trained == 2);
}

TEST_CASE("an evaluation has reliability bins of probabilities, and none of margins",
          "[chief][core]") {
  Job job;
  job.model.outputs = {{.name = "click", .loss = "logistic"}};
  const auto bins = [&] {
    EvaluationRun run(1, 2, 5);
    run.take(0, report_of(1));
    return run.finish(job, 25).reliability.at(0);
  };
  REQUIRE(bins().size() == 2);
  CHECK(bins()[0].records == 1);
  CHECK(bins()[0].observed == 0);
  CHECK(bins()[1].observed == 1);
  job.model.outputs[0].loss = "hinge";
  CHECK(bins().empty());
}

TEST_CASE("slices are merged over the shards, and keep only what follows from their histograms",
          "[chief][core]") {
  EvaluationRun run(1, 2, 5);
  for (uint32_t s = 0; s < 2; ++s) {
    wire::EvalReport report = report_of(1);
    report.slices = {report.outputs[0], {}};
    report.slices[1].sums.weight = s;
    run.take(s, std::move(report));
  }
  const Evaluation evaluation = run.finish({}, 25);
  REQUIRE(evaluation.slices.size() == 2);
  CHECK(evaluation.slices[0].sums == evaluation.outputs[0].sums);
  CHECK(evaluation.slices[0].auc.empty());
  CHECK(evaluation.slices[1].sums.weight == 1);
  REQUIRE(evaluation.slice_rankings.size() == 2);
  CHECK(evaluation.slice_rankings[0].auc == 1.0);
  CHECK(std::isnan(evaluation.slice_rankings[1].auc));
}

/// Returns the report of a batch of records {group, score, label}.
std::pair<wire::PredictReport, Bytes> grouped(uint32_t shard, uint32_t batch,
                                              const std::vector<std::array<float, 3>>& records) {
  std::vector<float> values;
  for (const auto& [group, score, label] : records)
    values.insert(values.end(), {group, 1.0F, score, label});
  return {{.lease = {.shard = {0, shard}}, .batch = batch, .records = uint32_t(records.size())},
          Bytes::of(std::move(values))};
}

TEST_CASE("groups are ranked over all shards, and each batch counts once", "[chief][core]") {
  Job job;
  job.model.outputs.resize(1);
  job.eval.group_by = "user";
  job.eval.ndcg_at = 1;
  EvaluationRun run(1, 2, 5);
  const auto take = [&](uint32_t shard, uint32_t batch,
                        const std::vector<std::array<float, 3>>& records) {
    auto [report, values] = grouped(shard, batch, records);
    return run.take_groups(job, report, std::move(values));
  };
  wire::EvalReport report = report_of(1);
  report.counts.applied = 3;
  CHECK_FALSE(run.has_groups(job, report));
  CHECK(run.has_groups({}, report));
  // Group 7 has an AUC of 1/2, group 8 of 1; the last record of group 8 has the weight 0.
  CHECK(take(0, 1, {{7, 0.5F, 1}}));
  CHECK(take(0, 1, {{7, 0.5F, 1}}));
  CHECK_FALSE(run.has_groups(job, report));
  CHECK(take(0, 0, {{7, 0.1F, 0}, {8, 0.1F, 0}}));
  CHECK(run.has_groups(job, report));
  CHECK(take(1, 0, {{7, 0.9F, 0}, {8, 0.2F, 1}, {8, 0.9F, -1}}));
  for (uint32_t s = 0; s < 2; ++s) run.take(s, report_of(1));
  const Evaluation evaluation = run.finish(job, 25);
  CHECK(evaluation.rankings[0].gauc == Approx((3 * 0.5 + 2 * 1.0) / 5));
  CHECK(evaluation.rankings[0].ndcg == 0.5);
  CHECK_FALSE(evaluation.groups_dropped);
}

TEST_CASE("records with groups that do not fit the job are refused, and too many are dropped",
          "[chief][core]") {
  Job job;
  job.model.outputs.resize(1);
  job.eval.group_by = "user";
  EvaluationRun run(1, 2, 5);
  auto [report, values] = grouped(0, 0, {{7, 0.5F, 1}, {-3, 0.5F, 1}, {1e30F, 0.5F, 0}});
  const wire::PredictReport more{.lease = report.lease, .records = 4};
  CHECK_FALSE(run.take_groups(job, more, Bytes(values)));
  CHECK_FALSE(run.take_groups(job, {.lease = report.lease}, {}));
  CHECK(run.take_groups(job, report, std::move(values)));
  std::vector<float> many(4 * 65536, 1.0F);
  const Bytes batch = Bytes::of(std::move(many));
  wire::PredictReport large{.lease = report.lease, .records = 65536};
  for (large.batch = 1; large.batch < 160; ++large.batch)
    CHECK(run.take_groups(job, large, Bytes(batch)));
  wire::EvalReport shard = report_of(1);
  shard.counts.applied = 20'000'000;
  CHECK(run.has_groups(job, shard));
  run.take(0, std::move(shard));
  const Evaluation evaluation = run.finish(job, 25);
  CHECK(evaluation.groups_dropped);
  CHECK(std::isnan(evaluation.rankings[0].gauc));
}

TEST_CASE("a report must have the outputs and the slices of the job", "[chief][core]") {
  Job job;
  job.model.outputs.resize(1);
  wire::EvalReport report = report_of(1);
  CHECK(wrong_report(job, report).empty());
  job.eval.slices = {{.field = "a", .values = {"x"}}, {.field = "b", .top = 4}};
  CHECK(slice_count(job) == 2 + 5);
  CHECK(wrong_report(job, report) == "it reported 0 metrics of slice rows, but the job has 7");
  report.slices.resize(7);
  CHECK(wrong_report(job, report).empty());
  report.outputs.resize(2);
  CHECK(wrong_report(job, report) == "it reported 2 outputs, but the model has 1");
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
  CHECK(take(0, 1, 2, true) == kBroken);  // without batch 1
  CHECK(take(0, 2, 1, false) == kKept);   // overtakes batch 0
  CHECK(take(0, 2, 0, false) == kKept);
  CHECK(take(0, 2, 1, false) == kRepeated);
  CHECK(take(0, 2, 2, true) == kWhole);
  CHECK(take(2, 1, 0, false) == kKept);
  CHECK(take(2, 1, 5, false) == kKept);
  CHECK(take(2, 1, 2, true) == kBroken);  // three batches, but not 0 to 2
  const auto batches = run.next_in_order();
  REQUIRE(batches.size() == 4);
  CHECK(batches[0].values.load<float>(0) == 2.0F);
  for (uint32_t i = 0; i < 3; ++i) CHECK(batches[i].batch == i);
  CHECK(batches[3].shard == 1);
  CHECK(run.records() == 8);
  CHECK(run.first_missing() == 2);
}

}  // namespace
}  // namespace downpour::chief
