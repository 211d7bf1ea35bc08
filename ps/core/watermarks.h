// Watermarks: per partition and shard, how many of the shard's batches the partition has applied,
// with the sums that ride along. The truth from which leases, completion and recovery follow.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "ps/core/bits.h"
#include "ps/core/events.h"
#include "ps/core/interval_set.h"
#include "shared/base/result.h"
#include "shared/checkpoint/image.h"
#include "shared/metrics/sums.h"

namespace downpour::ps {

/// A shard begun at some partition: three columns over all partitions.
struct ShardRow {
  std::vector<uint32_t> watermarks;  // wire::kShardEnded where ended
  std::vector<uint64_t> records;     // sum over the batches applied
  std::vector<uint64_t> hashes;      // wrapping sum of their records' hashes
  PeerKey begun_by = kChiefPeer;     // kChiefPeer: it came with an image
};

/// Watermarks of all partitions of one core. A partition that the core does not own reads 0
/// everywhere.
class Watermarks {
 public:
  Watermarks(uint32_t partition_count, const PsLimits& limits);

  /// The shard's columns; null where no partition has begun it, or every one that did has ended it.
  const ShardRow* find(ShardId shard) const;
  /// wire::kShardEnded where the shard has ended there.
  uint32_t watermark(ShardId shard, PartitionId p) const;

  /// Whether the limits allow this batch's (or end's) part from this peer; the error says which
  /// limit.
  Result<void> room_for(ShardId shard, const Bits& parts, bool end, PeerKey from) const;
  /// Moves the parts' watermarks, which stand at `batch`, to batch + 1 and adds to their sums.
  void advance(BatchId batch, const Bits& parts, uint64_t records, uint64_t records_hash,
               PeerKey from);
  /// Marks the shard ended at the parts and adds its counts to theirs.
  void end(ShardId shard, const Bits& parts, const wire::ShardCounts& counts,
           uint64_t records_hash);
  /// Adds a batch's metrics to one partition of an epoch that has been advanced.
  void add_metrics(uint32_t epoch, PartitionId p, const std::vector<OutputSums>& metrics);

  /// Forgets the partitions' state.
  void drop(const Bits& parts);
  /// Forgets every epoch below `epoch`.
  void forget_below(uint32_t epoch);

  /// One partition's sums and shards of the epochs from `first_epoch` on.
  void export_to(PartitionId p, uint32_t first_epoch, checkpoint::PartitionImage& image) const;
  /// Checks an image against the limits and its own invariants; then import_from can't fail.
  Result<void> check(const checkpoint::PartitionImage& image, uint32_t first_epoch) const;
  void import_from(const checkpoint::PartitionImage& image, uint32_t first_epoch);

  /// Sums of one partition over its ended shards; null where it has none.
  struct Sums {
    IntervalSet ended;
    wire::ShardCounts counts;
    std::vector<OutputSums> metrics;
    uint64_t records_hash = 0;  // of the records of ended shards
    bool hash_known = true;     // false: an image of an older build holds some of those shards
    uint64_t known_hash() const { return hash_known ? records_hash : 0; }
  };
  const Sums* sums(uint32_t epoch, PartitionId p) const;
  /// Shards begun at one of `parts` and not ended at all of them, with their smallest watermark.
  std::vector<wire::ShardWatermark> open(uint32_t epoch, const Bits& parts) const;
  size_t rows() const { return row_count_; }

 private:
  struct Epoch {
    std::map<uint32_t, std::unique_ptr<ShardRow>> rows;
    std::vector<Sums> sums;  // one for each partition
  };
  Epoch& open_epoch(uint32_t epoch);
  ShardRow& open_row(Epoch& epoch, uint32_t shard, PeerKey from);
  using Row = std::map<uint32_t, std::unique_ptr<ShardRow>>::iterator;
  Row erase_row(Epoch& epoch, Row row);

  uint32_t partition_count_;
  PsLimits limits_;
  std::map<uint32_t, Epoch> epochs_;
  std::vector<std::unique_ptr<ShardRow>> spare_;  // all zero
  size_t row_count_ = 0;
  std::map<PeerKey, uint32_t> begun_by_;  // rows, by the peer that began the shard
};

}  // namespace downpour::ps
