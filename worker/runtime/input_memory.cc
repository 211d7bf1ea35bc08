#include "worker/runtime/input_memory.h"

#include <algorithm>
#include <filesystem>
#include <string>

#include "shared/base/human.h"
#include "shared/base/str.h"
#include "shared/data/reading/dataset.h"
#include "shared/job/workers.h"

namespace downpour::worker {
namespace {

std::string temporary_folder() {
  std::error_code none;
  const auto folder = std::filesystem::temp_directory_path(none);
  return none ? "/tmp" : folder.string();
}

/// Number of workers or input processes of the job that read.
uint32_t readers_of(const Job& job, const ProcessInfo& process) {
  return std::max(workers_of(job, process.cpus), job.cluster.input_workers);
}

}  // namespace

InputMemory share_memory(const Job& job, const ProcessInfo& process) {
  constexpr uint64_t kWindowBytes = 64 * kMiB;
  const uint64_t given = job.data.memory;
  const bool in_memory = job.data.cache == Cache::kMemory;
  InputMemory out;
  uint64_t rest = given;
  if (given > 0) {
    if (in_memory) out.cache_bytes = given / 2;
    rest -= out.cache_bytes;
    out.shards_max = uint32_t(std::clamp<uint64_t>(rest / 2 / kWindowBytes, 1, 16));
    out.batch_bytes = std::max<uint64_t>(rest / 2, 1);
  } else if (in_memory) {
    out.cache_bytes = process.memory() / 2 / readers_of(job, process);
  }
  if (job.data.cache == Cache::kFile) {
    std::error_code none;
    const auto disk = std::filesystem::space(temporary_folder(), none);
    out.cache_bytes = none ? 0 : disk.available / 2 / readers_of(job, process);
  }
  return out;
}

std::shared_ptr<data::CacheStore> add_cache(
    const Job& job, const InputMemory& memory, ReaderOptions& readers,
    const std::function<void(const std::string& line)>& say) {
  if (job.data.cache == Cache::kOff) return nullptr;
  const bool in_file = job.data.cache == Cache::kFile;
  auto store = data::make_cache_store(job.data.cache, memory.cache_bytes, temporary_folder());
  readers.train = data::with_cache(*readers.train, store);
  readers.eval = data::with_cache(*readers.eval, store);
  if (say) {
    say(str("caches parsed records, ", human_bytes(memory.cache_bytes), " at most",
            in_file ? str(", in an unnamed file in ", temporary_folder()) : ""));
  }
  return store;
}

}  // namespace downpour::worker
