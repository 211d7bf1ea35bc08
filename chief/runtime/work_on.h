// work_on(): divides independent pieces of work among the processors of this process.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <thread>
#include <utility>
#include <vector>

#include "shared/base/result.h"
#include "shared/env/process.h"

namespace downpour::chief {

/// Calls `work(i)` for each i below `count`, on several threads. After an error no more calls
/// begin. Returns the error of the lowest i that has one.
template <typename Work>
Result<void> work_on(size_t count, Work work) {
  std::vector<Result<void>> results(count);
  std::atomic<size_t> next = 0;
  std::atomic<bool> failed = false;
  const auto run = [&] {
    for (size_t i = next++; i < count && !failed; i = next++) {
      results[i] = work(i);
      if (!results[i]) failed = true;
    }
  };
  {
    std::vector<std::jthread> threads;
    const size_t wanted = std::min<size_t>(allowed_cpus(), count);
    while (threads.size() + 1 < wanted) threads.emplace_back(run);
    run();
  }
  for (Result<void>& result : results) {
    if (!result) return std::move(result).error();
  }
  return {};
}

}  // namespace downpour::chief
