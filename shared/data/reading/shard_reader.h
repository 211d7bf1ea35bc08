// ShardReader: yields the batches of a shard.
#pragma once

#include <cstdint>
#include <optional>

#include "shared/base/result.h"
#include "shared/tensor/batch.h"

namespace downpour::data {

enum class Split : uint8_t { kTrain, kHeldOut, kAll };  // which side of the holdout a reader yields

/// The counts of a whole shard, known after its last batch.
struct ShardTotals {
  ReadCounts counts;
  uint32_t batches = 0;
  // The range of the shard. Its meaning depends on the shard:
  // - One range of a file: the offsets at which the range begins and ends, including line breaks,
  //   blank lines and headers. The ranges of all shards tile the file.
  // - Several ranges: sums of hashes; see RecordFlow::extent().
  // - A piece of a sequential source (read_plan.h): hashes of all records of the source before the
  //   shard, and of all records up to the end of the shard.
  uint64_t first_offset = 0, end_offset = 0;
  uint64_t records_hash = 0;
  uint64_t bytes = 0;  // bytes (program: records) of the shard that were read
};

/// Yields the batches of one shard in order. Reading always starts at the beginning of the shard.
/// Batches before `first_batch` are parsed for their counts but not yielded.
class ShardReader {
 public:
  virtual ~ShardReader() = default;
  /// Fills `batch` (its vectors are reused) and returns true. Returns false at the end of the
  /// shard; totals() is valid from then on. Errors: kBadData with where = "file:line" and the text,
  /// kNoInput, kIo. After an error the reader must not be used again.
  virtual Result<bool> next(Batch& batch) = 0;
  virtual const ShardTotals& totals() const = 0;
  /// Returns whether all records come from a cache, so that no file is read.
  virtual bool is_kept() const { return false; }
  /// Returns, after an error of next(), the batch of the bad record; nothing if the cause of the
  /// error is not a record.
  virtual std::optional<uint32_t> failed_batch() const = 0;
};

}  // namespace downpour::data
