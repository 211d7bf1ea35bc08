// Batch: parsed records as a model reads them, with the unique keys of each table. The structure
// that travels from the reader to the pull plan and to the kernels.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "shared/base/ids.h"

namespace downpour {

/// A [records, width] row-major block of floats: numeric inputs and targets.
struct FloatColumn {
  uint32_t width = 1;
  std::vector<float> values;
};

/// A bag of keys per record. `keys` index the table's unique keys
/// (Batch::tables[table_index].keys).
struct BagColumn {
  uint32_t table_index = 0;       // into Batch::tables
  std::vector<uint32_t> offsets;  // records + 1 begins; empty: exactly one key a record
  std::vector<uint32_t> keys;
  std::vector<float> values;  // the keys' values; empty: all 1
};

/// The unique keys that a batch needs of one embedding table.
struct TableKeys {
  TableId table{};
  std::vector<uint64_t> keys;
};

/// What the model wants of a record, in order; the columns of a Batch stand in the same order.
struct FloatInput {
  std::string field;
  uint32_t width = 1;
  auto operator<=>(const FloatInput&) const = default;
};
struct BagInput {
  std::string field;
  uint32_t table_index = 0;  // into InputLayout::tables
  auto operator<=>(const BagInput&) const = default;
};
struct InputLayout {
  std::vector<FloatInput> floats;  // inputs first, then targets, then weights: each field once
  std::vector<BagInput> bags;
  std::vector<TableId> tables;  // the embedding tables whose keys must be made unique
  bool operator==(const InputLayout&) const = default;
};

/// Counts that a batch adds to its shard's account.
struct ReadCounts {
  uint64_t read = 0;         // records met, whatever became of them
  uint64_t filtered = 0;     // left out by a filter (or held out for evaluation)
  uint64_t skipped = 0;      // bad records, where the job allows it
  uint64_t dropped = 0;      // short last batch under drop_remainder
  uint64_t quarantined = 0;  // of batches that are given up
  bool operator==(const ReadCounts&) const = default;
};

struct Batch {
  BatchId id;
  uint32_t records = 0;
  uint64_t records_hash = 0;  // order-independent sum of the records' hashes
  std::vector<FloatColumn> floats;
  std::vector<BagColumn> bags;
  std::vector<TableKeys> tables;
  ReadCounts counts;
  uint64_t end_offset = 0;  // bytes of the shard's range behind the last record read (progress)
  uint64_t first_record = 0,
           last_record = 0;  // where its first and its last record start in the file
  bool quarantined = false;  // nothing of it was parsed: no records, counts only
};

}  // namespace downpour
