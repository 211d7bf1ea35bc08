// One step, compared with values that golden.py computes independently of the C++ code's formulas.
#include "tests/shared/model/golden_check.h"
#include "tests/shared/model/golden_wide_deep.h"

using namespace downpour;
using namespace downpour::model;

TEST_CASE("a Wide & Deep step matches the golden loss, predictions and gradients",
          "[model][numeric]") {
  const Job job =
      wide_deep_job({key_field("a"), key_field("b"), number_field("x", 2), number_field("label")},
                    {.inputs = {"a", "b"}, .dim = 3, .table = "shared"}, {"x"}, {4, 1});
  Trial trial(job, uint32_t(golden::kLabels.size()), 1, 4);
  trial.batch.bags[0].keys = golden::kKeysA;
  trial.batch.bags[1].keys = golden::kKeysB;
  trial.column("x").values = golden::kNumbers;
  trial.column("label").values = golden::kLabels;
  set_weights(trial, golden::kVariables);
  const BatchMetrics metrics = trial.train();
  CHECK(metrics[0].sums.loss / metrics[0].sums.weight == Approx(golden::kLoss).epsilon(1e-6));
  // Sums of at most ten terms of size about 1.
  check_gradients(trial, golden::kVariables, 2e-7);
  check_predictions(trial, golden::kPredictions);
}
