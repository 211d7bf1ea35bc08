// Tables of runs: the list of `downpour runs`, and runs side by side for `downpour compare`.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "tools/history/chart.h"
#include "tools/history/run_overview.h"

namespace downpour::tools {

/// Returns a row for each run: folder, model, time of the newest checkpoint, epochs, the best
/// evaluation, state.
std::string runs_text(std::span<const RunOverview> runs);
nlohmann::ordered_json runs_json(std::span<const RunOverview> runs);

/// Returns the keys in which the jobs differ, and the figures of each run's best epoch, with a
/// column for each run.
std::string compare_text(std::span<const RunOverview> runs);
nlohmann::ordered_json compare_json(std::span<const RunOverview> runs);

/// Returns a chart with a panel for each figure of the runs and one for the learning rate. The
/// training has dashed lines.
Chart chart_of(std::span<const RunOverview> runs);

}  // namespace downpour::tools
