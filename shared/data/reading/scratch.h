// Scratch: the working memory of a reader, reused by later readers because allocating new pages
// costs more than parsing into them.
#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "shared/data/records/window.h"
#include "shared/data/values/key_buffer.h"
#include "shared/data/values/unique.h"

namespace downpour::data {

/// A record in the window of one of the shard's ranges.
struct RangeRecord {
  RecordRef ref;
  uint32_t range = 0;
};

struct Scratch {
  /// Memory of a window.
  struct Text {
    Buffer bytes;
    std::vector<RecordRef> records;
  };
  std::deque<Text> texts;          // at least one per range; their addresses do not change
  std::vector<RangeRecord> taken;  // from the windows of several ranges
  std::vector<KeyIndex> indexes;   // per table of the layout
  std::vector<KeyBuffer> keys;     // per field that is read as keys
};

/// Lends scratch memory to readers. Safe to use from any thread.
class ScratchPool {
 public:
  std::unique_ptr<Scratch> take() {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) return std::make_unique<Scratch>();
    std::unique_ptr<Scratch> scratch = std::move(free_.back());
    free_.pop_back();
    return scratch;
  }
  void give_back(std::unique_ptr<Scratch> scratch) {
    const std::lock_guard lock(mutex_);
    free_.push_back(std::move(scratch));
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<Scratch>> free_;
};

}  // namespace downpour::data
