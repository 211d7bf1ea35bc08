#include "worker/runtime/ready_items.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace downpour::worker {

bool ReadyItems::has_room(uint64_t shard_read, const ReaderLimits& limits) const {
  if (!by_shard_) return batches_ < limits.batches;
  const auto own = batches_of_.find(shard_read);
  const uint32_t part = limits.batches / std::max(1U, limits.shards);
  return own == batches_of_.end() || own->second < part;
}

void ReadyItems::push(ReadItem&& item) {
  if (item.batch) {
    ++batches_;
    ++batches_of_[item.shard_read];
  }
  items_.push_back(std::move(item));
}

bool ReadyItems::try_pop(const WantsBatch& wants, ReadItem& item) {
  std::vector<uint64_t> held_up;  // shard reads whose next batch is not wanted
  auto next = items_.begin();
  for (; next != items_.end(); ++next) {
    if (std::ranges::find(held_up, next->shard_read) != held_up.end()) continue;
    if (!next->batch || wants(next->shard_read)) break;
    if (!by_shard_) return false;
    held_up.push_back(next->shard_read);
  }
  if (next == items_.end()) return false;
  item = std::move(*next);
  items_.erase(next);
  count_taken(item);
  return true;
}

void ReadyItems::drop(uint64_t shard_read) {
  std::erase_if(items_, [&](const ReadItem& item) {
    if (item.shard_read != shard_read) return false;
    count_taken(item);
    return true;
  });
}

void ReadyItems::count_taken(const ReadItem& item) {
  if (!item.batch) return;
  --batches_;
  const auto own = batches_of_.find(item.shard_read);
  if (--own->second == 0) batches_of_.erase(own);
}

}  // namespace downpour::worker
