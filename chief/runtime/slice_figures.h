// The metrics of an evaluation for each value of the fields of eval.slices.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "chief/core/events.h"
#include "chief/runtime/figures.h"
#include "shared/job/job.h"

namespace downpour::chief {

/// Returns the slices that have records, in the order of the job: of each field its values, then
/// the others. Empty if the evaluation has no slices of this job. Figures that are not finite are
/// left out.
std::vector<SliceFigures> slice_figures(const Job& job, const Evaluation& evaluation);

/// Returns {"FIELD": [{"value": TEXT, "weight": W, METRIC: VALUE, ...}, ...], ...}. The value of
/// the others is null.
nlohmann::ordered_json slices_json(const std::vector<SliceFigures>& slices);
/// Reads slices_json(). Throws nlohmann::json::exception for another form.
std::vector<SliceFigures> slices_from(const nlohmann::ordered_json& json);

/// Returns a table for each field and output as lines: the slices with the worst value of the
/// output's first metric first. Long tables are cut off.
std::vector<std::string> slice_tables(const Job& job, const Evaluation& evaluation);

}  // namespace downpour::chief
