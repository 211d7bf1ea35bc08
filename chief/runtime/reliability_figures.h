// The reliability bins of an evaluation, for the history of a run and for charts.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "chief/core/events.h"
#include "chief/runtime/figures.h"
#include "shared/job/job.h"

namespace downpour::chief {

/// Returns the bins as a list of [predicted, observed, records].
nlohmann::ordered_json bins_json(const std::vector<ReliabilityBin>& bins);
/// Reads bins_json(). Throws nlohmann::json::exception for another form.
std::vector<ReliabilityBin> bins_from(const nlohmann::ordered_json& json);

/// Returns the bins of the outputs that have them.
std::vector<ReliabilityFigures> reliability_figures(const Job& job, const Evaluation& evaluation);

/// Returns {"OUTPUT": bins_json(), ...}.
nlohmann::ordered_json reliability_json(const std::vector<ReliabilityFigures>& figures);
/// Reads reliability_json(). Throws nlohmann::json::exception for another form.
std::vector<ReliabilityFigures> reliability_from(const nlohmann::ordered_json& json);

}  // namespace downpour::chief
