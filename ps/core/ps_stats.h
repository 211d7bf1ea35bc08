// PsStats: what the heartbeats of a ps core report about its work.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "shared/base/result.h"

namespace downpour::ps {

/// Counters since the start of the core, and the error that ends its job.
struct PsStats {
  static constexpr size_t kStalenessBuckets = 64;

  uint64_t pulled_bytes = 0;     // values in answers to pulls
  uint64_t pushed_bytes = 0;     // keys and values of pushes
  uint64_t duplicate_parts = 0;  // parts that were already applied
  uint64_t gaps = 0;             // parts that arrived before an earlier batch
  uint64_t step_bytes_max = 0;   // most memory of the gradients of a step, as a sum or staged
  // Applied parts by staleness. The last bucket also counts those with more.
  std::vector<uint64_t> staleness = std::vector<uint64_t>(kStalenessBuckets);
  std::optional<Error> failure;

  /// Keeps the error of `done` if it is the first one.
  void keep_failure(const Result<void>& done) {
    if (!done && !failure) failure = done.error();
  }
};

}  // namespace downpour::ps
