// parallel_for: runs tasks on OpenMP threads. The matrix products of a task run on the task's
// thread.
#pragma once

#include <algorithm>
#include <cstddef>

#include "shared/model/gemm.h"
#ifdef _OPENMP
#include <omp.h>
#endif

namespace downpour::model {

/// Returns the number of threads that `tasks` tasks can use, at least 1.
inline int usable_threads(int threads, size_t tasks) {
#ifdef _OPENMP
  constexpr size_t kThreadsMax = 1024;
  return int(
      std::clamp<size_t>(std::min<size_t>(tasks, size_t(std::max(1, threads))), 1, kThreadsMax));
#else
  (void)threads, (void)tasks;
  return 1;
#endif
}

/// Calls task(i, thread) for i in [0, count). `threads` must come from usable_threads(). The result
/// of a task must not depend on the thread that runs it.
template <typename Task>
void parallel_for(int threads, size_t count, const Task& task) {
  if (threads <= 1) {
    const SingleThreadProducts single;
    for (size_t i = 0; i < count; ++i) task(i, 0);
    return;
  }
#ifdef _OPENMP
#pragma omp parallel num_threads(threads)
  {
    const SingleThreadProducts single;
#pragma omp for schedule(dynamic, 1)
    for (size_t i = 0; i < count; ++i) task(i, omp_get_thread_num());
  }
#endif
}

}  // namespace downpour::model
