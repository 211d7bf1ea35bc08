// Selection: decides which epoch's model a run keeps as its result, and whether training stops
// early. The functions are pure, so a restarted chief makes the same decisions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "chief/core/events.h"

namespace downpour::chief {

/// Returns the mean loss over the records, summed over the outputs with the job's output weights.
/// Leaves out outputs without an evaluated record whose weight is above 0. NaN if all are left out.
double evaluation_loss(const Job& job, const Evaluation& evaluation);

/// Returns a metric of an output; NaN if the evaluation's sums do not define it. A metric that
/// needs a histogram, such as the AUC, was computed when the evaluation ended, because only the
/// newest evaluation keeps its histogram.
double evaluated_metric(const Evaluation& evaluation, size_t output, std::string_view name);

/// Returns true if two evaluations are known to have read different data, so that their values do
/// not compare.
bool other_data(const Evaluation& one, const Evaluation& other);

/// Of the evaluations with the same data as the newest one, chooses the one with the best value of
/// eval.early_stop.metric, the earliest on a tie. Returns the number of epochs that it followed; 0
/// if no evaluation has a finite value.
uint32_t best_epochs(const Job& job, const std::vector<Evaluation>& evaluations);

/// Returns true if the evaluation after `epochs` epochs is better than the earlier one after
/// `others`. Also true if the first has a finite value and the second is missing, not finite, or of
/// other data.
bool is_better(const Job& job, const std::vector<Evaluation>& evaluations, uint32_t epochs,
               uint32_t others);

/// Describes the evaluation that best_epochs() chooses: "the lowest evaluation loss", "the best
/// evaluation by auc".
std::string best_text(const Job& job);

/// Names what decides which evaluation is better: "the evaluation loss", "the evaluated auc".
std::string judged_text(const Job& job);

/// The state of the schedule `plateau` after a number of evaluations.
struct Plateau {
  uint32_t reductions = 0;  // of the learning rate so far
  uint32_t waited = 0;      // evaluations since the last improvement or reduction
  bool at_min = false;      // no reduction is left
};

/// Returns the job's schedule of type `plateau`, the first one if several variables have one; null
/// if there is none.
const ScheduleSpec* plateau_schedule(const Job& job);

/// Returns the state of the job's plateau schedule after all evaluations that followed at most
/// `epochs` epochs; all 0 without such a schedule. An evaluation improves if its loss is below (1 -
/// min_delta) times the lowest loss before it; another eval.early_stop.metric is compared in the
/// same way. The first evaluation of other data improves, too. The rate is reduced after `patience`
/// evaluations in a row that do not improve. Source: the ReduceLROnPlateau of Keras; `min_delta` is
/// a share as in that of PyTorch (threshold_mode "rel").
Plateau plateau_after(const Job& job, const std::vector<Evaluation>& evaluations, uint32_t epochs);

/// Returns true if none of the last `eval.early_stop.patience` evaluations improves on the best one
/// before them by more than `eval.early_stop.min_delta`. False if patience is 0. Source: Prechelt
/// 1998, "Early Stopping - But When?", criterion UP, with the best loss so far in place of the
/// previous one. With a plateau schedule, only evaluations after its last reduction count.
bool stops_early(const Job& job, const std::vector<Evaluation>& evaluations);

}  // namespace downpour::chief
