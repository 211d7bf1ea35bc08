// How many workers train a job.
#pragma once

#include <algorithm>
#include <cstdint>

#include "shared/job/job.h"

namespace downpour {

/// Returns `cluster.workers`. If that is 0, one process has a worker for each replica, at most one
/// for each core. `cores`: those that the process may use, unless the job says how many
/// (`cluster.threads`).
inline uint32_t workers_of(const Job& job, uint32_t cores) {
  if (job.cluster.workers > 0) return job.cluster.workers;
  if (job.cluster.threads > 0) cores = job.cluster.threads;
  return uint32_t(std::clamp<uint64_t>(job.train.replicas.value_or(1), 1, std::max(1U, cores)));
}

}  // namespace downpour
