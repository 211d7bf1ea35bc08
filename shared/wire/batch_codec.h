// Batch codec: encodes the batches that input processes send to workers. The bytes are the columns,
// raw and little-endian, one after the other, without the text from which they were parsed.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "shared/base/bytes.h"
#include "shared/base/result.h"
#include "shared/tensor/batch.h"
#include "shared/wire/member_messages.h"

namespace downpour::wire {

/// Maximum size of an encoded batch in bytes. A worker reads larger batches in its own process. The
/// limit is below the 64 MiB that a transport queues to one peer, so that other batches fit into
/// the queue, too.
constexpr uint64_t kBatchBytesMax = 48 * kFrameBytesMax;
constexpr uint32_t kBatchColumnsMax = 65536;  // of each kind: float columns, bags, tables

/// Returns the bytes of a batch; their number is a multiple of 4. Error: kUnsupported if there are
/// more than kBatchBytesMax.
///
/// The layout is:
/// - Head: magic, flags, epoch, shard, batch, records (u32); hash of the records, five counts, end
///   offset, first and last record (u64); numbers of float columns, bags and tables, and 0 (u32).
/// - Shape: the width of each float column; table, flags and number of keys of each bag; id and
///   number of keys of each table.
/// - Values of the columns in the same order, each array padded to 4 bytes: of each float column
///   its floats; of each bag its offsets (if any), its keys as indices into its table's keys (u16
///   if the table has at most 65536 keys, else u32), and its values (if any); of each table its
///   keys (u64).
Result<Bytes> encode_batch(const Batch& batch);

/// Cuts the bytes of a batch into pieces of at most kFrameBytesMax, for the values frames of
/// ReadBatch.
std::vector<Bytes> cut_batch(const Bytes& batch);

/// Decodes `bytes` into `batch`, whose vectors are reused. Checks that the lengths of columns match
/// the number of records, that offsets ascend, and that each key of a bag is a valid index into its
/// table's keys. The caller checks that the batch is the requested one. Error: kMalformed.
Result<void> decode_batch(std::span<const uint8_t> bytes, Batch& batch);

}  // namespace downpour::wire
