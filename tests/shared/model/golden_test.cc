// One step, compared with values that golden.py computes independently of the C++ code's formulas.
#include "tests/shared/model/golden_wide_deep.h"
#include "tests/shared/model/support.h"

using namespace downpour;
using namespace downpour::model;

TEST_CASE("a Wide & Deep step matches the golden loss, predictions and gradients",
          "[model][numeric]") {
  const Job job = make_job(
      {key_field("a"), key_field("b"), number_field("x", 2), number_field("label")},
      {{.name = "wide", .type = "linear", .inputs = {"a", "b", "x"}},
       {.name = "emb", .type = "embedding", .inputs = {"a", "b"}, .dim = 3, .table = "shared"},
       {.name = "tower",
        .type = "dense",
        .inputs = {"emb", "x"},
        .units = {4, 1},
        .activation = "relu"},
       {.name = "logit", .type = "add", .inputs = {"wide", "tower"}}},
      {{.name = "click", .input = "logit", .loss = "logistic", .target = "label"}});
  Trial trial(job, uint32_t(golden::kLabels.size()), 1, 4);
  trial.batch.bags[0].keys = golden::kKeysA;
  trial.batch.bags[1].keys = golden::kKeysB;
  trial.column("x").values = golden::kNumbers;
  trial.column("label").values = golden::kLabels;
  REQUIRE(trial.values.size() == golden::kVariables.size());
  for (size_t v = 0; v < trial.values.size(); ++v) {
    REQUIRE(trial.values[v].size() == golden::kVariables[v].values.size());
    std::copy(golden::kVariables[v].values.begin(), golden::kVariables[v].values.end(),
              trial.values[v].begin());
  }
  const BatchMetrics metrics = trial.train();
  CHECK(metrics[0].sums.loss / metrics[0].sums.weight == Approx(golden::kLoss).epsilon(1e-6));
  for (size_t v = 0; v < trial.values.size(); ++v) {
    for (size_t i = 0; i < trial.values[v].size(); ++i) {
      CAPTURE(golden::kVariables[v].name, i);
      // float32 sums of at most ten terms of size about 1
      CHECK(trial.gradients[v][i] ==
            Approx(golden::kVariables[v].gradient[i]).epsilon(1e-5).margin(2e-7));
    }
  }
  std::vector<std::vector<float>> predictions;
  trial.graph->forward(trial.batch, trial.views, *trial.workspace, 1, predictions, nullptr);
  for (size_t r = 0; r < predictions[0].size(); ++r) {
    CHECK(predictions[0][r] == Approx(golden::kPredictions[r]).epsilon(1e-5));
  }
}
