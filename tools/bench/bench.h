// Benchmarks of `downpour bench`: each measures a part of ours and, in the same run, the physical
// limit it stands against.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace downpour::tools {

/// One figure. Where a limit was measured in the same run, `limit_value` has the same unit and
/// value / limit_value is the share of the limit reached (more is better), or where `bound` is set,
/// the value must not exceed limit_value.
struct BenchResult {
  std::string name;
  double value = 0;
  std::string unit;
  std::string limit_name;  // empty: nothing to compare with
  double limit_value = 0;
  bool bound = false;  // limit_value is a promise (at most), not a measurement

  double ratio() const { return limit_value > 0 ? value / limit_value : 0; }
};

struct BenchOptions {
  bool quick = false;  // small sizes: seconds in all, to see that it runs
  uint64_t seed = 1;
};

/// Tables: apply, pull and look-up against a plain array with prefetch; growth; memory a row.
std::vector<BenchResult> bench_table(const BenchOptions& options);

}  // namespace downpour::tools
