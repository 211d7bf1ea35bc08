// Batch codec: batches as bytes, for an input process to send to a worker. Columns are raw and
// little-endian, one after the other. The text of the files is not included.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "shared/base/bytes.h"
#include "shared/base/result.h"
#include "shared/tensor/batch.h"
#include "shared/wire/member_messages.h"

namespace downpour::wire {

/// Maximum size of an encoded batch. The worker reads a larger batch itself. The limit leaves room
/// for smaller batches in what a transport queues to one peer (64 MiB).
constexpr uint64_t kBatchBytesMax = 48 * kFrameBytesMax;
constexpr uint32_t kBatchColumnsMax = 65536;  // of each kind

/// Returns the bytes of a batch; their number is a multiple of 4. Error: kUnsupported if there are
/// more than kBatchBytesMax.
///
/// The layout is:
/// - Head: magic, flags, epoch, shard, batch, records (u32); hash of the records, five counts, end
///   offset, first and last record (u64); numbers of float columns, bags and tables, and 0 (u32).
/// - Shape: the width of each float column; table, flags and number of keys of each bag; id and
///   number of keys of each table.
/// - Values of the columns in the same order, each padded to 4 bytes: floats; per bag its offsets
///   if it has some, its keys (u16 if its table has at most 65536 keys, else u32), and its values
///   if it has some; per table its keys (u64).
Result<Bytes> encode_batch(const Batch& batch);

/// Cuts the bytes of a batch into pieces of at most kFrameBytesMax, for the values frames of
/// ReadBatch.
std::vector<Bytes> cut_batch(const Bytes& batch);

/// Decodes a batch and reuses the vectors of `batch`. The result is consistent: the lengths of
/// columns match the number of records, offsets ascend, and each key is inside its table. The
/// caller checks that it is the requested batch. Error: kMalformed.
Result<void> decode_batch(std::span<const uint8_t> bytes, Batch& batch);

}  // namespace downpour::wire
