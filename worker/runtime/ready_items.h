// ReadyItems: the items that the readers of a worker have read and its core has not taken.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>

#include "worker/core/reader_tuner.h"
#include "worker/runtime/shard_read.h"

namespace downpour::worker {

/// Returns whether the core takes a batch of this shard read now.
using WantsBatch = std::function<bool(uint64_t shard_read)>;

/// A bounded queue. Ends and failures need no room. With `by_shard`, every shard read has an equal
/// part of the room, and a batch that the core does not want holds up only its own shard. A step of
/// synchronous training needs a batch of every replica, so one shard must not fill the queue.
class ReadyItems {
 public:
  explicit ReadyItems(bool by_shard) : by_shard_(by_shard) {}

  /// Returns whether a batch of this shard read may be added.
  bool has_room(uint64_t shard_read, const ReaderLimits& limits) const;
  void push(ReadItem&& item);
  /// Takes the next item, in the order of each shard; takes a batch only if `wants` it.
  bool try_pop(const WantsBatch& wants, ReadItem& item);
  /// Drops the items of a shard read.
  void drop(uint64_t shard_read);

  bool empty() const { return items_.empty(); }
  uint32_t batches() const { return batches_; }

 private:
  void count_taken(const ReadItem& item);

  bool by_shard_;
  std::deque<ReadItem> items_;
  uint32_t batches_ = 0;
  std::map<uint64_t, uint32_t> batches_of_;  // by shard read
};

}  // namespace downpour::worker
