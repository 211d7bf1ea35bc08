// Measures only the reading of a job's data. Training can't be faster.
#pragma once

#include <cstdint>

#include "shared/base/result.h"
#include "shared/job/job.h"

namespace downpour::tools {

struct ReadTiming {
  uint64_t records = 0;  // without filtered and dropped ones
  uint64_t bytes = 0;    // of the files
  double wall_s = 0;
  double cpu_s = 0;  // sum over the threads
};

struct ReadingOptions {
  bool kept = false;     // time a second read, from a cache
  uint32_t threads = 1;  // each takes the next shard, as the readers of a worker do
};

/// Opens, checks, shuffles, parses and batches all training data of a job, which has passed
/// complete_job(), shard by shard.
/// Errors: as plan_run() and ShardReader::next().
Result<ReadTiming> time_reading(const Job& job, const ReadingOptions& options = {});

}  // namespace downpour::tools
