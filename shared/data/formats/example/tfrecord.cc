#include "shared/data/formats/example/tfrecord.h"

#include <algorithm>
#include <charconv>

#include "shared/base/units.h"
#include "shared/data/bytes/open_bytes.h"
#include "shared/data/records/stream_windows.h"

namespace downpour::data {
namespace {

// FrameScanner reads kNearBytes at once. After a record that is longer than a quarter of that, it
// reads only kFarBytes, because it would skip most of a longer read.
constexpr size_t kNearBytes = 256 * kKiB;
constexpr size_t kFarBytes = 4 * kKiB;
constexpr size_t kIndexLineBytesMax = 64;
// The next valid header must begin within this many bytes after a damaged one. Otherwise the file
// is an error, even if bad records are skipped.
constexpr uint64_t kSoughtBytesMax = 256 * kMiB;

Error no_header_error(const std::string& path, uint64_t offset) {
  return Error{ErrorCode::kBadData,
               str("no record starts within 256 MiB after a damaged record: ", path),
               str(path, ": byte ", offset), "check that the file is a complete TFRecord file"};
}

class FrameWindows final : public StreamWindows {
 public:
  FrameWindows(const plan::FileInfo& info, const plan::ShardRange& range, size_t window_bytes,
               Buffer& buffer, std::vector<RecordRef>& records, std::unique_ptr<ByteSource> source,
               bool compressed)
      : StreamWindows(info, range, window_bytes, buffer, records, std::move(source),
                      info.splittable ? range.begin : 0),
        compressed_(compressed),
        file_bytes_(info.bytes) {}

  Result<bool> next(Window& window) override {
    records_.clear();
    window.begin_progress = progress();
    for (;;) {
      index_frames();
      if (!records_.empty()) break;
      if (at_end()) return false;
      if (seeking_ && position() - sought_from_ > kSoughtBytesMax)
        return no_header_error(path_, sought_from_);
      DP_TRY_VOID(fill());
    }
    show(window);
    return true;
  }

  bool at_end() const override { return at_limit() || (eof_ && used_ == filled_); }
  uint64_t first_offset() const override { return splittable_ ? range_.begin : 0; }

  std::string locate(uint64_t offset) override {
    const auto said = [&](const std::string& record) {
      return str(path_, ":", record, " (byte ", offset, compressed_ ? " decompressed)" : ")");
    };
    auto file = File::open(path_);
    if (!file) return said("record ?");
    auto source = open_bytes(std::move(*file), 0);
    if (!source) return said("record ?");
    FrameScanner scanner(std::move(*source), path_);
    uint64_t record = 0, at = 0, last = 0;
    for (;; ++record) {
      const auto more = scanner.next(at);
      if (!more || !*more || at > offset) break;
      last = at;
    }
    offset = last;
    return said(str("record ", record == 0 ? 0 : record - 1));
  }

 private:
  bool at_limit() const { return !seeking_ && skip_ == 0 && position() >= limit_; }
  void push(size_t begin, uint32_t size) {
    records_.push_back({.begin = uint32_t(begin), .size = size});
  }

  /// Finds the whole records in the buffer that begin before the limit. Sets used_ to the end of
  /// the last one, and wanted_ to the number of bytes that the next one needs in the buffer.
  void index_frames() {
    const char* const text = buffer_.data();
    while (!at_limit() && records_.size() < kWindowRecordsMax) {
      if (skip_ > 0) {
        const size_t now = size_t(std::min<uint64_t>(skip_, filled_ - used_));
        used_ += now;
        skip_ -= now;
        if (skip_ > 0) {
          if (eof_) skip_ = 0;
          return;
        }
        continue;
      }
      if (seeking_) {
        if (!seek(text)) return;
        continue;  // the header may belong to the next shard
      }
      const size_t left = filled_ - used_;
      wanted_ = kFrameHeaderBytes;
      if (left < kFrameHeaderBytes) {
        if (eof_ && left > 0) cut_short();
        return;
      }
      uint64_t length = 0;
      if (!read_frame_header(text + used_, length)) {
        sought_from_ = position();
        push(used_++, RecordRef::kDamaged);
        seeking_ = true;
        continue;
      }
      // Do not wait for more bytes than the file can have.
      if (!compressed_ && length > file_bytes_ - std::min(file_bytes_, position())) {
        if (eof_) return cut_short();
        push(used_, RecordRef::kCutShort);
        used_ += kFrameHeaderBytes;
        skip_ = UINT64_MAX;
        continue;
      }
      if (length > kFrameBytesMax) {
        push(used_, RecordRef::kTooLong);
        used_ += kFrameHeaderBytes;
        skip_ = std::min(length, UINT64_MAX - kFrameTailBytes) + kFrameTailBytes;
        continue;
      }
      const size_t frame = kFrameHeaderBytes + size_t(length) + kFrameTailBytes;
      if (left < frame) {
        if (eof_) return cut_short();
        wanted_ = frame;
        return;
      }
      push(used_ + kFrameHeaderBytes, uint32_t(length));
      used_ += frame;
    }
  }

  void cut_short() {
    push(used_, RecordRef::kCutShort);
    used_ = filled_;
  }

  /// Searches the next valid header after a damaged one. Returns false if it is not in the buffer.
  /// A false match is unlikely, because a checksum of 32 bits covers the 64 bits of the length.
  bool seek(const char* text) {
    uint64_t length = 0;
    for (; used_ + kFrameHeaderBytes <= filled_; ++used_) {
      if (!is_plausible(text + used_, length)) continue;
      seeking_ = false;
      return true;
    }
    if (eof_) {
      used_ = filled_;
      seeking_ = false;
    }
    wanted_ = kFrameHeaderBytes;
    return false;
  }

 public:
  static bool is_plausible(const char* at, uint64_t& length) {
    std::memcpy(&length, at, sizeof length);
    return length <= kFrameBytesMax && read_frame_header(at, length);
  }

 private:
  /// Moves the unused bytes to the front of the buffer and reads more.
  Result<void> fill() {
    drop_used();
    if (eof_) return {};
    const uint64_t rest = limit_ > base_ ? limit_ - base_ : 0;
    size_t target = std::max(wanted_, size_t(std::min<uint64_t>(rest, window_bytes_)));
    if (target <= filled_) target = filled_ + kNearBytes;
    // The length in a header may be wrong.
    return read_up_to(target, /*in_steps=*/compressed_);
  }

  const bool compressed_;
  const uint64_t file_bytes_;
  size_t wanted_ = kFrameHeaderBytes;
  uint64_t skip_ = 0;     // bytes left of a record that is too long
  bool seeking_ = false;  // after a damaged header
  uint64_t sought_from_ = 0;
};

/// Reads the lines "offset size" of an index file in blocks.
class IndexLines {
 public:
  explicit IndexLines(const File& file) : file_(file), block_(kNearBytes) {}
  /// Reads the next line. Returns false if the index ends or can't be read, or if the line is not
  /// valid.
  bool next(uint64_t& place, uint64_t& size) {
    for (;;) {
      const char* const begin = block_.data() + used_;
      const char* const stop = block_.data() + filled_;
      const char* const end = std::find(begin, stop, '\n');
      if (end == stop) {
        if (!fill()) return is_whole_ = false;
        if (used_ == filled_) return false;
        continue;
      }
      used_ += size_t(end - begin) + 1;
      if (end == begin) continue;
      const auto first = std::from_chars(begin, end, place);
      if (first.ec != std::errc{} || *first.ptr != ' ') return is_whole_ = false;
      const auto second = std::from_chars(first.ptr + 1, end, size);
      if (second.ec != std::errc{} || second.ptr != end) return is_whole_ = false;
      return true;
    }
  }
  /// Returns false if next() has failed before the end of the file.
  bool is_whole() const { return is_whole_; }

 private:
  /// Reads more. At the end of the file, adds the line break if the last line has none.
  bool fill() {
    if (filled_ - used_ > kIndexLineBytesMax) return false;
    std::copy(block_.data() + used_, block_.data() + filled_, block_.data());
    filled_ -= used_;
    used_ = 0;
    const auto n = file_.read_at(offset_, block_.data() + filled_, block_.size() - filled_);
    if (!n) return false;
    offset_ += *n;
    filled_ += *n;
    if (*n == 0 && filled_ > 0) block_[filled_++] = '\n';
    return true;
  }

  const File& file_;
  std::vector<char> block_;
  size_t used_ = 0, filled_ = 0;
  uint64_t offset_ = 0;
  bool is_whole_ = true;
};

/// Returns the cuts that an index yields. Returns none if the index does not match the file, or if
/// a cut is not at a valid header.
Result<std::vector<uint64_t>> cuts_of_index(const File& file, const std::string& index_path,
                                            uint64_t size) {
  const auto index = File::open(index_path);
  if (!index || index->bytes() == 0) return std::vector<uint64_t>{};
  std::vector<uint64_t> cuts;
  IndexLines lines(*index);
  uint64_t end = 0, place = 0, bytes = 0;
  while (lines.next(place, bytes)) {
    if (place != end || bytes > file.bytes() - end) return std::vector<uint64_t>{};
    end += bytes;
    if (place < (cuts.size() + 1) * size) continue;
    char header[kFrameHeaderBytes];
    uint64_t length = 0;
    DP_TRY(const size_t n, file.read_at(place, header, sizeof header));
    if (n < sizeof header || !read_frame_header(header, length)) return std::vector<uint64_t>{};
    while (place >= (cuts.size() + 1) * size) cuts.push_back(place);
  }
  return lines.is_whole() && end == file.bytes() ? cuts : std::vector<uint64_t>{};
}

}  // namespace

Result<bool> FrameScanner::have(size_t bytes) {
  if (filled_ - used_ >= bytes) return true;
  if (block_.empty()) block_.resize(kNearBytes);
  std::memmove(block_.data(), block_.data() + used_, filled_ - used_);
  base_ += used_;
  filled_ -= used_;
  used_ = 0;
  const size_t room = far_ ? kFarBytes : block_.size();
  DP_TRY(const size_t n, source_->read(block_.data() + filled_, room - filled_));
  filled_ += n;
  return filled_ >= bytes;
}

Result<void> FrameScanner::skip(uint64_t bytes) {
  const uint64_t here = std::min<uint64_t>(bytes, filled_ - used_);
  used_ += size_t(here);
  bytes -= here;
  far_ = bytes > kNearBytes / 4;
  if (bytes == 0) return {};
  base_ += used_ + bytes;
  used_ = filled_ = 0;
  return source_->skip(bytes);
}

Result<void> FrameScanner::seek_header() {
  const uint64_t from = base_ + used_;
  uint64_t length = 0;
  far_ = false;
  for (++used_;; ++used_) {
    if (base_ + used_ - from > kSoughtBytesMax) return no_header_error(path_, from);
    DP_TRY(const bool more, have(kFrameHeaderBytes));
    if (!more) {
      used_ = filled_;
      return {};
    }
    if (FrameWindows::is_plausible(block_.data() + used_, length)) return {};
  }
}

Result<bool> FrameScanner::next(uint64_t& offset) {
  DP_TRY(const bool whole, have(kFrameHeaderBytes));
  offset = base_ + used_;
  if (!whole) {
    const bool rest = filled_ > used_;
    used_ = filled_;
    return rest;
  }
  uint64_t length = 0;
  if (!read_frame_header(block_.data() + used_, length)) {
    DP_TRY_VOID(seek_header());
  } else {
    const uint64_t around = kFrameHeaderBytes + kFrameTailBytes;
    DP_TRY_VOID(skip(std::min(length, UINT64_MAX / 2) + around));
  }
  return true;
}

Result<RecordCuts> find_frame_cuts(const std::string& path, uint64_t target_bytes,
                                   uint64_t records_max) {
  DP_TRY(File file, File::open(path));
  const uint64_t bytes = file.bytes();
  CutFinder finder(bytes, target_bytes, records_max);
  for (const char* ending : {".idx", ".index"}) {
    DP_TRY(std::vector<uint64_t> cuts, cuts_of_index(file, path + ending, finder.size()));
    if (cuts.empty()) continue;
    finder.set(std::move(cuts));
    return std::move(finder).finish();
  }
  DP_TRY(std::unique_ptr<ByteSource> source, open_bytes(std::move(file), 0));
  FrameScanner scanner(std::move(source), path);
  for (uint64_t place = 0;;) {
    DP_TRY(const bool more, scanner.next(place));
    if (!more || !finder.add(place)) break;
  }
  return std::move(finder).finish();
}

Result<std::unique_ptr<WindowSource>> open_tfrecord(const plan::FileInfo& info,
                                                    const plan::ShardRange& range,
                                                    size_t window_bytes, Buffer& buffer,
                                                    std::vector<RecordRef>& records) {
  DP_TRY(File file, open_unchanged(info));
  DP_TRY(const bool compressed, file.is_compressed());
  DP_TRY(std::unique_ptr<ByteSource> source,
         open_bytes(std::move(file), info.splittable ? range.begin : 0,
                    info.is_streamed() ? info.cuts : std::vector<uint64_t>()));
  return std::unique_ptr<WindowSource>(std::make_unique<FrameWindows>(
      info, range, window_bytes, buffer, records, std::move(source), compressed));
}

std::unique_ptr<WindowSource> frames_of(std::unique_ptr<ByteSource> source, const std::string& name,
                                        size_t window_bytes, Buffer& buffer,
                                        std::vector<RecordRef>& records) {
  return std::make_unique<FrameWindows>(plan::FileInfo{.path = name, .splittable = false},
                                        plan::ShardRange{}, window_bytes, buffer, records,
                                        std::move(source), /*compressed=*/true);
}

Result<uint64_t> mean_frame_bytes(const DataSpec& /*data*/, const std::string& path) {
  constexpr uint64_t kSampleRecords = 1000;
  DP_TRY(File file, File::open(path));
  const uint64_t file_bytes = file.bytes();
  DP_TRY(const bool compressed, file.is_compressed());
  DP_TRY(std::unique_ptr<ByteSource> source, open_bytes(std::move(file), 0));
  FrameScanner scanner(std::move(source), path);
  uint64_t records = 0, at = 0;
  while (records <= kSampleRecords) {
    DP_TRY(const bool more, scanner.next(at));
    if (!more) break;
    ++records;
  }
  if (compressed) at = scanner.consumed();
  return std::max<uint64_t>(
      records > kSampleRecords ? at / kSampleRecords : file_bytes / std::max<uint64_t>(records, 1),
      1);
}

}  // namespace downpour::data
