#include "shared/data/records/preamble_cache.h"

namespace downpour::data {

Result<Preamble> PreambleCache::get(const DataSpec& data, const plan::FileInfo& info) {
  const Key key{info.path,   info.fingerprint,     data.skip_lines,
                data.header, data.quoted_newlines, data.delimiter};
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = known_.find(key); found != known_.end()) return found->second;
  }
  DP_TRY(Preamble preamble, read_preamble(info.path, data, data.header));
  constexpr size_t kBytesMax = size_t{1} << 16, kFilesMax = 1 << 10;
  const std::lock_guard lock(mutex_);
  if (known_.size() == kFilesMax) known_.clear();
  if (preamble.header.size() <= kBytesMax) known_.emplace(key, preamble);
  return preamble;
}

}  // namespace downpour::data
