#include "shared/model/slices.h"

#include <cmath>

#include "shared/metrics/metrics.h"
#include "shared/metrics/ranking.h"
#include "tests/shared/model/support.h"

namespace downpour::model {
namespace {

/// A logistic, a softmax and a squared output of the same records, some with weights.
Job three_outputs() {
  Job job = make_job(
      {number_field("x"), number_field("label"), number_field("kind"), number_field("size"),
       number_field("w")},
      {{.name = "logit", .type = "linear", .inputs = {"x"}},
       {.name = "kinds", .type = "dense", .inputs = {"x"}, .units = {7}},
       {.name = "value", .type = "linear", .inputs = {"x"}}},
      {{.name = "click", .input = "logit", .loss = "logistic", .target = "label"},
       {.name = "kind", .input = "kinds", .loss = "softmax_cross_entropy", .target = "kind"},
       {.name = "size", .input = "value", .loss = "squared", .target = "size", .weights = "w"}});
  job.eval.slices = {{.field = "a", .values = {"1", "2"}}, {.field = "b", .values = {"1"}}};
  return job;
}

struct Evaluated {
  BatchMetrics whole;
  std::vector<OutputMetrics> slices;
};

Evaluated evaluate(Trial& trial, const Batch& batch, int threads = 1) {
  Evaluated out;
  std::vector<std::vector<float>> predictions;
  trial.graph->forward(batch, trial.views, *trial.workspace, threads, predictions, &out.whole,
                       &out.slices);
  return out;
}

void check_same(const OutputMetrics& a, const OutputMetrics& b) {
  for (double OutputSums::*sum :
       {&OutputSums::weight, &OutputSums::loss, &OutputSums::label, &OutputSums::label_squared,
        &OutputSums::prediction, &OutputSums::correct, &OutputSums::squared_error,
        &OutputSums::absolute_error, &OutputSums::in_top_k})
    CHECK(a.sums.*sum == Approx(b.sums.*sum).epsilon(1e-12));
  CHECK(a.auc == b.auc);
}

TEST_CASE("the metrics of a slice are those of its records alone, and the slices add up",
          "[model]") {
  constexpr uint32_t kRecords = 1300;  // several slots
  Trial trial(three_outputs(), kRecords, 5);
  // The last row has no records.
  std::vector<float> first(kRecords), second(kRecords, 0.0F);
  for (uint32_t r = 0; r < kRecords; ++r) first[r] = float(r * 7 % 5 % 3);
  trial.batch.floats.push_back({1, first});
  trial.batch.floats.push_back({1, second});
  const Evaluated evaluated = evaluate(trial, trial.batch);
  REQUIRE(evaluated.slices.size() == 5 * 3);
  CHECK(evaluate(trial, trial.batch, 3).slices == evaluated.slices);
  for (size_t o = 0; o < 3; ++o) {
    OutputMetrics sum;
    for (size_t row = 0; row < 3; ++row) merge(sum, evaluated.slices[row * 3 + o]);
    check_same(sum, evaluated.whole[o]);
    check_same(evaluated.slices[3 * 3 + o], evaluated.whole[o]);
    CHECK(evaluated.slices[4 * 3 + o] == OutputMetrics{});
  }
  CHECK_FALSE(evaluated.whole[0].auc.empty());
  for (size_t row = 0; row < 3; ++row) {
    Batch part;
    for (uint32_t r = 0; r < kRecords; ++r) {
      if (first[r] != float(row)) continue;
      const Batch one = slice(trial.batch, r, r + 1);
      part.records += 1;
      part.floats.resize(one.floats.size());
      for (size_t f = 0; f < one.floats.size(); ++f) {
        part.floats[f].values.insert(part.floats[f].values.end(), one.floats[f].values.begin(),
                                     one.floats[f].values.end());
      }
    }
    part.tables = trial.batch.tables;
    const Evaluated alone = evaluate(trial, part);
    for (size_t o = 0; o < 3; ++o) check_same(evaluated.slices[row * 3 + o], alone.whole[o]);
  }
}

TEST_CASE("a batch without the columns of the slices has none", "[model]") {
  Trial trial(three_outputs(), 10, 6);
  const Evaluated evaluated = evaluate(trial, trial.batch);
  CHECK(evaluated.slices.empty());
  CHECK(evaluated.whole[0].sums.weight == 10);
}

}  // namespace
}  // namespace downpour::model
