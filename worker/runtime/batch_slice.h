// BatchSlice: some consecutive records of a batch, as a batch of their own.
#pragma once

#include <cstdint>
#include <vector>

#include "shared/tensor/batch.h"

namespace downpour::worker {

/// Keeps its memory between calls.
class BatchSlice {
 public:
  /// Makes records [begin, end) of `all` the current slice. Each table gets the unique keys of
  /// these records, in the order of their first use.
  void cut(const Batch& all, uint32_t begin, uint32_t end, BatchId id);
  const Batch& batch() const { return batch_; }
  /// Returns, for each key of batch().tables[table], its index in the whole batch's keys.
  const std::vector<uint32_t>& rows(size_t table) const { return rows_[table]; }

 private:
  void cut_bag(const BagColumn& all, uint32_t begin, uint32_t end, BagColumn& bag);

  Batch batch_;
  std::vector<std::vector<uint32_t>> rows_;    // by table
  std::vector<std::vector<uint32_t>> places_;  // by table: of each key of the whole batch; or none
};

}  // namespace downpour::worker
