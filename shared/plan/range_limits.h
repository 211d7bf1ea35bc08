// check_ranges(): limits the number of ranges of a data set before any range is made.
#pragma once

#include <cstdint>
#include <vector>

#include "shared/base/result.h"
#include "shared/plan/shard.h"

namespace downpour::plan {

/// Maximum number of ranges of a data set over all its streams. Every process keeps a list of them.
constexpr uint32_t kRangesMax = uint32_t{1} << 20;

/// Rejects files that cut_streams() cannot cut: more than kRangesMax ranges, cuts that are not
/// ascending offsets inside the file, and a target of 0 bytes. It makes no range, so the sizes that
/// files, stores and peers claim cost no memory. Errors: kConfig; kMalformed for the cuts.
Result<void> check_ranges(const std::vector<FileInfo>& files, uint64_t target_bytes,
                          const StreamSpec& streams);

}  // namespace downpour::plan
