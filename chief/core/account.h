// The account of an epoch: nothing is dropped in silence.
#pragma once

#include <vector>

#include "chief/core/leases.h"
#include "shared/base/result.h"
#include "shared/plan/shard.h"
#include "shared/wire/messages.h"

namespace downpour::chief {

/// "read 10 = applied 8 + filtered 0 + skipped 2 + dropped 0 + quarantined 0".
std::string account_text(const wire::ShardCounts& counts);

/// read = applied + filtered + skipped + dropped + quarantined, and the sums the same at every
/// partition. `partitions` ascending and not empty. Error kBug, naming the partition or two that
/// differ.
Result<wire::ShardCounts> check_account(const std::vector<wire::PartitionStatus>& partitions);

/// The byte ranges that the shards' records cover follow each other in every file that was cut: no
/// record is read twice, none left out. `counts[i]` belongs to the i-th shard of the epoch; null
/// where no worker of this run reported it. Error kBug, naming file and offsets. Of shards that
/// join ranges only the sum over all of them is known, so all must have been reported; of a mix, or
/// where pieces are left out of the files, nothing is, since unread ranges lie between.
Result<void> check_tiles(const std::vector<plan::FileInfo>& files, const plan::ShardMap& shards,
                         uint32_t epoch, const std::vector<const wire::ShardCounts*>& counts);

}  // namespace downpour::chief
