// Record traces: locates a record in a file, and finds what the reader does with it. A diagnostic
// tool; training does not use it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "shared/data/reading/batch_reader.h"
#include "shared/plan/shard.h"

namespace downpour::data {

enum class RecordUnit : uint8_t {
  kRecord,  // record number, starting at 1, without headers, blanks and comments
  kLine,    // line number, starting at 1, as in error messages; any line of the record
  kByte,    // offset of any byte of the record
};

struct RecordPlace {
  uint64_t number = 0;  // of the record in its file, starting at 1
  uint64_t offset = 0;  // of its first byte, after decompression
  uint64_t bytes = 0;
  std::string where;  // "file:line"
};

/// Finds a record by reading its file from the start. Errors: kNoInput, which says what the file
/// contains instead; those of reading.
Result<RecordPlace> find_record(std::shared_ptr<const ReadPlan> plan, uint32_t file, uint64_t n,
                                RecordUnit unit);

/// Reads a shard like a worker that knows the quarantined batches in `quarantined_batches`. Errors:
/// kNoInput if no record of the shard starts at `offset` of the file; those of reading, including a
/// bad record.
Result<RecordFate> trace_record(std::shared_ptr<const ReadPlan> plan, Split split, ShardId shard,
                                std::vector<plan::ShardRange> ranges,
                                std::vector<uint32_t> quarantined_batches, uint32_t file,
                                uint64_t offset);

}  // namespace downpour::data
