#include "chief/core/work/account.h"

#include "shared/base/defence.h"

namespace downpour::chief {

namespace {

bool same_sums(const wire::ShardCounts& a, const wire::ShardCounts& b) {
  return a.batches == b.batches && a.read == b.read && a.applied == b.applied &&
         a.filtered == b.filtered && a.skipped == b.skipped && a.dropped == b.dropped &&
         a.quarantined == b.quarantined;
}

}  // namespace

std::string account_text(const wire::ShardCounts& counts) {
  return str("read ", counts.read, " = applied ", counts.applied, " + filtered ", counts.filtered,
             " + skipped ", counts.skipped, " + dropped ", counts.dropped, " + quarantined ",
             counts.quarantined);
}

Result<wire::ShardCounts> check_account(const std::vector<wire::PartitionStatus>& partitions) {
  DP_CHECK(!partitions.empty());
  const wire::PartitionStatus& first = partitions.front();
  for (const wire::PartitionStatus& status : partitions) {
    if (!same_sums(status.counts, first.counts)) {
      return Error{ErrorCode::kBug,
                   str("the account differs between partitions: ", first.partition, " has ",
                       account_text(first.counts), " in ", first.counts.batches, " batches; ",
                       status.partition, " has ", account_text(status.counts), " in ",
                       status.counts.batches, " batches")};
    }
  }
  // A shard is read again if a partition has lost its parts. Then both reads must give the same
  // records.
  const wire::PartitionStatus* hashed = nullptr;
  for (const wire::PartitionStatus& status : partitions) {
    if (status.records_hash == 0) continue;
    if (hashed == nullptr) hashed = &status;
    if (status.records_hash == hashed->records_hash) continue;
    defended(Defence::kChiefRecordsDiffer);
    return Error{ErrorCode::kBadData,
                 str("the input is not replayable: partitions ", hashed->partition, " and ",
                     status.partition,
                     " have applied different records of the same shards, because a second read of "
                     "a shard returned different records"),
                 {},
                 "do not change the data files while the job runs; a program must write the same "
                 "records for the same DOWNPOUR_SEED and DOWNPOUR_EPOCH"};
  }
  const wire::ShardCounts& c = first.counts;
  if (c.read != c.applied + c.filtered + c.skipped + c.dropped + c.quarantined) {
    return Error{ErrorCode::kBug, str("the account does not balance: ", account_text(c))};
  }
  wire::ShardCounts sums = c;
  sums.first_offset = sums.end_offset = 0;
  return sums;
}

namespace {

/// Checks that each range begins where the one before it in the same file ends. `counts[i]` belongs
/// to ranges[i].
Result<void> check_ranges(const std::vector<plan::FileInfo>& files,
                          const std::vector<plan::ShardRange>& ranges,
                          const std::vector<const wire::ShardCounts*>& counts) {
  DP_CHECK(ranges.size() == counts.size(), ranges.size(), counts.size());
  const wire::ShardCounts* before =
      nullptr;  // the range before in the same file, if its offsets are known
  for (size_t i = 0; i < ranges.size(); ++i) {
    const auto other = [&](const plan::ShardRange& range) {
      return range.file != ranges[i].file || range.stream != ranges[i].stream;
    };
    if (i > 0 && other(ranges[i - 1])) before = nullptr;
    if (counts[i] == nullptr) {
      before = nullptr;
      continue;
    }
    const plan::FileInfo& file = files[ranges[i].file];
    if (!file.is_cut()) continue;
    const bool follows = before == nullptr || before->end_offset == counts[i]->first_offset;
    if (counts[i]->read == 0) {  // no record begins in it: it may lie inside one long record
      before = follows ? counts[i] : nullptr;
      continue;
    }
    const bool last = !file.is_open() && (i + 1 == ranges.size() || other(ranges[i + 1]));
    const uint64_t end = ranges[i].end;  // less than the file's end if it leaves out pieces
    const bool whole = end == file.bytes ? counts[i]->end_offset == end
                                         : file.is_streamed() || counts[i]->end_offset >= end;
    if (!follows || (last && !whole)) {
      return Error{
          ErrorCode::kBug,
          follows ? str("the last shard ends at byte ", counts[i]->end_offset, " of ", end)
                  : str("the shards do not tile the file: one ends at byte ", before->end_offset,
                        ", but the next one begins at byte ", counts[i]->first_offset),
          file.path};
    }
    before = counts[i];
  }
  return {};
}

/// Checks that the offset hashes that all shards reported add up to those of the whole files.
Result<void> check_sums(const std::vector<plan::FileInfo>& files,
                        const std::vector<plan::ShardRange>& ranges,
                        const std::vector<const wire::ShardCounts*>& counts) {
  uint64_t sum = 0;
  for (const wire::ShardCounts* one : counts) {
    if (one == nullptr) return {};
    sum += one->end_offset - one->first_offset;
  }
  for (const plan::ShardRange& range : ranges) {
    const uint64_t bytes = files[range.file].bytes;
    if (!files[range.file].is_cut()) continue;
    if (range.begin == 0) sum += plan::offset_hash(range.file, range.stream, 0);
    if (range.end == bytes) sum -= plan::offset_hash(range.file, range.stream, bytes);
  }
  if (sum == 0) return {};
  return Error{ErrorCode::kBug,
               "the shards do not tile the files: some bytes were read twice, or not at all"};
}

}  // namespace

Result<void> check_tiles(const std::vector<plan::FileInfo>& files, const plan::ShardMap& shards,
                         uint32_t epoch, const std::vector<const wire::ShardCounts*>& counts) {
  if (shards.open_piece() > 0) {
    std::vector<plan::ShardRange> ranges;
    for (uint32_t shard = 0; shard < counts.size(); ++shard)
      ranges.push_back(shards.at(epoch, shard).front());
    return check_ranges(files, ranges, counts);
  }
  DP_CHECK(shards.count() == counts.size(), shards.count(), counts.size());
  if (shards.mixes()) return {};  // unread ranges lie between the read ones
  if (shards.joins()) {
    const bool parted = std::ranges::any_of(files, &plan::FileInfo::leaves_out);
    return parted ? Result<void>{} : check_sums(files, shards.ranges(), counts);
  }
  std::vector<const wire::ShardCounts*> by_range(counts.size());
  for (uint32_t shard = 0; shard < counts.size(); ++shard)
    by_range[shards.indexes_at(epoch, shard).front()] = counts[shard];
  return check_ranges(files, shards.ranges(), by_range);
}

}  // namespace downpour::chief
