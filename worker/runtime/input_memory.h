// What a process that reads may take for it: data.memory's parts, and the cache of what it has
// parsed.
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
  uint32_t shards_max = 16;  // read at once, each with windows of data::kShuffleWindowBytes
  uint64_t batch_bytes = 256 * kMiB;
  uint64_t cache_bytes = 0;
};

/// Without data.memory a cache has half of what is free where it lies, shared with the job's other
/// processes that read.
InputMemory share_memory(const Job& job, const ProcessInfo& process);

/// The readers keep what they parse, where the job wants it. Null: it does not. `say` may be empty.
std::shared_ptr<data::CacheStore> add_cache(
    const Job& job, const InputMemory& memory, ReaderOptions& readers,
    const std::function<void(const std::string& line)>& say);

}  // namespace downpour::worker
