#include "chief/core/run/selection.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "shared/base/str.h"
#include "shared/job/metric_names.h"
#include "shared/metrics/metrics.h"
#include "shared/metrics/ranking.h"
#include "shared/optim/schedule.h"

namespace downpour::chief {
namespace {

/// True if an output has records with weights above 0.
bool has_weights(const Evaluation& evaluation) {
  return std::ranges::any_of(evaluation.outputs,
                             [](const OutputMetrics& output) { return output.sums.weight != 0; });
}

}  // namespace

double evaluation_loss(const Job& job, const Evaluation& evaluation) {
  const std::vector<OutputSpec>& specs = job.model.outputs;
  if (evaluation.outputs.empty() || evaluation.outputs.size() != specs.size())
    return std::numeric_limits<double>::quiet_NaN();
  double loss = 0;
  for (size_t o = 0; o < specs.size(); ++o) {
    const OutputSums& sums = evaluation.outputs[o].sums;
    if (sums.weight != 0) loss += double(specs[o].weight) * sums.loss / sums.weight;
  }
  return has_weights(evaluation) ? loss : std::numeric_limits<double>::quiet_NaN();
}

double evaluated_metric(const Evaluation& evaluation, size_t output, std::string_view name) {
  const RankingMetric* const ranking = find_ranking_metric(name);
  if (ranking != nullptr && output < evaluation.rankings.size())
    return evaluation.rankings[output].*ranking->value;
  return compute_metric(name, evaluation.outputs[output]).value;
}

namespace {

bool by_loss(const Job& job) {
  const std::string& metric = job.eval.early_stop.metric;
  return metric.empty() || metric == "loss";
}

/// Returns the number that decides between evaluations. The lower, the better. NaN if the metric
/// has no value.
double score(const Job& job, const Evaluation& evaluation) {
  if (by_loss(job)) return evaluation_loss(job, evaluation);
  const std::string& metric = job.eval.early_stop.metric;
  for (size_t o = 0; o < job.model.outputs.size() && o < evaluation.outputs.size(); ++o) {
    const std::vector<std::string> known = supported_metrics(job.model.outputs[o].loss);
    if (std::ranges::find(known, metric) == known.end()) continue;
    const double value = evaluated_metric(evaluation, o, metric);
    // A calibration is best at 1.
    if (metric == "calibration") return std::abs(value - 1);
    return compute_metric(metric, {}).higher_is_better ? -value : value;
  }
  return std::numeric_limits<double>::quiet_NaN();
}

}  // namespace

bool other_data(const Evaluation& one, const Evaluation& other) {
  return one.data != 0 && other.data != 0 && one.data != other.data;
}

uint32_t best_epochs(const Job& job, const std::vector<Evaluation>& evaluations) {
  uint32_t best = 0;
  double lowest = std::numeric_limits<double>::infinity();
  for (const Evaluation& evaluation : evaluations) {
    if (other_data(evaluation, evaluations.back())) continue;
    const double now = score(job, evaluation);
    if (!std::isfinite(now) || now >= lowest) continue;
    lowest = now;
    best = evaluation.epochs_trained;
  }
  return best;
}

bool is_better(const Job& job, const std::vector<Evaluation>& evaluations, uint32_t epochs,
               uint32_t others) {
  const auto one = std::ranges::find(evaluations, epochs, &Evaluation::epochs_trained);
  const auto other = std::ranges::find(evaluations, others, &Evaluation::epochs_trained);
  if (one == evaluations.end() || !std::isfinite(score(job, *one))) return false;
  if (other == evaluations.end() || other_data(*one, *other)) return true;
  const double before = score(job, *other);
  return !std::isfinite(before) || score(job, *one) < before;
}

std::string best_text(const Job& job) {
  return by_loss(job) ? "the lowest evaluation loss"
                      : str("the best evaluation by ", job.eval.early_stop.metric);
}

std::string judged_text(const Job& job) {
  return by_loss(job) ? "the evaluation loss" : str("the evaluated ", job.eval.early_stop.metric);
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
    // An evaluation that leaves out all of its records says nothing.
    if (!has_weights(evaluation)) continue;
    if (&evaluation != &evaluations.front() && other_data(*(&evaluation - 1), evaluation))
      lowest = std::numeric_limits<double>::infinity();
    const double now = score(job, evaluation);
    // Such as the precision before any record is predicted positive.
    const bool undefined = std::isnan(now) && std::isfinite(evaluation_loss(job, evaluation));
    if (undefined && !std::isfinite(lowest)) continue;
    if (std::isfinite(now) &&
        (!std::isfinite(lowest) || now < lowest - double(schedule->min_delta) * std::abs(lowest))) {
      lowest = now;
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
  double lowest = std::numeric_limits<double>::infinity();
  uint32_t waited = 0;
  for (const Evaluation& evaluation : evaluations) {
    if (&evaluation != &evaluations.front() && other_data(*(&evaluation - 1), evaluation))
      lowest = std::numeric_limits<double>::infinity();
    const double now = score(job, evaluation);
    const bool better =
        std::isfinite(now) &&
        (!std::isfinite(lowest) || now < lowest - double(job.eval.early_stop.min_delta));
    if (better) lowest = now;
    waited = better ? 0 : waited + 1;
  }
  return std::isfinite(lowest) && waited >= patience;
}

}  // namespace downpour::chief
