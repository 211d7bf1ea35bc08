// LeasedShard: the records that a lease names, and their reader.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "shared/base/result.h"
#include "shared/data/reading/dataset.h"
#include "shared/plan/shard.h"
#include "shared/wire/lease_messages.h"
#include "worker/runtime/reader_options.h"

namespace downpour::worker {

struct LeasedShard {
  std::shared_ptr<const data::ReadPlan> plan;
  data::Split split = data::Split::kAll;
  std::vector<plan::ShardRange> ranges;

  bool is_joined() const { return ranges.size() > 1; }
  /// Where the shard lies, as text for messages.
  std::string place() const;
};

/// Returns the shard of a lease. Error kBug if the data set does not have it.
Result<LeasedShard> find_leased(const ReaderOptions& options, const wire::Lease& lease);

/// Opens the reader of a shard. Errors: as data::open_shard().
Result<std::unique_ptr<data::ShardReader>> open_leased(const LeasedShard& shard,
                                                       const wire::Lease& lease,
                                                       uint32_t first_batch);

/// Converts the counts of an ended shard to their form in messages.
wire::ShardCounts counts_of(const data::ShardTotals& totals);
/// Converts them back.
data::ShardTotals totals_of(const wire::ShardCounts& counts, uint64_t records_hash);

}  // namespace downpour::worker
