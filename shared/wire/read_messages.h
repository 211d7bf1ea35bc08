// Read messages: reading shards in another process. The chief lists the input processes; a worker
// and an input process exchange requests and batches.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "shared/base/ids.h"
#include "shared/base/result.h"
#include "shared/wire/lease_messages.h"

namespace downpour::wire {

/// A process that reads shards for workers.
struct InputProcess {
  uint32_t index = 0;
  Incarnation incarnation{};
  std::string endpoint;
  bool operator==(const InputProcess&) const = default;
};
/// Chief -> worker: the live input processes. Sent when the list changes, and with each answer to a
/// heartbeat.
struct InputList {
  std::vector<InputProcess> inputs;
  bool operator==(const InputList&) const = default;
};
/// Worker -> input process: read this shard and send its batches, starting at `first_batch`.
struct ReadShard {
  uint64_t shard_read = 0;  // id of the shard read on this connection
  Lease lease;              // purpose, shard, quarantined batches and plan: the records to read
  uint32_t first_batch = 0;
  uint32_t window = 1;  // batches that may be sent and not yet acknowledged
  bool operator==(const ReadShard&) const = default;
};
/// Worker -> input process: all batches below `next` have arrived. Repeated while the worker waits.
/// The input process returns it unchanged as a sign of life.
struct ReadMore {
  uint64_t shard_read = 0;
  uint32_t next = 0;
  bool stop = false;  // end the shard read
  bool operator==(const ReadMore&) const = default;
};
/// Input process -> worker. Payload: values frame with this piece of the batch's bytes
/// (batch_codec.h).
struct ReadBatch {
  uint64_t shard_read = 0;
  uint32_t batch = 0;
  uint32_t piece = 0, pieces = 1;
  bool operator==(const ReadBatch&) const = default;
};
/// Input process -> worker: the shard has no more batches. Counts and hash cover the whole shard.
struct ReadEnd {
  uint64_t shard_read = 0;
  ShardCounts counts;
  uint64_t records_hash = 0;
  bool operator==(const ReadEnd&) const = default;
};
/// Input process -> worker: this shard read has failed and is over.
struct ReadFailed {
  uint64_t shard_read = 0;
  ErrorCode code = ErrorCode::kUnavailable;
  std::string what, where, hint, id;
  // A record of `batch` cannot be read. False: the data are not known to be the cause.
  bool of_record = false;
  uint32_t batch = 0;
  bool operator==(const ReadFailed&) const = default;
};

}  // namespace downpour::wire
