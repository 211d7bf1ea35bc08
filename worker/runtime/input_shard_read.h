// InputShardRead: reads one shard for a worker, batch by batch as messages, on the thread of the
// caller.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "shared/data/reading/dataset.h"
#include "worker/core/input_shard_reads.h"
#include "worker/runtime/shard_read.h"

namespace downpour::worker {

class InputShardRead {
 public:
  /// Borrows `options`. The first next() opens the shard.
  InputShardRead(const ReaderOptions& options, wire::ReadShard request)
      : options_(options), request_(std::move(request)) {}

  /// Reads one batch and returns its messages, or those of the shard's end or of an error. Call it
  /// until an item is the last one.
  InputItem next(uint64_t id);
  const wire::ReadShard& request() const { return request_; }
  /// Bytes of the file that next() has consumed so far; 0 from a cache.
  uint64_t bytes() const { return bytes_; }

 private:
  Result<std::vector<wire::Message>> next_batch(bool& last);

  const ReaderOptions& options_;
  wire::ReadShard request_;
  std::unique_ptr<data::ShardReader> reader_;
  Batch batch_;
  uint64_t offset_ = 0;
  uint64_t bytes_ = 0;
};

}  // namespace downpour::worker
