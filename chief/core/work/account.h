// The account of an epoch: checks that every record is accounted for, exactly once.
#pragma once

#include <vector>

#include "chief/core/work/leases.h"
#include "shared/base/result.h"
#include "shared/plan/shard.h"
#include "shared/wire/messages.h"

namespace downpour::chief {

/// Returns "read 10 = applied 8 + filtered 0 + skipped 2 + dropped 0 + quarantined 0".
std::string account_text(const wire::ShardCounts& counts);

/// Returns the counts of the epoch. Requires that all partitions report the same sums and that read
/// = applied + filtered + skipped + dropped + quarantined. `partitions` is ascending and not empty.
/// Errors: kBug if the sums differ (names two partitions) or do not balance; kBadData if the hashes
/// of the records differ, because the input is not replayable.
Result<wire::ShardCounts> check_account(const std::vector<wire::PartitionStatus>& partitions);

/// Checks that the byte ranges of the shards' records tile every file that was cut: no record is
/// read twice, and none is left out. `counts[i]` belongs to the i-th shard of the epoch; it is null
/// if no worker of this run reported the shard. Error kBug, naming file and offsets.
/// If shards join ranges, only the sum over all of them can be checked. This requires that all
/// shards were reported and that no file leaves out pieces. A weighted mix is not checked, because
/// some of its ranges stay unread.
Result<void> check_tiles(const std::vector<plan::FileInfo>& files, const plan::ShardMap& shards,
                         uint32_t epoch, const std::vector<const wire::ShardCounts*>& counts);

}  // namespace downpour::chief
