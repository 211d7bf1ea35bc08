// How many ranges a data set may have, checked before any is made.
#pragma once

#include <cstdint>
#include <vector>

#include "shared/base/result.h"
#include "shared/plan/shard.h"

namespace downpour::plan {

/// Ranges of a data set over all its streams, at the most: every process keeps a list of them.
constexpr uint32_t kRangesMax = uint32_t{1} << 20;

/// Rejects files that cut_streams() can't cut: those that make more than kRangesMax ranges, cuts
/// that are no ascending places inside the file, a target of 0 bytes. Makes no range, so that the
/// sizes that files, stores and peers claim cost nothing. Errors: kConfig; kMalformed for the cuts.
Result<void> check_ranges(const std::vector<FileInfo>& files, uint64_t target_bytes,
                          const StreamSpec& streams);

}  // namespace downpour::plan
