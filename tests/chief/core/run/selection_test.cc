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

}  // namespace
}  // namespace downpour::chief
