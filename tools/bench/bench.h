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
  bool bound = false;        // limit_value is a promise (at most), not a measurement
  double low = 0, high = 0;  // of repeated runs, whose median is `value`; 0, 0: one run

  double ratio() const { return limit_value > 0 ? value / limit_value : 0; }
};

struct BenchOptions {
  bool quick = false;  // small sizes: seconds in all, to see that it runs
  uint64_t seed = 1;
};

/// Tables: apply, pull and look-up against a plain array with prefetch; growth; memory a row.
std::vector<BenchResult> bench_table(const BenchOptions& options);

/// Messages to header frames and back, against a copy of the same bytes.
std::vector<BenchResult> bench_codec(const BenchOptions& options);

/// Round trips and bulk messages over inproc, ipc and tcp, against bare sockets and memcpy.
std::vector<BenchResult> bench_transport(const BenchOptions& options);

/// Pushes and pulls between a client and one ps process, sparse and dense, against bare sockets
/// that move the same bytes.
std::vector<BenchResult> bench_push_pull(const BenchOptions& options);

/// Checkpoints beside pushes, against a plain write of the same bytes and pushes alone.
std::vector<BenchResult> bench_checkpoint(const BenchOptions& options);

/// Whole trainings in this process, from text to saved model, against reading the same text alone.
std::vector<BenchResult> bench_train(const BenchOptions& options);

/// Every input format read on one thread, from the page cache to batches, against memcpy.
std::vector<BenchResult> bench_input(const BenchOptions& options);

/// A cluster of processes that waits: its memory and CPU; and the time from start to the first
/// shard trained. Needs downpour's programs beside the running one; without them: nothing.
std::vector<BenchResult> bench_idle(const BenchOptions& options);

/// The names that run_bench() takes, in the order in which `downpour bench` runs them.
const std::vector<std::string>& bench_parts();
/// Runs one of bench_parts().
std::vector<BenchResult> run_bench(const std::string& part, const BenchOptions& options);

}  // namespace downpour::tools
