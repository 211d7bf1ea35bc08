// Shard reading: one shard from its file to prepared batches, item by item, on whatever thread
// calls.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "shared/data/dataset.h"
#include "shared/plan/shard.h"
#include "worker/core/events.h"
#include "worker/core/reader_tuner.h"
#include "worker/runtime/leased_shard.h"
#include "worker/runtime/remote_reader.h"

namespace downpour::worker {

struct ReaderOptions {
  std::shared_ptr<const data::ReadPlan> train;
  std::shared_ptr<const data::ReadPlan> eval;     // the same as `train` with a holdout
  std::shared_ptr<const data::ReadPlan> predict;  // as `eval`, but targets may be missing
  plan::ShardMap train_shards;
  std::vector<plan::ShardRange> eval_ranges;
  bool eval_held_out = false;  // eval reads the held-out side of the training files
  std::vector<TableSpec> tables;
  ReaderLimits limits;
  uint64_t message_bytes_max = wire::kFrameBytesMax;  // as WorkerConfig's
  std::shared_ptr<InputDirectory> inputs;             // who may read instead; null: nobody
};

/// A shard to be read from a batch on.
using ReadTask = WorkerEffects::Read;

/// One of batch, end, error is set. In the order of the shard.
struct ReadItem {
  uint64_t shard_read = 0;
  PreparedBatchPtr batch;
  std::optional<ShardEnd> end;
  std::optional<ReadFailure> failure;
  bool last = false;  // nothing follows
};

class ShardRead {
 public:
  /// `options` is borrowed. The file is opened by the first next(), here or by an input process.
  ShardRead(const ReaderOptions& options, const ReadTask& task, RemoteShardRead remote = {})
      : options_(options), task_(task), remote_(std::move(remote)) {}

  /// Reads into `fresh`, whose memory is used again, and plans for `placements` where there are
  /// some. After an end or an error nothing follows.
  ReadItem next(PreparedBatchPtr fresh, std::shared_ptr<const Placements> placements);
  /// Does what next() does, but does not wait for input processes. Returns nothing where none has
  /// sent a batch yet; call it again with the same `fresh`.
  std::optional<ReadItem> poll(const PreparedBatchPtr& fresh,
                               std::shared_ptr<const Placements> placements);
  /// Bytes of the file that next() has got through so far, in this process; 0 from a cache.
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
  RemoteReader* elsewhere_ = nullptr;  // reader_, where an input process may read
  std::string place_;                  // where the shard lies
  bool joined_ = false;
  uint64_t offset_ = 0;
  uint32_t given_ = 0;  // batches
};

}  // namespace downpour::worker
