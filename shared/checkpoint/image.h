// PartitionImage: the whole unit of one partition (variables, slots, version, watermarks, counts,
// metrics) between a ps core and the checkpoint files. What is changed together is saved together.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "shared/base/ids.h"
#include "shared/base/page_vector.h"
#include "shared/metrics/sums.h"
#include "shared/tensor/variables.h"
#include "shared/wire/messages.h"

namespace downpour::checkpoint {

/// Rows of one table that lie in one partition. For each key and each member: weights and slots as
/// stored, `stored_floats[m]` floats: [weights dim][slot 0 dim][slot 1 dim]... Dense:
/// row_floats(key) in place of dim.
struct TableImage {
  TableId table{};
  PageVector<uint64_t> keys;  // ascending; embedding, to be written: in any order
  std::vector<PageVector<float>> table_variables;  // members[m]: the keys' rows one after the other
  bool operator==(const TableImage&) const = default;
};

/// One shard's state at this partition: how far, and its sums so far.
struct ShardImage {
  ShardId shard;
  uint32_t watermark = 0;
  bool ended = false;
  uint64_t records = 0;
  uint64_t records_hash = 0;
  wire::ShardCounts counts;  // ended only
  bool operator==(const ShardImage&) const = default;
};

/// An unsealed epoch's sums at this partition.
struct EpochImage {
  uint32_t epoch = 0;
  uint32_t shards_ended = 0;
  wire::ShardCounts counts;
  std::vector<OutputSums> metrics;
  std::vector<wire::Interval> ended;  // ended shards, compacted
  uint64_t records_hash = 0;          // sum over their records; 0: not known
  bool operator==(const EpochImage&) const = default;
};

/// All of a partition, or, with a base, all but the rows that are as they were in that image.
/// Whatever is no row is whole in either.
struct PartitionImage {
  PartitionId partition{};
  uint64_t base = 0;  // checksum of the image that it builds on; 0: none
  uint64_t version = 0;
  uint32_t sealed_epochs = 0;
  std::vector<EpochImage> epochs;                    // unsealed ones, ascending
  std::vector<ShardImage> shards;                    // begun and not ended, ascending
  std::vector<TableImage> tables;                    // by id; tables without rows are absent
  std::vector<wire::QuarantineMarker> markers = {};  // of unsealed epochs, ascending
  uint64_t plan_hash =
      0;  // under which unsealed epochs were trained; 0: not known, or nothing of them is held
  /// Whether anything of an epoch from `epoch` on is held.
  bool holds_from(uint32_t epoch) const;
  bool operator==(const PartitionImage&) const = default;
};

/// Bytes of keys and rows.
uint64_t bulk_bytes(const PartitionImage& image);

/// Puts rows in the order of their keys. Keeps its memory for the next image.
class RowSorter {
 public:
  void sort(PartitionImage& image);
  /// Rows of one length in each member, unless the keys are ascending already.
  void sort(TableImage& image);

 private:
  struct Place {
    uint64_t key;
    uint32_t row;  // where it was
  };
  std::vector<Place> order_, sorted_;
  PageVector<float> rows_;
};

}  // namespace downpour::checkpoint
