// Watermarks: for each partition and shard, the number of the shard's batches that the partition
// has applied, the number of their records, and the sum of the records' hashes. Leases, completion
// and recovery follow from them.
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

/// A shard that some partition has begun: three columns over all partitions.
struct ShardRow {
  std::vector<uint32_t> watermarks;  // wire::kShardEnded if ended
  std::vector<uint64_t> records;     // sum over the applied batches
  std::vector<uint64_t> hashes;      // wrapping sum of their records' hashes
  PeerKey begun_by = kChiefPeer;     // kChiefPeer: from an image
};

/// The watermarks of all partitions of one core. All values of a partition that the core does not
/// own are 0. An argument `parts` is a set of partitions.
class Watermarks {
 public:
  Watermarks(uint32_t partition_count, const PsLimits& limits);

  /// Returns the shard's columns. Null if no partition has begun it, or if every partition that has
  /// begun it has ended it.
  const ShardRow* find(ShardId shard) const;
  /// Returns the watermark, or wire::kShardEnded if the shard has ended at the partition.
  uint32_t watermark(ShardId shard, PartitionId p) const;

  /// Checks that the limits allow a batch of this shard from this peer at `parts`. `end`: it is a
  /// shard-end marker. The error names the limit.
  Result<void> room_for(ShardId shard, const Bits& parts, bool end, PeerKey from) const;
  /// Adds 1 to the watermarks of `parts`, which must equal the batch number, and adds the batch's
  /// records and hash to their sums.
  void advance(BatchId batch, const Bits& parts, uint64_t records, uint64_t records_hash,
               PeerKey from);
  /// Marks the shard as ended at `parts`, and adds its counts and hash to their sums.
  void end(ShardId shard, const Bits& parts, const wire::ShardCounts& counts,
           uint64_t records_hash);
  /// Adds a batch's metrics to one partition. Call it after advance() or end() for the same batch.
  void add_metrics(uint32_t epoch, PartitionId p, const std::vector<OutputSums>& metrics);

  /// Drops the state of these partitions.
  void drop(const Bits& parts);
  /// Drops every epoch below `epoch`.
  void forget_below(uint32_t epoch);

  /// Exports one partition's sums and shards for the epochs from `first_epoch` on.
  void export_to(PartitionId p, uint32_t first_epoch, checkpoint::PartitionImage& image) const;
  /// Checks an image against the limits and its own invariants. After that, import_from() cannot
  /// fail.
  Result<void> check(const checkpoint::PartitionImage& image, uint32_t first_epoch) const;
  void import_from(const checkpoint::PartitionImage& image, uint32_t first_epoch);

  /// Sums of one partition: `metrics` over all batches that it has applied, the other fields over
  /// its ended shards. sums() returns null if no partition of the core has anything of the epoch.
  struct Sums {
    IntervalSet ended;
    wire::ShardCounts counts;
    std::vector<OutputSums> metrics;
    uint64_t records_hash = 0;  // sum over the records of ended shards
    bool hash_known = true;     // false: some of those shards come from an image of an older build
    uint64_t known_hash() const { return hash_known ? records_hash : 0; }
  };
  const Sums* sums(uint32_t epoch, PartitionId p) const;
  /// Returns the shards that one of `parts` has begun and not ended, with the smallest watermark of
  /// `parts`, which must be all owned partitions.
  std::vector<wire::ShardWatermark> open(uint32_t epoch, const Bits& parts) const;
  size_t rows() const { return row_count_; }

 private:
  struct Epoch {
    std::map<uint32_t, std::unique_ptr<ShardRow>> rows;
    std::vector<Sums> sums;  // by partition
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
  std::map<PeerKey, uint32_t> begun_by_;  // number of rows, by the peer that began the shard
};

}  // namespace downpour::ps
