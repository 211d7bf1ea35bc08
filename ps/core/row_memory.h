// RowMemory: memory for the rows that a part or an image adds.
#pragma once

#include <cstdint>
#include <vector>

#include "ps/core/memory_budget.h"
#include "ps/core/partition.h"
#include "ps/core/payload.h"
#include "shared/base/result.h"
#include "shared/checkpoint/image.h"

namespace downpour::ps {

/// Reserves memory before anything of the part or image is applied. Error kConfig (DP-2401): the
/// tables may not grow that far, or no address space is left.
class RowMemory {
 public:
  /// Keeps the reference to `partitions`.
  RowMemory(const PsConfig& config, Partitions& partitions)
      : partitions_(partitions),
        budget_(config.table_bytes_max),
        reserves_(config.arenas.reserves) {}

  /// Reports that the machine has `free_bytes` for the tables, in addition to what they hold.
  void on_free(uint64_t free_bytes);
  Result<void> make_room(const std::vector<Piece>& pieces);
  Result<void> make_room(const checkpoint::PartitionImage& image);

 private:
  /// `rows`: the number of rows that each table is about to make.
  Result<void> make_room(const std::vector<uint64_t>& rows);
  Error out_of_memory(uint64_t held_bytes, uint64_t bytes) const;

  Partitions& partitions_;
  MemoryBudget budget_;
  bool reserves_;  // the arenas reserve address space
};

}  // namespace downpour::ps
