// Reading a job's data alone: what a training with it could reach if nothing else cost anything.
#pragma once

#include <cstdint>

#include "shared/base/result.h"
#include "shared/job/job.h"

namespace downpour::tools {

struct ReadTiming {
  uint64_t records = 0;  // given out in batches
  uint64_t bytes = 0;    // of the files
  double wall_s = 0;
  double cpu_s = 0;  // of the threads
};

struct ReadingOptions {
  bool kept = false;     // all of it a second time, from a cache
  uint32_t threads = 1;  // each takes the next shard, as a worker's readers do
};

/// Opens, checks, shuffles, parses and batches all that a complete job trains on, shard by shard.
/// Errors: as plan_run() and ShardReader::next().
Result<ReadTiming> time_reading(const Job& job, const ReadingOptions& options = {});

}  // namespace downpour::tools
