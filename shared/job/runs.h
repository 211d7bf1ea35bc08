// Runs of names: "I1..I13" stands for I1, I2, ... I13 wherever a field or column is named.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "shared/base/result.h"

namespace downpour {

constexpr size_t kRunNamesMax = 65536;

/// Whether `name` has the form "A..B".
bool is_run(std::string_view name);

/// The names of a run whose ends differ in a final number only ("I1..I13", "x01..x12"), or, where
/// `columns` holds both ends, the columns from one to the other. A name without ".." is itself.
/// Errors: kConfig where neither applies, or the run has more than kRunNamesMax names.
Result<std::vector<std::string>> expand_run(std::string_view name,
                                            const std::vector<std::string>& columns = {});

/// Each name of a list expanded; in place. Runs that need columns stay while `columns` is empty.
Result<void> expand_runs(std::vector<std::string>& names,
                         const std::vector<std::string>& columns = {});

/// The reverse, for printing: three or more neighbours that differ by one become a run.
std::vector<std::string> compress_runs(const std::vector<std::string>& names);

/// The length of the run of consecutive numbered names that begins at names[begin] (1: no run).
size_t run_length(const std::vector<std::string>& names, size_t begin);

}  // namespace downpour
