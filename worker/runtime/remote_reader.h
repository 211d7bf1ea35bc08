// RemoteReader: reads a shard through an input process. If that process dies, is silent or fails,
// the reader continues from the next needed batch: at another input process, and finally in this
// process. A batch id names the same records everywhere, so the batches are the same.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "shared/data/reading/dataset.h"
#include "shared/wire/messages.h"
#include "worker/runtime/input_directory.h"
#include "worker/runtime/input_link.h"
#include "worker/runtime/leased_shard.h"

namespace downpour::worker {

/// What a reading thread needs to reach input processes. All pointers are borrowed.
struct RemoteShardRead {
  InputDirectory* inputs = nullptr;  // null: the thread reads by itself
  InputLink* link = nullptr;
  std::function<bool()> stopped;  // true when the worker no longer needs the shard read
};

class RemoteReader final : public data::ShardReader {
 public:
  /// Reads `lease`, starting at `first_batch`, at most `batches_max` batches.
  RemoteReader(RemoteShardRead remote, LeasedShard shard, wire::Lease lease, uint32_t first_batch,
               uint32_t batches_max);
  ~RemoteReader() override;

  Result<bool> next(Batch& batch) override;
  /// Does the same as next(), but waits at most `timeout_ns` for a message. Returns nothing if
  /// neither a batch nor the end has come by then. Call it again with the same batch.
  Result<std::optional<bool>> poll(Batch& batch, int64_t timeout_ns);
  const data::ShardTotals& totals() const override;
  std::optional<uint32_t> failed_batch() const override;
  /// Whether this process reads the files itself now.
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
  uint32_t first_ = 0, next_ = 0;  // batch requested first; batch needed next
  uint32_t window_ = 1;
  std::optional<wire::InputProcess> at_;  // the input process that reads
  uint64_t shard_read_ = 0;               // number of the shard read there
  int64_t heard_ns_ = 0, asked_ns_ = 0;
  bool waiting_ = false;                 // poll() has returned without a batch
  std::optional<int64_t> searching_ns_;  // start of the search for an input process
  bool came_ = false;                    // this shard read has delivered a batch
  uint32_t tries_ = 0;                   // shard reads begun since the last batch
  std::vector<Incarnation> without_;
  std::optional<Incarnation> forgot_;  // input process that lost it without a batch
  std::vector<Bytes> pieces_;          // received pieces of the next batch
  uint64_t piece_bytes_ = 0;           // their sum
  std::optional<Error> failure_;       // of an input process; returned if nothing else may read
  std::optional<Error> error_;         // of a record; ends the shard
  std::optional<uint32_t> failed_batch_;
  std::optional<data::ShardTotals> totals_;
  std::unique_ptr<data::ShardReader> here_;
};

}  // namespace downpour::worker
