// A linear model, to compare with the one that `downpour train DATAFILE` chooses.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "chief/runtime/report_summary.h"
#include "shared/job/job.h"

namespace downpour::tools {

/// Returns a complete job for a linear model of the same fields with the same loss, evaluation data
/// and seed. `job` is complete, with its statistics learned, so that nothing remains to be learned
/// from the data. None if `job` itself is linear, or has a loss without a linear preset.
std::optional<Job> linear_job(const Job& job);

/// Trains the linear_job() of a job in this process, for at most `limit_ns` and until `stop`
/// returns true. Returns its lowest evaluation loss. None if there is no such job, no evaluation
/// data, or the time does not suffice for an epoch, or if `stop` returns true.
std::optional<chief::LinearBaseline> linear_baseline(const Job& job, int64_t limit_ns,
                                                     const std::function<bool()>& stop);

}  // namespace downpour::tools
