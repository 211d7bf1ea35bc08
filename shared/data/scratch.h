// Scratch: the memory a reader works in, kept between readers. Fresh pages cost more than parsing
// into them.
#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "shared/data/unique.h"
#include "shared/data/window.h"

namespace downpour::data {

/// Raw keys of one field of the batch being read, before they are made unique.
struct KeyBuffer {
  std::vector<uint64_t> keys;     // sized for what may come; `count` of them are valid
  std::vector<float> values;      // the same, where the field has values
  std::vector<uint32_t> offsets;  // begins per record, and the end; empty: one key a record
  size_t count = 0;
  bool has_values = false;
  bool all_one = true;  // every value so far is exactly 1

  void ensure(size_t more) {
    if (count + more <= keys.size()) return;
    keys.resize((count + more) * 3 / 2);
    if (has_values) values.resize(keys.size());
  }
};

/// A record in the window of one of a shard's ranges.
struct RangeRecord {
  RecordRef ref;
  uint32_t range = 0;
};

struct Scratch {
  /// Of a window.
  struct Text {
    Buffer bytes;
    std::vector<RecordRef> records;
  };
  std::deque<Text> texts;          // per range, or more; they stay where they are
  std::vector<RangeRecord> taken;  // from the windows of several ranges
  std::vector<KeyIndex> indexes;   // per table of the layout
  std::vector<KeyBuffer> keys;     // per field that is read as keys
};

/// Hands out scratch memory to readers and takes it back. Any thread.
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
