// PreambleCache: the preambles of text files, because each shard opens its file again.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <tuple>

#include "shared/base/result.h"
#include "shared/data/records/line_windows.h"
#include "shared/job/job.h"
#include "shared/plan/shard.h"

namespace downpour::data {

/// Safe to use from any thread. An entry holds as long as the file's fingerprint is the same.
class PreambleCache {
 public:
  /// Returns the preamble of a file. Errors: those of read_preamble().
  Result<Preamble> get(const DataSpec& data, const plan::FileInfo& info);

 private:
  using Key = std::tuple<std::string, uint64_t, uint32_t, bool, bool, std::string>;
  std::mutex mutex_;
  std::map<Key, Preamble> known_;
};

}  // namespace downpour::data
