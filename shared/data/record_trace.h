// Record traces: where a record of a file is, and which way it goes through the reading of its
// shard. For people who ask; nothing of training needs it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "shared/data/dataset.h"

namespace downpour::data {

enum class RecordUnit : uint8_t {
  kRecord,  // the nth record of the file, from 1; headers, blank lines and comments are none
  kLine,    // the record that has the nth line, or a part of it, from 1, as error messages name it
  kByte,    // the record that holds this byte
};

struct RecordPlace {
  uint64_t number = 0;  // of the record in its file, from 1
  uint64_t offset = 0;  // of its first byte (decompressed)
  uint64_t bytes = 0;
  std::string where;  // "file:line"
};

/// Finds a record by reading its file from the start. Errors: kNoInput naming what there is
/// instead, and those of reading.
Result<RecordPlace> find_record(std::shared_ptr<const ReadPlan> plan, uint32_t file, uint64_t n,
                                RecordUnit unit);

struct RecordFate {
  enum class Kind : uint8_t {
    kBatch,        // it is one of a batch's
    kHeldOut,      // left out of training, for evaluation
    kFiltered,     // left out by the job's filter
    kSkipped,      // a bad record, which the job leaves out
    kDropped,      // of a short last batch
    kQuarantined,  // of a batch that is given up
  };
  Kind kind = Kind::kBatch;
  uint32_t batch = 0;  // kBatch, kQuarantined
};

/// Reads a shard as a worker does that knows of the batches in `given_up`. Errors: kNoInput where
/// no record of the shard starts at `offset` of the file, and those of reading, a bad record's
/// among them.
Result<RecordFate> trace_record(std::shared_ptr<const ReadPlan> plan, Split split, ShardId shard,
                                std::vector<plan::ShardRange> ranges,
                                std::vector<uint32_t> quarantined_batches, uint32_t file,
                                uint64_t offset);

}  // namespace downpour::data
