#include "chief/core/run/selection.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "shared/optim/schedule.h"

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

const ScheduleSpec* plateau_schedule(const Job& job) {
  if (job.optimizer.schedule.type == ScheduleType::kPlateau) return &job.optimizer.schedule;
  for (const OptimizerRule& rule : job.optimizer_rules) {
    if (rule.optimizer.schedule.type == ScheduleType::kPlateau) return &rule.optimizer.schedule;
  }
  return nullptr;
}

namespace {

/// Returns the number of reductions after which every plateau schedule has its smallest factor.
uint32_t reductions_max_of(const Job& job) {
  uint32_t reductions = 0;
  const auto add = [&](const OptimizerSpec& optimizer) {
    if (optimizer.schedule.type == ScheduleType::kPlateau)
      reductions = std::max(reductions, optim::reductions_max(optimizer.schedule));
  };
  add(job.optimizer);
  for (const OptimizerRule& rule : job.optimizer_rules) add(rule.optimizer);
  return reductions;
}

}  // namespace

Plateau plateau_after(const Job& job, const std::vector<Evaluation>& evaluations, uint32_t epochs) {
  const ScheduleSpec* schedule = plateau_schedule(job);
  Plateau plateau;
  if (schedule == nullptr) return plateau;
  const uint32_t reductions_max = reductions_max_of(job);
  double lowest = std::numeric_limits<double>::infinity();
  for (const Evaluation& evaluation : evaluations) {
    if (evaluation.epochs_trained > epochs) break;
    const double loss = evaluation_loss(job, evaluation);
    if (std::isfinite(loss) && (!std::isfinite(lowest) ||
                                loss < lowest - double(schedule->min_delta) * std::abs(lowest))) {
      lowest = loss;
      plateau.waited = 0;
    } else if (++plateau.waited >= schedule->patience && plateau.reductions < reductions_max) {
      ++plateau.reductions;
      plateau.waited = 0;
    }
  }
  plateau.at_min = plateau.reductions == reductions_max;
  return plateau;
}

bool stops_early(const Job& job, const std::vector<Evaluation>& evaluations) {
  const uint32_t patience = job.eval.early_stop.patience;
  if (patience == 0) return false;
  if (plateau_schedule(job) != nullptr) {
    const Plateau plateau = plateau_after(job, evaluations, std::numeric_limits<uint32_t>::max());
    return plateau.at_min && plateau.waited >= patience;
  }
  const size_t best = best_of(job, evaluations);
  return best < evaluations.size() && evaluations.size() - 1 - best >= patience;
}

}  // namespace downpour::chief
