#include "chief/core/run/selection.h"

#include <cmath>
#include <limits>

namespace downpour::chief {

double evaluation_loss(const Job& job, const Evaluation& evaluation) {
  const std::vector<OutputSpec>& specs = job.model.outputs;
  if (evaluation.outputs.empty() || evaluation.outputs.size() != specs.size())
    return std::numeric_limits<double>::quiet_NaN();
  double loss = 0;
  for (size_t o = 0; o < specs.size(); ++o) {
    const OutputSums& sums = evaluation.outputs[o].sums;
    loss += double(specs[o].weight) * sums.loss / sums.weight;
  }
  return loss;
}

namespace {

/// Returns the index of the lowest finite loss, the first one on a tie; the number of evaluations
/// if there is none.
size_t best_of(const Job& job, const std::vector<Evaluation>& evaluations) {
  size_t best = evaluations.size();
  double lowest = std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < evaluations.size(); ++i) {
    const double loss = evaluation_loss(job, evaluations[i]);
    if (!std::isfinite(loss) || loss >= lowest) continue;
    lowest = loss;
    best = i;
  }
  return best;
}

}  // namespace

uint32_t best_epochs(const Job& job, const std::vector<Evaluation>& evaluations) {
  const size_t best = best_of(job, evaluations);
  return best == evaluations.size() ? 0 : evaluations[best].epochs_trained;
}

bool stops_early(const Job& job, const std::vector<Evaluation>& evaluations) {
  const uint32_t patience = job.eval.early_stop.patience;
  if (patience == 0) return false;
  const size_t best = best_of(job, evaluations);
  return best < evaluations.size() && evaluations.size() - 1 - best >= patience;
}

}  // namespace downpour::chief
