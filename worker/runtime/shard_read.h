// ShardRead: reads one shard from its file to prepared batches, item by item, on the thread of the
// caller.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "shared/data/reading/dataset.h"
#include "worker/core/events.h"
#include "worker/runtime/leased_shard.h"
#include "worker/runtime/reader_options.h"
#include "worker/runtime/remote_reader.h"

namespace downpour::worker {

/// A shard to read, starting at a batch.
using ReadTask = WorkerEffects::Read;

/// Exactly one of batch, end and failure is set. Items come in the order of the shard.
struct ReadItem {
  uint64_t shard_read = 0;
  PreparedBatchPtr batch;
  std::optional<ShardEnd> end;
  std::optional<ReadFailure> failure;
  bool last = false;  // nothing follows
};

class ShardRead {
 public:
  /// Borrows `options`. The first next() opens the file, here or at an input process.
  ShardRead(const ReaderOptions& options, const ReadTask& task, RemoteShardRead remote = {})
      : options_(options), task_(task), remote_(std::move(remote)) {}

  /// Reads into `fresh`, whose memory is reused. Also plans the batch's pulls, unless
  /// `placements` is null. Nothing follows an end or an error.
  ReadItem next(PreparedBatchPtr fresh, std::shared_ptr<const Placements> placements);
  /// Does the same as next(), but does not wait for input processes. Returns nothing if none has
  /// sent a batch yet. Call it again with the same `fresh`.
  std::optional<ReadItem> poll(const PreparedBatchPtr& fresh,
                               std::shared_ptr<const Placements> placements);
  /// Bytes of the file that next() has consumed so far in this process; 0 from a cache.
  uint64_t bytes() const { return reader_ != nullptr && reader_->is_kept() ? 0 : offset_; }

 private:
  Result<void> open();
  ReadItem item_of(Result<bool> more, PreparedBatchPtr fresh,
                   std::shared_ptr<const Placements> placements);
  ReadItem failed(Error error) const;
  ReadItem end();

  const ReaderOptions& options_;
  ReadTask task_;
  RemoteShardRead remote_;
  std::unique_ptr<data::ShardReader> reader_;
  RemoteReader* elsewhere_ = nullptr;  // the same as reader_, if an input process may read
  std::string place_;                  // where the shard lies
  bool joined_ = false;
  uint64_t offset_ = 0;
  uint32_t given_ = 0;  // batches returned
};

}  // namespace downpour::worker
