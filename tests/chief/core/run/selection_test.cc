#include "chief/core/run/selection.h"

#include <cmath>

#include <catch2/catch.hpp>

namespace downpour::chief {
namespace {

/// Returns evaluations after epochs 1, 2, ... with these mean losses of one output.
std::vector<Evaluation> evaluations_of(const std::vector<double>& losses) {
  std::vector<Evaluation> evaluations;
  for (const double loss : losses) {
    Evaluation& evaluation = evaluations.emplace_back();
    evaluation.epochs_trained = uint32_t(evaluations.size());
    evaluation.outputs.push_back({.sums = {.weight = 10, .loss = 10 * loss}});
  }
  return evaluations;
}

Job job_with(uint32_t patience) {
  Job job;
  job.model.outputs.resize(1);
  job.eval.early_stop.patience = patience;
  return job;
}

TEST_CASE("the best epoch has the lowest finite loss, the earliest on a tie", "[chief][core]") {
  const Job job = job_with(0);
  CHECK(best_epochs(job, {}) == 0);
  CHECK(best_epochs(job, evaluations_of({0.5, 0.4, 0.6})) == 2);
  CHECK(best_epochs(job, evaluations_of({0.4, 0.5, 0.4})) == 1);
  CHECK(best_epochs(job, evaluations_of({NAN, 0.5, INFINITY})) == 2);
  CHECK(best_epochs(job, evaluations_of({NAN})) == 0);
  std::vector<Evaluation> nothing_evaluated(1);
  CHECK(best_epochs(job, nothing_evaluated) == 0);
}

TEST_CASE("an evaluation is compared with a kept one, if both have read the same data",
          "[chief][core]") {
  Job job = job_with(2);
  std::vector<Evaluation> evaluations = evaluations_of({0.5, 0.4, 0.6, NAN, 0.7, 0.7});
  CHECK(is_better(job, evaluations, 2, 1));
  CHECK_FALSE(is_better(job, evaluations, 3, 2));
  CHECK(is_better(job, evaluations, 3, 4));
  CHECK_FALSE(is_better(job, evaluations, 4, 3));
  CHECK(is_better(job, evaluations, 3, 0));        // no model is kept
  CHECK_FALSE(is_better(job, evaluations, 7, 0));  // was not evaluated
  CHECK_FALSE(is_better(job, evaluations, 6, 5));
  CHECK(stops_early(job, evaluations));
  for (Evaluation& evaluation : evaluations)
    evaluation.data = evaluation.epochs_trained < 5 ? 7 : 8;
  CHECK(is_better(job, evaluations, 5, 2));
  CHECK(best_epochs(job, evaluations) == 5);
  CHECK_FALSE(stops_early(job, evaluations));
  evaluations[4].data = evaluations[5].data = 0;  // of an older build
  CHECK_FALSE(is_better(job, evaluations, 5, 2));
  CHECK(best_epochs(job, evaluations) == 2);
}

TEST_CASE("the losses of several outputs add up with their weights", "[chief][core]") {
  Job job = job_with(0);
  job.model.outputs.resize(2);
  job.model.outputs[1].weight = 3;
  std::vector<Evaluation> evaluations = evaluations_of({0.1, 0.9});
  evaluations[0].outputs.push_back({.sums = {.weight = 2, .loss = 2}});
  evaluations[1].outputs.push_back({.sums = {.weight = 2, .loss = 1}});
  CHECK(evaluation_loss(job, evaluations[0]) == Approx(3.1));
  CHECK(evaluation_loss(job, evaluations[1]) == Approx(2.4));
  CHECK(best_epochs(job, evaluations) == 2);
  evaluations[0].outputs[1].sums = {};  // no record has a weight
  CHECK(evaluation_loss(job, evaluations[0]) == Approx(0.1));
  evaluations[0].outputs[0].sums = {};
  CHECK(std::isnan(evaluation_loss(job, evaluations[0])));
}

TEST_CASE("a metric of a histogram decides, also after the histogram is gone", "[chief][core]") {
  Job job = job_with(2);
  job.model.outputs[0].loss = "logistic";
  std::vector<Evaluation> evaluations = evaluations_of({0.5, 0.4, 0.3, 0.2});
  const double values[] = {0.7, 0.9, 0.8, 0.8};
  for (const RankingMetric& metric : kRankingMetrics) {
    CAPTURE(metric.name);
    job.eval.early_stop.metric = metric.name;
    for (size_t i = 0; i < 4; ++i) {
      evaluations[i].rankings.assign(1, {});
      evaluations[i].rankings[0].*metric.value = values[i];
    }
    CHECK(best_epochs(job, evaluations) == 2);
    CHECK(stops_early(job, evaluations));
  }
}

TEST_CASE("another metric decides about the best epoch and the end", "[chief][core]") {
  Job job = job_with(2);
  job.model.outputs[0].loss = "logistic";
  job.eval.early_stop.metric = "accuracy";
  // The losses fall, and the accuracies are 0.7, 0.9, 0.8, 0.9.
  std::vector<Evaluation> evaluations = evaluations_of({0.5, 0.4, 0.3, 0.2});
  const double correct[] = {7, 9, 8, 9};
  for (size_t i = 0; i < 4; ++i) evaluations[i].outputs[0].sums.correct = correct[i];
  CHECK(best_epochs(job, evaluations) == 2);
  CHECK(stops_early(job, evaluations));
  CHECK(best_text(job) == "the best evaluation by accuracy");
  CHECK(judged_text(job) == "the evaluated accuracy");
  job.eval.early_stop.metric = "loss";
  CHECK(best_epochs(job, evaluations) == 4);
  CHECK_FALSE(stops_early(job, evaluations));
  job.eval.early_stop.min_delta = 0.15F;  // only the third loss is better by more
  evaluations.pop_back();
  CHECK_FALSE(stops_early(job, evaluations));
  job.eval.early_stop.min_delta = 0.25F;
  CHECK(stops_early(job, evaluations));
  CHECK(best_epochs(job, evaluations) == 3);
}

TEST_CASE("training stops after `patience` evaluations without a new lowest loss",
          "[chief][core]") {
  const Job job = job_with(2);
  CHECK_FALSE(stops_early(job, {}));
  CHECK_FALSE(stops_early(job, evaluations_of({0.5, 0.6})));
  CHECK(stops_early(job, evaluations_of({0.5, 0.6, 0.7})));
  CHECK(stops_early(job, evaluations_of({0.5, 0.7, 0.6})));
  CHECK_FALSE(stops_early(job, evaluations_of({0.5, 0.6, 0.4, 0.5})));
  CHECK(stops_early(job, evaluations_of({0.5, NAN, NAN})));
  CHECK_FALSE(stops_early(job_with(0), evaluations_of({0.5, 0.6, 0.7, 0.8})));
}

/// Returns a job whose plateau schedule may reduce the rate twice, each time after two evaluations.
Job job_with_plateau(uint32_t early_stop_patience) {
  Job job = job_with(early_stop_patience);
  job.optimizer.schedule = {.type = ScheduleType::kPlateau,
                            .factor = 0.5F,
                            .patience = 2,
                            .min_delta = 0.1F,
                            .min = 0.25F};
  return job;
}

TEST_CASE("a plateau waits for the first evaluation whose metric has a value", "[chief][core]") {
  Job job = job_with_plateau(0);
  job.model.outputs[0].loss = "logistic";
  job.eval.early_stop.metric = "precision";
  std::vector<Evaluation> evaluations = evaluations_of({0.5, 0.4, 0.3, 0.2, 0.1, 0.1});
  const double values[] = {NAN, NAN, NAN, 0.5, NAN, 0.4};
  for (size_t i = 0; i < 6; ++i) {
    evaluations[i].rankings.assign(1, {});
    evaluations[i].rankings[0].precision = values[i];
  }
  CHECK(plateau_after(job, evaluations, 3).waited == 0);
  CHECK(plateau_after(job, evaluations, 4).reductions == 0);
  CHECK(plateau_after(job, evaluations, 6).reductions == 1);  // it has not improved since
  // A loss that is not a number counts from the beginning: the rate is too high.
  job.eval.early_stop.metric = "loss";
  CHECK(plateau_after(job, evaluations_of({NAN, NAN}), 2).reductions == 1);
  std::vector<Evaluation> unweighted = evaluations_of({0.5, 0.4, 0.3});
  for (Evaluation& evaluation : unweighted) evaluation.outputs[0].sums = {};
  CHECK(plateau_after(job, unweighted, 3).reductions == 0);
}

TEST_CASE("a plateau reduces the rate after `patience` evaluations without improvement",
          "[chief][core]") {
  const Job job = job_with_plateau(0);
  const auto reductions = [&](const std::vector<double>& losses) {
    return plateau_after(job, evaluations_of(losses), UINT32_MAX).reductions;
  };
  CHECK(reductions({}) == 0);
  CHECK(reductions({0.5, 0.6}) == 0);
  CHECK(reductions({0.5, 0.6, 0.6}) == 1);
  CHECK(reductions({0.5, 0.6, 0.4, 0.6}) == 0);
  CHECK(reductions({1.0, 0.95, 0.91}) == 1);  // less than min_delta below the lowest loss
  CHECK(reductions({0.5, NAN, INFINITY}) == 1);
  CHECK(reductions({NAN, NAN, 0.5}) == 1);
  CHECK(reductions({0.5, 0.6, 0.6, 0.6}) == 1);  // the wait begins again
  CHECK(reductions({0.5, 0.6, 0.6, 0.4, 0.6, 0.6}) == 2);
  CHECK(reductions({0.5, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6}) == 2);  // the smallest factor
  CHECK(plateau_after(job_with(2), evaluations_of({0.5, 0.6, 0.6}), UINT32_MAX).reductions == 0);
}

TEST_CASE("the reductions of an epoch depend only on evaluations of earlier epochs",
          "[chief][core]") {
  const Job job = job_with_plateau(0);
  const std::vector<Evaluation> evaluations = evaluations_of({0.5, 0.6, 0.6, 0.6, 0.6, 0.7});
  const uint32_t want[] = {0, 0, 0, 1, 1, 2, 2};
  for (uint32_t epoch = 0; epoch < 7; ++epoch) {
    INFO("epoch " << epoch);
    CHECK(plateau_after(job, evaluations, epoch).reductions == want[epoch]);
  }
}

TEST_CASE("with a plateau, training stops after `patience` evaluations at the smallest rate",
          "[chief][core]") {
  const Job job = job_with_plateau(1);
  CHECK_FALSE(stops_early(job, evaluations_of({0.5, 0.6, 0.6})));
  CHECK_FALSE(stops_early(job, evaluations_of({0.5, 0.6, 0.6, 0.6, 0.6})));
  CHECK(stops_early(job, evaluations_of({0.5, 0.6, 0.6, 0.6, 0.6, 0.6})));
  CHECK_FALSE(stops_early(job, evaluations_of({0.5, 0.6, 0.6, 0.6, 0.6, 0.4})));
  CHECK_FALSE(stops_early(job_with_plateau(0), evaluations_of(std::vector<double>(50, 0.5))));
}

TEST_CASE("the plateau of a rule counts, and the slowest one decides about the end",
          "[chief][core]") {
  Job job = job_with(1);
  job.optimizer_rules.resize(2);
  job.optimizer_rules[1].optimizer.schedule = job_with_plateau(0).optimizer.schedule;
  const std::vector<Evaluation> evaluations = evaluations_of({0.5, 0.6, 0.6, 0.6, 0.6, 0.6});
  CHECK(plateau_after(job, evaluations, UINT32_MAX).reductions == 2);
  CHECK(stops_early(job, evaluations));
  job.optimizer_rules[0].optimizer.schedule = job.optimizer_rules[1].optimizer.schedule;
  job.optimizer_rules[0].optimizer.schedule.min = 0.125F;
  CHECK_FALSE(stops_early(job, evaluations));
}

}  // namespace
}  // namespace downpour::chief
