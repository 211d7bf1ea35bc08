// How many workers train a job.
#pragma once

#include <algorithm>
#include <cstdint>

#include "shared/job/job.h"

namespace downpour {

/// Returns `cluster.workers`. If that is 0, all workers are in one process. Then returns the number
/// of replicas, at least 1 and at most the number of cores: `cluster.threads` of the job, or else
/// `cores`, those that the process may use.
inline uint32_t workers_of(const Job& job, uint32_t cores) {
  if (job.cluster.workers > 0) return job.cluster.workers;
  if (job.cluster.threads > 0) cores = job.cluster.threads;
  return uint32_t(std::clamp<uint64_t>(job.train.replicas.value_or(1), 1, std::max(1U, cores)));
}

}  // namespace downpour
