// Batches as bytes, for an input process to send to a worker. Column by column, raw and
// little-endian; nothing of the files' text is left in them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "shared/base/bytes.h"
#include "shared/base/result.h"
#include "shared/tensor/batch.h"
#include "shared/wire/messages.h"

namespace downpour::wire {

/// Above it a batch is not sent: whoever wants it reads it itself. With some smaller ones before it
/// it fits what a transport queues to one peer (64 MiB).
constexpr uint64_t kBatchBytesMax = 48 * kFrameBytesMax;
constexpr uint32_t kBatchColumnsMax = 65536;  // of each kind

/// The bytes of a batch, a multiple of 4. Head: magic, flags, epoch, shard, batch, records (u32);
/// records' hash, five counts, end offset, first and last record (u64); numbers of float columns,
/// bags and tables, 0 (u32). Then a description of each: a float column's width; a bag's table,
/// flags, keys; a table's id, keys. Then the columns' values in the same order, each filled up to 4
/// bytes: floats; a bag's offsets where it has some, its keys (u16 where its table has at most
/// 65536 keys, else u32), its values where it has some; a table's keys (u64).
/// Error: kUnsupported, more than kBatchBytesMax.
Result<Bytes> encode_batch(const Batch& batch);

/// The same cut in pieces of at most kFrameBytesMax, for the values frames of ReadBatch.
std::vector<Bytes> cut_batch(const Bytes& batch);

/// The batch that these bytes are, its vectors used again. What comes is whole in itself: columns
/// are as long as its records want, offsets ascend, and no key lies outside its table. Whether it
/// is what was asked for is the caller's to check. Error: kMalformed.
Result<void> decode_batch(std::span<const uint8_t> bytes, Batch& batch);

}  // namespace downpour::wire
