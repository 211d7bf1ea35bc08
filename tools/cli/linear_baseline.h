// A linear model, to compare with the one that `downpour train DATAFILE` chooses.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "chief/runtime/report_summary.h"
#include "shared/job/job.h"
#include "shared/job/job_file.h"

namespace downpour::tools {

/// Trains a linear model of a data file in this process, for at most `limit_ns`, with the
/// evaluation data and the seed of `job`. Returns its lowest evaluation loss. None if `job` has
/// another loss than a linear preset, no evaluation data, or the time does not suffice for an
/// epoch, or if `stop` returns true.
std::optional<chief::LinearBaseline> linear_baseline(const std::string& data, const Job& job,
                                                     std::span<const Override> overrides,
                                                     int64_t limit_ns,
                                                     const std::function<bool()>& stop);

}  // namespace downpour::tools
