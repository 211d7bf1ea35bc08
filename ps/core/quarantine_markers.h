// Lines: batches that are given up, as each partition of a core knows them. Part of a partition's
// unit, like its watermarks.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "ps/core/bits.h"
#include "shared/wire/messages.h"

namespace downpour::ps {

/// By batch, which partitions hold a line for it. A partition takes a batch that is given up there
/// without a gradient, and only so; where it had applied the batch when the line came, or the line
/// is withdrawn, the batch is one as any other.
class QuarantineMarkers {
 public:
  explicit QuarantineMarkers(uint32_t partition_count) : none_(bits_for(partition_count)) {}

  bool empty() const { return entries_.empty(); }
  /// Whether any partition holds a line for a batch of this shard.
  bool concerns(ShardId shard) const;
  bool quarantines(BatchId batch, PartitionId p) const;
  /// Batches of the shard that are given up at the partition.
  uint32_t quarantined_count(ShardId shard, PartitionId p) const;

  /// The partition hears of a line; `applied`: it has applied the batch, in whichever way. False
  /// where that contradicts what it did: the batch was given up here and counts elsewhere.
  [[nodiscard]] bool take(const wire::QuarantineMarker& marker, PartitionId p, bool applied);

  /// Forgets the partitions' lines.
  void drop(const Bits& parts);
  void forget_below(uint32_t epoch);
  /// One partition's lines of the epochs from `first_epoch` on.
  std::vector<wire::QuarantineMarker> of(PartitionId p, uint32_t first_epoch) const;
  /// The lines of an image, as they stand in it.
  void import_from(const std::vector<wire::QuarantineMarker>& markers, PartitionId p,
                   uint32_t first_epoch);
  /// Every line; `had`, `withdrawn`, and past without a gradient where that is so at any partition.
  /// applied(batch, p): in whichever way.
  template <typename Applied>
  std::vector<wire::QuarantineMarker> all(Applied&& applied) const {
    std::vector<wire::QuarantineMarker> markers;
    for (const auto& [batch, entry] : entries_) {
      wire::QuarantineMarker marker{batch, !none(entry.withdrawn), !none(entry.had)};
      for_each(entry.held, [&](PartitionId p) {
        marker.passed = marker.passed || (quarantines(entry, p) && applied(batch, p));
      });
      markers.push_back(marker);
    }
    return markers;
  }
  size_t size() const { return entries_.size(); }

 private:
  struct Entry {
    Bits held, had, withdrawn;
  };
  Entry& entry(BatchId batch);
  bool quarantines(const Entry& entry, PartitionId p) const {
    return contains(entry.held, p) && !contains(entry.had, p) && !contains(entry.withdrawn, p);
  }

  Bits none_;
  std::map<BatchId, Entry> entries_;
};

}  // namespace downpour::ps
