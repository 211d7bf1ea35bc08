// Figures that the console derives from a run: losses, the best constant, staleness, queue fill.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "chief/core/events.h"
#include "shared/job/job.h"

namespace downpour::chief {

/// Returns the smallest bucket b such that 99 % of the parts have a staleness of at most b; none
/// without parts.
std::optional<size_t> staleness_p99(const std::vector<uint64_t>& histogram);
/// Returns the mean fill of the workers' queues of read batches, from 0 to 1; none without data.
std::optional<double> queue_fill(const wire::WorkTime& work);
/// Returns the work time spent between two totals.
wire::WorkTime work_between(const wire::WorkTime& before, const wire::WorkTime& now);

/// Returns the names of the metrics that the job asks for at this output; the defaults of its loss
/// if it names none. With groups also their metrics, unless eval.metrics chooses.
std::vector<std::string> shown_metrics(const Job& job, const OutputSpec& output);
/// Returns the metrics that an output has: those of its loss, and of a target of several elements
/// only those that its sums define. Top-k accuracy only if there are more than k classes.
std::vector<std::string> known_metrics(const Job& job, const OutputSpec& output);
/// Returns the loss over all outputs, weighted as in the job; NaN without records.
double mean_loss(const std::vector<OutputMetrics>& outputs, const Job& job);
/// Returns the AUC of the first output; NaN if it has none.
double first_auc(const std::vector<OutputMetrics>& outputs);
std::vector<OutputMetrics> trained_metrics(const EpochAccount& account);
/// Returns the loss of the best constant on the evaluated records; none if the sums do not
/// determine it.
std::optional<double> constant_loss(const Job& job, size_t output, const Evaluation& evaluation);
/// Returns the evaluation of the model that eval and predict use: of the best epoch if its
/// checkpoint is kept, otherwise of the newest epoch. Null if there is none, or if it had no
/// record.
const Evaluation* kept_evaluation(const JobSummary& s);
/// Returns the indices of the outputs whose loss is above that of the best constant.
std::vector<size_t> worse_than_constant(const Job& job, const JobSummary& s);

}  // namespace downpour::chief
