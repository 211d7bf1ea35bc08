// Remote reader: a shard as an input process reads it. Where that one dies, is silent, or does not
// want to, the reading goes on elsewhere from the next batch that is needed: at another, in the end
// here. A batch id names the same records everywhere, so nobody can tell.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "shared/data/dataset.h"
#include "shared/wire/messages.h"
#include "worker/runtime/input_directory.h"
#include "worker/runtime/input_link.h"
#include "worker/runtime/leased_shard.h"

namespace downpour::worker {

/// How a reading thread reaches input processes. All are borrowed.
struct RemoteShardRead {
  InputDirectory* inputs = nullptr;  // null: it reads for itself
  InputLink* link = nullptr;
  std::function<bool()> stopped;  // true once the worker has no use for the reading
};

class RemoteReader final : public data::ShardReader {
 public:
  /// Reads `lease` from `first_batch` on, at most `batches_max` batches.
  RemoteReader(RemoteShardRead remote, LeasedShard shard, wire::Lease lease, uint32_t first_batch,
               uint32_t batches_max);
  ~RemoteReader() override;

  Result<bool> next(Batch& batch) override;
  /// Does what next() does, but waits at most `timeout_ns` for a message. Returns nothing where no
  /// batch and no end has come by then; call it again with the same batch.
  Result<std::optional<bool>> poll(Batch& batch, int64_t timeout_ns);
  const data::ShardTotals& totals() const override;
  std::optional<uint32_t> failed_batch() const override;
  /// The files are read by this process (now).
  bool reads_here() const { return here_ != nullptr; }

 private:
  enum class Got : uint8_t { kNothing, kBatch, kEnd, kFailed, kElsewhere };

  Result<std::optional<bool>> advance(Batch& batch, int64_t timeout_ns);
  bool lost_its_reader();
  Result<void> begin();
  Result<void> read_here();
  Got take(wire::Message&& message, Batch& batch);
  Got take_piece(const wire::ReadBatch& piece, Bytes&& bytes, Batch& batch);
  Got take_end(const wire::ReadEnd& end);
  Got take_failure(wire::ReadFailed&& failed);
  void ask(bool stop = false);
  void leave(bool for_good);
  void drop_pieces();
  Got suspect(const std::string& why);
  void send(wire::Body body);

  RemoteShardRead remote_;
  LeasedShard shard_;
  wire::Lease lease_;
  uint32_t first_ = 0, next_ = 0;  // batch: asked for, needed now
  uint32_t window_ = 1;
  std::optional<wire::InputProcess> at_;  // who reads
  uint64_t shard_read_ = 0;               // what it is called there
  int64_t heard_ns_ = 0, asked_ns_ = 0;
  bool waiting_ = false;                 // a caller of poll() wants a batch
  std::optional<int64_t> searching_ns_;  // since when it looks for an input process
  bool came_ = false;                    // some batch, from this one
  uint32_t tries_ = 0;                   // begun since a batch came
  std::vector<Incarnation> without_;
  std::optional<Incarnation> forgot_;  // the reading, before a batch came
  std::vector<Bytes> pieces_;          // of the next batch
  uint64_t piece_bytes_ = 0;           // their sum
  std::optional<Error> failure_;       // of an input process: told where nobody else may read
  std::optional<Error> error_;         // of a record
  std::optional<uint32_t> failed_batch_;
  std::optional<data::ShardTotals> totals_;
  std::unique_ptr<data::ShardReader> here_;
};

}  // namespace downpour::worker
