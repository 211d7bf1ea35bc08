// Batch: parsed records in the form that a model reads, with the unique keys of each table. Readers
// produce it; the pull plan and the kernels use it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "shared/base/ids.h"

namespace downpour {

/// A row-major [records, width] block of floats: numeric inputs, targets and weights.
struct FloatColumn {
  uint32_t width = 1;
  std::vector<float> values;
};

/// A bag of keys for each record. `keys` holds indexes into the unique keys of the table
/// (Batch::tables[table_index].keys).
struct BagColumn {
  uint32_t table_index = 0;       // into Batch::tables
  std::vector<uint32_t> offsets;  // records + 1 offsets into keys; empty: one key per record
  std::vector<uint32_t> keys;
  std::vector<float> values;  // of the keys; empty: all 1
};

/// The unique keys of one embedding table that a batch needs.
struct TableKeys {
  TableId table{};
  std::vector<uint64_t> keys;
};

/// The fields that the model reads of each record. The columns of a Batch have the same order.
struct FloatInput {
  std::string field;
  uint32_t width = 1;
  auto operator<=>(const FloatInput&) const = default;
};
struct BagInput {
  std::string field;
  uint32_t table_index = 0;  // into InputLayout::tables
  uint64_t salt = 0;         // added to the field's keys, so that they differ from other fields'
  auto operator<=>(const BagInput&) const = default;
};
struct InputLayout {
  std::vector<FloatInput> floats;  // inputs, then targets, then weights; each field once
  std::vector<BagInput> bags;
  std::vector<TableId> tables;  // embedding tables whose keys must be unique in a batch
  bool operator==(const InputLayout&) const = default;
};

/// The counts that a batch adds to the account of its shard.
struct ReadCounts {
  uint64_t read = 0;         // all records, including those counted below
  uint64_t filtered = 0;     // left out by a filter or held out for evaluation
  uint64_t skipped = 0;      // bad records, if the job allows them
  uint64_t dropped = 0;      // in a short last batch, with drop_remainder
  uint64_t quarantined = 0;  // in quarantined batches
  bool operator==(const ReadCounts&) const = default;
};

/// The unit of one gradient: the parsed records and what they add to the account.
struct Batch {
  BatchId id;
  uint32_t records = 0;
  uint64_t records_hash = 0;  // order-independent sum of the records' hashes
  std::vector<FloatColumn> floats;
  std::vector<BagColumn> bags;
  std::vector<TableKeys> tables;
  ReadCounts counts;
  // progress: bytes of the shard's ranges up to the end of the last record read
  uint64_t end_offset = 0;
  // lowest and highest start offset in the file of a record of this batch
  uint64_t first_record = 0, last_record = 0;
  bool quarantined = false;  // the batch was not parsed: it has counts but no records
};

}  // namespace downpour
