// Leased shard: which records a lease names, for whoever reads them, and their reader.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "shared/base/result.h"
#include "shared/data/dataset.h"
#include "shared/wire/messages.h"

namespace downpour::worker {

struct ReaderOptions;

struct LeasedShard {
  std::shared_ptr<const data::ReadPlan> plan;
  data::Split split = data::Split::kAll;
  std::vector<plan::ShardRange> ranges;

  bool is_joined() const { return ranges.size() > 1; }
  /// Where it lies, for people.
  std::string place() const;
};

/// Error: kBug, a shard that the data set does not have.
Result<LeasedShard> find_leased(const ReaderOptions& options, const wire::Lease& lease);

/// Errors: as data::open_shard().
Result<std::unique_ptr<data::ShardReader>> open_leased(const LeasedShard& shard,
                                                       const wire::Lease& lease,
                                                       uint32_t first_batch);

/// The counts of an ended shard as messages carry them.
wire::ShardCounts counts_of(const data::ShardTotals& totals);
/// And back.
data::ShardTotals totals_of(const wire::ShardCounts& counts, uint64_t records_hash);

}  // namespace downpour::worker
