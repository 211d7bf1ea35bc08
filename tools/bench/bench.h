// The benchmarks of `downpour bench`. Each measures a part of Downpour and, in the same run, the
// physical limit of that part.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace downpour::tools {

/// One figure. If there is a limit, `limit_value` has the same unit as `value`. Usually the limit
/// is measured in the same run, and value / limit_value is the reached share of it (more is
/// better). With `bound`, `value` must not exceed `limit_value`.
struct BenchResult {
  std::string name;
  double value = 0;
  std::string unit;
  std::string limit_name;  // empty: there is no limit
  double limit_value = 0;
  bool bound = false;        // limit_value is a guaranteed upper bound, not a measurement
  double low = 0, high = 0;  // range of repeated runs; `value` is the median. 0, 0: one run

  double ratio() const { return limit_value > 0 ? value / limit_value : 0; }
};

struct BenchOptions {
  bool quick = false;  // small sizes for a test that takes seconds in total
  uint64_t seed = 1;
};

/// Measures tables: apply, pull and look-up against a plain array with prefetch, growth, and memory
/// per row.
std::vector<BenchResult> bench_table(const BenchOptions& options);

/// Measures encoding and decoding of header frames, against a copy of the same bytes.
std::vector<BenchResult> bench_codec(const BenchOptions& options);

/// Measures round trips and bulk messages over inproc, ipc and tcp, against bare sockets and
/// memcpy.
std::vector<BenchResult> bench_transport(const BenchOptions& options);

/// Measures pushes and pulls between a client and one ps process, sparse and dense, against bare
/// sockets that move the same bytes.
std::vector<BenchResult> bench_push_pull(const BenchOptions& options);

/// Measures checkpoints during pushes, against a plain write of the same bytes and against pushes
/// alone.
std::vector<BenchResult> bench_checkpoint(const BenchOptions& options);

/// Measures whole trainings in this process, from text to saved model, against only reading the
/// same text.
std::vector<BenchResult> bench_train(const BenchOptions& options);

/// Measures reading every input format, from the page cache to batches, against memcpy. Arrays are
/// read on one thread and on all cores, other formats on one thread.
std::vector<BenchResult> bench_input(const BenchOptions& options);

/// Measures memory and CPU of an idle cluster of processes, and the time from the start to the end
/// of the first shard. Needs Downpour's programs in the folder of the running one; without them it
/// returns no results.
std::vector<BenchResult> bench_idle(const BenchOptions& options);

/// Returns the names of all benchmarks, in the order in which `downpour bench` runs them.
const std::vector<std::string>& bench_parts();
/// Runs one of bench_parts().
std::vector<BenchResult> run_bench(const std::string& part, const BenchOptions& options);

}  // namespace downpour::tools
