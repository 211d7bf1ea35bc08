// PartitionImage: the complete state of one partition (variables, slots, version, watermarks,
// counts, metrics), exchanged between a ps core and the checkpoint files. State that changes
// together is saved together.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "shared/base/ids.h"
#include "shared/base/page_vector.h"
#include "shared/metrics/sums.h"
#include "shared/tensor/variables.h"
#include "shared/wire/control_messages.h"
#include "shared/wire/lease_messages.h"
#include "shared/wire/member_messages.h"

namespace downpour::checkpoint {

/// The rows of one table in one partition. Each variable has optim::stored_floats() floats for each
/// key, the weights followed by the slots: [weights dim][slot 0 dim]...[slots of the row]. For a
/// dense variable, row_floats(key) takes the place of dim.
struct TableImage {
  TableId table{};
  // ascending; an image to be written may have the keys of an embedding in any order
  PageVector<uint64_t> keys;
  std::vector<PageVector<float>> table_variables;  // per variable: the rows of all keys in order
  bool operator==(const TableImage&) const = default;
};

/// The progress and the sums of one shard at this partition.
struct ShardImage {
  ShardId shard;
  uint32_t watermark = 0;
  bool ended = false;  // always false: EpochImage has the ended shards
  uint64_t records = 0;
  uint64_t records_hash = 0;
  wire::ShardCounts counts;  // only of ended ones
  bool operator==(const ShardImage&) const = default;
};

/// The sums of an unsealed epoch at this partition.
struct EpochImage {
  uint32_t epoch = 0;
  uint32_t shards_ended = 0;
  wire::ShardCounts counts;
  std::vector<OutputSums> metrics;
  std::vector<wire::Interval> ended;  // ended shards as ascending intervals
  uint64_t records_hash = 0;          // sum over the records of these shards; 0: not known
  bool operator==(const EpochImage&) const = default;
};

/// The state of one partition: a full image, or, if it has a base, an incremental image. An
/// incremental image omits the rows that have not changed since the base; everything except rows is
/// complete.
struct PartitionImage {
  PartitionId partition{};
  uint64_t base = 0;  // checksum of the image that it builds on; 0: a full image
  uint64_t version = 0;
  uint32_t sealed_epochs = 0;
  std::vector<EpochImage> epochs;                    // unsealed ones, ascending
  std::vector<ShardImage> shards;                    // begun and not ended, ascending
  std::vector<TableImage> tables;                    // by id; without tables that have no rows
  std::vector<wire::QuarantineMarker> markers = {};  // of unsealed epochs, ascending
  uint64_t plan_hash = 0;  // plan of the unsealed epochs; 0: not known, or nothing of them is held
  uint64_t steps_before = 0;  // steps of earlier runs, whose optimizer slots the run has inherited
  /// Returns true if the image holds anything of epoch `epoch` or a later one.
  bool holds_from(uint32_t epoch) const;
  bool operator==(const PartitionImage&) const = default;
};

/// Returns the number of bytes of keys and rows.
uint64_t bulk_bytes(const PartitionImage& image);

/// Sorts rows by key. Keeps its memory for the next image.
class RowSorter {
 public:
  /// Sorts the rows of every table.
  void sort(PartitionImage& image);
  /// Sorts the rows of one table. Unless the keys ascend already, the rows of a variable must have
  /// equal lengths.
  void sort(TableImage& image);

 private:
  struct Place {
    uint64_t key;
    uint32_t row;  // index before sorting
  };
  std::vector<Place> order_, sorted_;
  PageVector<float> rows_;
};

}  // namespace downpour::checkpoint
