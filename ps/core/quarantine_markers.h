// QuarantineMarkers: the batches that the job leaves out, as each partition of a core knows them.
// Markers are part of a partition's state, like its watermarks.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "ps/core/bits.h"
#include "shared/wire/member_messages.h"

namespace downpour::ps {

/// Stores for each batch which partitions hold a quarantine marker. A partition that quarantines a
/// batch accepts only a push without its gradient. The batch is not quarantined at a partition that
/// had applied it before the marker arrived, or after the marker is withdrawn.
class QuarantineMarkers {
 public:
  explicit QuarantineMarkers(uint32_t partition_count) : none_(bits_for(partition_count)) {}

  bool empty() const { return entries_.empty(); }
  /// Whether any partition holds a marker for a batch of this shard.
  bool concerns(ShardId shard) const;
  bool quarantines(BatchId batch, PartitionId p) const;
  /// Number of batches of the shard that are quarantined at the partition.
  uint32_t quarantined_count(ShardId shard, PartitionId p) const;

  /// Stores a marker at the partition. `applied`: whether the partition has passed the batch, with
  /// or without its gradient. Returns false if the marker is withdrawn although the partition has
  /// passed the batch without its gradient. Then the batch counts at other partitions and not here.
  [[nodiscard]] bool take(const wire::QuarantineMarker& marker, PartitionId p, bool applied);

  /// Drops the markers of these partitions.
  void drop(const Bits& parts);
  void forget_below(uint32_t epoch);
  /// Returns the markers of one partition for the epochs from `first_epoch` on.
  std::vector<wire::QuarantineMarker> of(PartitionId p, uint32_t first_epoch) const;
  /// Restores the markers of an image, for the epochs from `first_epoch` on.
  void import_from(const std::vector<wire::QuarantineMarker>& markers, PartitionId p,
                   uint32_t first_epoch);
  /// Returns every marker. Its flags `had`, `withdrawn` and `passed` are set if they hold at any
  /// partition. applied(batch, p): whether the partition has passed the batch, with or without its
  /// gradient.
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
