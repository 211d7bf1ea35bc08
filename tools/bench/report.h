// Formats benchmark results, as a table or as JSON.
#pragma once

#include <span>
#include <string>

#include "tools/bench/bench.h"

namespace downpour::tools {

/// Describes processor, cores and build flags, on which all figures depend.
std::string machine_line();

/// Returns one line per result: name, value, unit, ratio, and the limit of the ratio.
std::string bench_text(std::span<const BenchResult> results);

/// Returns {"machine": ..., "results": [{name, value, unit, limit_name, limit_value, ratio, bound,
/// low, high}]} in one line.
std::string bench_json(std::span<const BenchResult> results);

}  // namespace downpour::tools
