// InputMemory: memory limits of a process that reads: its shares of data.memory, and the cache of
// parsed records.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "shared/base/units.h"
#include "shared/env/process.h"
#include "shared/job/job.h"
#include "worker/runtime/shard_read.h"

namespace downpour::worker {

struct InputMemory {
  // Shards read at the same time, each with windows of data::kShuffleWindowBytes.
  uint32_t shards_max = 16;
  uint64_t batch_bytes = 256 * kMiB;
  uint64_t cache_bytes = 0;
};

/// Divides data.memory. If the job does not set it, a cache gets half of the free space where it
/// lies. The reading processes of the job share that half.
InputMemory share_memory(const Job& job, const ProcessInfo& process);

/// Makes the readers keep what they parse, if the job wants a cache. Returns null if it does not.
/// `say` may be empty.
std::shared_ptr<data::CacheStore> add_cache(
    const Job& job, const InputMemory& memory, ReaderOptions& readers,
    const std::function<void(const std::string& line)>& say);

}  // namespace downpour::worker
