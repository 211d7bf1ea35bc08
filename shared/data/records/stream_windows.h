// StreamWindows: what the readers have in common that find records in a stream of bytes.
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "shared/base/units.h"
#include "shared/data/bytes/byte_source.h"
#include "shared/data/records/window.h"
#include "shared/plan/shard.h"

namespace downpour::data {

/// Windows of a file, or of a range of it. The buffer holds the bytes from `base_` on. Those before
/// `used_` belong to records that have been shown; those from `filled_` on are not read yet.
class StreamWindows : public WindowSource {
 public:
  std::span<const uint64_t> marks() const override { return source_->marks(); }
  uint64_t end_offset() const override { return splittable_ ? position() : range_.end; }

 protected:
  StreamWindows(const plan::FileInfo& info, const plan::ShardRange& range, size_t window_bytes,
                Buffer& buffer, std::vector<RecordRef>& records, std::unique_ptr<ByteSource> source,
                uint64_t base)
      : path_(info.path),
        splittable_(info.splittable),
        range_(range),
        limit_(info.splittable ? range.end : UINT64_MAX),
        window_bytes_(window_bytes),
        buffer_(buffer),
        records_(records),
        source_(std::move(source)),
        base_(base) {}

  uint64_t position() const { return base_ + used_; }
  uint64_t progress() const {
    const uint64_t at = splittable_ ? position() : source_->consumed();
    return std::clamp(at, range_.begin, range_.end) - range_.begin;
  }
  /// Shows the records that were found in the buffer.
  void show(Window& window) const {
    window.text = buffer_.data();
    window.offset = base_;
    window.records = &records_;
    window.end_progress = progress();
  }

  /// Moves the unused bytes to the front of the buffer.
  void drop_used() {
    const size_t left = filled_ - used_;
    if (used_ > 0 && left > 0) std::memmove(buffer_.data(), buffer_.data() + used_, left);
    base_ += used_;
    used_ = 0;
    filled_ = left;
  }
  /// Reads on until the buffer holds `target` bytes or the source ends. With `in_steps` memory
  /// grows only with the bytes that are read, because the source may have far fewer.
  Result<void> read_up_to(size_t target, bool in_steps) {
    while (filled_ < target && !eof_) {
      const size_t step =
          in_steps ? std::min(target - filled_, std::max(filled_, kMiB)) : target - filled_;
      buffer_.reserve(filled_ + step, filled_);
      DP_TRY(const size_t n, source_->read(buffer_.data() + filled_, step));
      filled_ += n;
      eof_ = n < step;
    }
    return {};
  }

  const std::string path_;
  const bool splittable_;
  const plan::ShardRange range_;
  const uint64_t limit_;  // records that begin at or after it belong to another range
  const size_t window_bytes_;
  Buffer& buffer_;
  std::vector<RecordRef>& records_;
  const std::unique_ptr<ByteSource> source_;
  uint64_t base_;  // file offset of buffer_[0]
  size_t used_ = 0, filled_ = 0;
  bool eof_ = false;
};

}  // namespace downpour::data
