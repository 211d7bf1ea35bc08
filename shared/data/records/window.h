// Windows: the records of a shard in bounded pieces. The interface between byte sources and
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
#include <utility>
#include <vector>

#include "shared/base/check.h"
#include "shared/base/page_vector.h"
#include "shared/base/result.h"

namespace downpour::data {

constexpr size_t kLineBytesMax = size_t{16} << 20;         // a longer line is a bad record
constexpr size_t kShuffleWindowBytes = size_t{64} << 20;   // records are shuffled within a window
constexpr size_t kPlainWindowBytes = size_t{1} << 20;      // without shuffling; fits in the cache
constexpr uint64_t kWindowRecordsMax = uint64_t{4} << 20;  // ends a window of very short records
constexpr size_t kPadBytes = 64;                           // readable bytes after every window

/// Uninitialized memory that only grows. Uses huge pages if the system has them, because shuffled
/// records are read in random order, and small pages would cost a page walk each.
class Buffer {
 public:
  char* data() { return memory_.get(); }
  const char* data() const { return memory_.get(); }
  size_t capacity() const { return capacity_; }
  /// Makes room for `capacity` bytes and kPadBytes after them. Keeps the first `keep` bytes.
  void reserve(size_t capacity, size_t keep) {
    if (capacity <= capacity_) return;
    constexpr size_t kHugePage = size_t{2} << 20;
    const size_t unit = capacity < kHugePage / 2 ? kPageBytes : kHugePage;
    const size_t bytes = (capacity + kPadBytes + unit - 1) / unit * unit;
    std::unique_ptr<char, Free> grown(static_cast<char*>(std::aligned_alloc(unit, bytes)));
    DP_CHECK(grown != nullptr, bytes);  // out of memory
    // Only a hint; small pages work as well.
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

/// The position of a record in its window. A line does not include its line break, which is
/// readable after it.
struct RecordRef {
  // Values of `size` for a record without bytes, and the reason.
  static constexpr uint32_t kTooLong = UINT32_MAX;          // longer than a record may be
  static constexpr uint32_t kDamaged = UINT32_MAX - 1;      // its end is unknown
  static constexpr uint32_t kCutShort = UINT32_MAX - 2;     // the file ends inside it
  static constexpr uint32_t kBadChecksum = UINT32_MAX - 3;  // so data.program did not get it
  static constexpr uint32_t kDropped = UINT32_MAX - 4;      // data.program dropped it; not bad
  static constexpr uint32_t kUnclosed = UINT32_MAX - 5;     // unclosed quote (LineRules::quoting)
  bool is_whole() const { return size < kUnclosed; }
  uint32_t begin = 0;
  uint32_t size = 0;
};

/// The offset of a record in the file, for windows whose text is not the file's text.
struct RecordOffset {
  uint64_t offset = 0;
  uint32_t begin = 0;  // in the window's text
};

struct Window {
  const char* text = nullptr;
  uint64_t offset = 0;                        // offset of text[0] in the file, after decompression
  std::vector<RecordRef>* records = nullptr;  // in file order; the reader may permute them
  uint64_t begin_progress = 0,
           end_progress = 0;  // bytes of the shard's range before its start and before its end
  std::span<const RecordOffset> places = {};  // by `begin`, of all records; empty: use `offset`

  /// Returns the record's offset in the file.
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
  /// Moves to the next window. Returns false at the end.
  virtual Result<bool> next(Window& window) = 0;
  /// Verifies that all bytes that next() has shown since the last call could be read. Must be
  /// called before results of these records are used.
  virtual Result<void> check() { return {}; }
  /// Returns true if next() is known to find no further record.
  virtual bool at_end() const = 0;
  /// Returns where the first record starts (0 for the range that begins a file). end_offset() is
  /// valid at the end and returns where the last record ends.
  virtual uint64_t first_offset() const = 0;
  virtual uint64_t end_offset() const = 0;
  /// Returns ByteSource::marks() of its source.
  virtual std::span<const uint64_t> marks() const { return {}; }
  /// Returns "file:line" of a record, found by reading the file again. Only for error messages.
  virtual std::string locate(uint64_t offset) = 0;
};

/// Shows the windows of another source. A derived class looks at each, or changes it.
class WrappedWindows : public WindowSource {
 public:
  explicit WrappedWindows(std::unique_ptr<WindowSource> inner) : inner_(std::move(inner)) {}
  Result<void> check() override { return inner_->check(); }
  bool at_end() const override { return inner_->at_end(); }
  uint64_t first_offset() const override { return inner_->first_offset(); }
  uint64_t end_offset() const override { return inner_->end_offset(); }
  std::string locate(uint64_t offset) override { return inner_->locate(offset); }

 protected:
  const std::unique_ptr<WindowSource> inner_;
};

}  // namespace downpour::data
