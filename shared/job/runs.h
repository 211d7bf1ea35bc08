// Runs of names: "I1..I13" stands for I1, I2, ... I13 wherever a field or column is named.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "shared/base/result.h"

namespace downpour {

constexpr size_t kRunNamesMax = 65536;

/// Returns true if `name` has the form "A..B".
bool is_run(std::string_view name);

/// Returns the names of a run. Either its ends differ only in a final number ("I1..I13",
/// "x01..x12"), or `columns` contains both ends; then the run is the columns from one end to the
/// other. A name without ".." returns itself. Errors: kConfig if neither applies, or for more than
/// kRunNamesMax names.
Result<std::vector<std::string>> expand_run(std::string_view name,
                                            const std::vector<std::string>& columns = {});

/// Expands every name of a list in place. Runs that need columns stay unexpanded while `columns` is
/// empty.
Result<void> expand_runs(std::vector<std::string>& names,
                         const std::vector<std::string>& columns = {});

/// Reverses expand_runs() for printing: three or more adjacent names that count up by one become a
/// run.
std::vector<std::string> compress_runs(const std::vector<std::string>& names);

/// Returns the length of the run of consecutively numbered names that starts at names[begin]; 1: no
/// run.
size_t run_length(const std::vector<std::string>& names, size_t begin);

}  // namespace downpour
