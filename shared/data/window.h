// Windows: the records of a shard, a bounded stretch at a time. What stands between bytes and
// parsers.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <sys/mman.h>
#include <vector>

#include "shared/base/check.h"
#include "shared/base/page_vector.h"
#include "shared/base/result.h"

namespace downpour::data {

constexpr size_t kLineBytesMax = size_t{16} << 20;        // a longer line is a bad record
constexpr size_t kShuffleWindowBytes = size_t{64} << 20;  // records are shuffled within so much
constexpr size_t kPlainWindowBytes = size_t{1} << 20;     // unshuffled: stays in the cache
constexpr uint64_t kWindowRecordsMax = uint64_t{4}
                                       << 20;  // of a window: records of few bytes end it
constexpr size_t kPadBytes = 64;               // readable behind every window

/// Memory that is not cleared and only grows. On huge pages where the system has them: shuffled
/// records are jumps over all of it, and small pages cost a page walk each.
class Buffer {
 public:
  char* data() { return memory_.get(); }
  const char* data() const { return memory_.get(); }
  size_t capacity() const { return capacity_; }
  /// Room for `capacity` bytes and kPadBytes behind them; the first `keep` bytes stay.
  void reserve(size_t capacity, size_t keep) {
    if (capacity <= capacity_) return;
    constexpr size_t kHugePage = size_t{2} << 20;
    const size_t unit = capacity < kHugePage / 2 ? kPageBytes : kHugePage;
    const size_t bytes = (capacity + kPadBytes + unit - 1) / unit * unit;
    std::unique_ptr<char, Free> grown(static_cast<char*>(std::aligned_alloc(unit, bytes)));
    DP_CHECK(grown != nullptr, bytes);  // out of memory
    // A wish; small pages do as well.
    if (unit == kHugePage) ::madvise(grown.get(), bytes, MADV_HUGEPAGE);
    if (keep > 0) std::memcpy(grown.get(), memory_.get(), keep);
    memory_ = std::move(grown);
    capacity_ = bytes - kPadBytes;
  }

 private:
  struct Free {
    void operator()(char* memory) const { std::free(memory); }
  };
  std::unique_ptr<char, Free> memory_;
  size_t capacity_ = 0;
};

/// A record's place in its window. A line comes without its line break, which is readable behind
/// it.
struct RecordRef {
  // As size: why there are no bytes.
  static constexpr uint32_t kTooLong = UINT32_MAX;          // over what a record may have
  static constexpr uint32_t kDamaged = UINT32_MAX - 1;      // where it ends is not known
  static constexpr uint32_t kCutShort = UINT32_MAX - 2;     // the file ends inside it
  static constexpr uint32_t kBadChecksum = UINT32_MAX - 3;  // so data.program did not get it
  static constexpr uint32_t kDropped = UINT32_MAX - 4;      // by data.program: no bad record
  static constexpr uint32_t kUnclosed = UINT32_MAX - 5;     // its quotes (LineRules::quoting)
  bool is_whole() const { return size < kUnclosed; }
  uint32_t begin = 0;
  uint32_t size = 0;
};

/// Where a record lies in the file, of a window whose text is not the file's.
struct RecordOffset {
  uint64_t offset = 0;
  uint32_t begin = 0;  // in the text
};

struct Window {
  const char* text = nullptr;
  uint64_t offset = 0;                        // of text[0] in the file (decompressed)
  std::vector<RecordRef>* records = nullptr;  // in file order; the reader may permute them
  uint64_t begin_progress = 0,
           end_progress = 0;  // bytes of the shard's range behind its start and its end
  std::span<const RecordOffset> places = {};  // of all its records, by `begin`; none: by `offset`

  /// The record's offset in the file.
  uint64_t offset_of(const RecordRef& record) const {
    if (places.empty()) [[likely]]
      return offset + record.begin;
    const auto place =
        std::lower_bound(places.begin(), places.end(), record.begin,
                         [](const RecordOffset& a, uint32_t begin) { return a.begin < begin; });
    DP_CHECK(place != places.end() && place->begin == record.begin, record.begin);
    return place->offset;
  }
};

/// Yields a shard's windows in order.
class WindowSource {
 public:
  virtual ~WindowSource() = default;
  /// False at the end.
  virtual Result<bool> next(Window& window) = 0;
  /// Whether all of what next() showed since the last call could be read: to be asked before what
  /// was made of its records is used.
  virtual Result<void> check() { return {}; }
  /// Whether it is known that next() will find no record.
  virtual bool at_end() const = 0;
  /// Where the first record starts (0 in the range that begins a file) and, at the end, where the
  /// last one ends.
  virtual uint64_t first_offset() const = 0;
  virtual uint64_t end_offset() const = 0;
  /// ByteSource::marks() of what it reads.
  virtual std::span<const uint64_t> marks() const { return {}; }
  /// "file:line" of a record, found by reading the file anew. Only for errors.
  virtual std::string locate(uint64_t offset) = 0;
};

}  // namespace downpour::data
