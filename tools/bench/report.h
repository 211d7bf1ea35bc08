// How benchmark results are shown: a table for people, JSON for machines.
#pragma once

#include <span>
#include <string>

#include "tools/bench/bench.h"

namespace downpour::tools {

/// Processor, cores, build flags: what a figure needs beside it to mean anything.
std::string machine_line();

/// A line per result: name, value, unit, ratio, what the ratio is to.
std::string bench_text(std::span<const BenchResult> results);

/// {"machine": ..., "results": [{name, value, unit, limit_name, limit_value, ratio, bound, low,
/// high}]}, one line.
std::string bench_json(std::span<const BenchResult> results);

}  // namespace downpour::tools
