#include "shared/data/records/line_windows.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "shared/base/str.h"
#include "shared/base/units.h"
#include "shared/data/bytes/open_bytes.h"
#include "shared/data/records/delimited.h"
#include "shared/data/records/stream_windows.h"
#include "shared/job/formats.h"

namespace downpour::data {
namespace {

constexpr size_t kLastLineBytes = 16 * kKiB;  // read at once to find the end of the last line
constexpr size_t kScanBytes = 64 * kKiB;
// A line longer than kLineBytesMax is a bad record, and its end is searched for. A line longer than
// kSkippedBytesMax is an error even if bad records are skipped, because the hole of a sparse file
// would be read for days.
constexpr uint64_t kSkippedBytesMax = 256 * kMiB;

/// Returns the line break that ends the record at `begin`, by the rules of split_line(): a line
/// break in quotes does not end it. Returns `end` if the record ends there, and null if it
/// continues after `end`. `whole`: there is nothing after `end`.
const char* end_of_quoting(const char* begin, const char* end, char delimiter, bool whole) {
  for (const char* at = begin;;) {
    while (at < end && *at == ' ' && delimiter != ' ') ++at;
    if (at < end && *at == '"') {
      for (++at;; at += 2) {
        at = static_cast<const char*>(std::memchr(at, '"', size_t(end - at)));
        if (at == nullptr || (at + 1 == end && !whole)) return nullptr;
        if (at + 1 == end || at[1] != '"') break;
      }
      ++at;
    }
    while (at < end && *at != delimiter && *at != '\n') ++at;
    if (at == end) return whole ? end : nullptr;
    if (*at++ == '\n') return at - 1;
  }
}

bool is_blank_line(std::string_view line, LineRules rules) {
  if (rules.every) return false;
  if (line.empty()) return true;
  if (!rules.comments || uint8_t(line[0]) > '#') return false;
  const size_t text = line.find_first_not_of(" \t");
  return text == std::string_view::npos || line[text] == '#';
}

enum class Found : uint8_t {
  kEnd,   // at a line break, or at the end of the whole text
  kOpen,  // at the end of the line, because its quotes are not closed within the maximum length of
          // a record
  kMore,  // the record continues after the text, or may continue
};

/// Finds where the record at `begin` ends. `plain`: always at the end of its line. The result
/// depends only on the record and the bytes after it, not on how many of them have been read, so
/// that all readers agree.
Found find_end(const char* begin, const char* end, char quoting, bool plain, bool whole,
               const char*& found) {
  found = static_cast<const char*>(std::memchr(begin, '\n', size_t(end - begin)));
  if (found == nullptr && !whole) return Found::kMore;
  if (found == nullptr) found = end;
  if (quoting == 0 || std::memchr(begin, '"', size_t(found - begin)) == nullptr) return Found::kEnd;
  if (plain)
    return end_of_quoting(begin, found, quoting, true) != nullptr ? Found::kEnd : Found::kOpen;
  const char* const behind = end_of_quoting(begin, end, quoting, whole);
  if (behind != nullptr && size_t(behind - begin) <= kLineBytesMax) {
    found = behind;
    return Found::kEnd;
  }
  return !whole && size_t(end - begin) <= kLineBytesMax ? Found::kMore : Found::kOpen;
}

class LineWindows final : public StreamWindows {
 public:
  LineWindows(const plan::FileInfo& info, const plan::ShardRange& range, LineRules rules,
              size_t window_bytes, Buffer& buffer, std::vector<RecordRef>& records,
              std::unique_ptr<ByteSource> source, uint64_t start)
      : StreamWindows(info, range, window_bytes, buffer, records, std::move(source), start),
        rules_(rules) {}

  /// Moves to the first line that begins in the range. `source` must be at base_, one byte before
  /// the range.
  Result<void> align() { return skip_line(); }
  void started() { first_ = range_.begin == 0 ? 0 : base_ + used_; }

  Result<bool> next(Window& window) override {
    records_.clear();
    window.begin_progress = progress();
    if (std::exchange(scanned_, false) && position() < limit_ &&
        filled_ - used_ < std::min<uint64_t>(window_bytes_, limit_ - position())) {
      DP_TRY_VOID(fill());
    }
    while (records_.empty() && position() < limit_) {
      index_lines();  // rest of a window that had too many records
      if (!records_.empty()) break;
      DP_TRY(const bool more, fill());
      index_lines();
      if (!records_.empty()) break;
      if (position() >= limit_) break;
      if (filled_ - used_ > kLineBytesMax) {
        records_.push_back({.begin = uint32_t(used_), .size = RecordRef::kTooLong});
        window.offset = base_;
        DP_TRY_VOID(skip_line());
        window.text = buffer_.data();
        window.records = &records_;
        window.end_progress = progress();
        // skip_line() moved base_. The record's position is relative to the old value.
        return true;
      }
      if (!more && used_ == filled_) break;
    }
    if (records_.empty()) return false;
    show(window);
    return true;
  }

  bool at_end() const override { return position() >= limit_ || (eof_ && used_ == filled_); }
  uint64_t first_offset() const override { return splittable_ ? first_ : 0; }
  std::string locate(uint64_t offset) override { return line_of(path_, offset); }
  /// Returns whether a reader that starts at this record of the window sees the same records as
  /// this reader does.
  bool begins_anew(uint64_t place) const {
    return place >= plain_until_ || place + kLineBytesMax == plain_until_;
  }

 private:
  /// Moves the unused bytes to the front of the buffer and reads more. Returns false at the end of
  /// the file.
  Result<bool> fill() {
    drop_used();
    if (eof_) return false;
    // Fill the window, or read the rest of the range if that is smaller. A line that continues
    // after either is read in small steps.
    const uint64_t rest = limit_ > base_ ? limit_ - base_ : 0;
    size_t target =
        std::min(window_bytes_, size_t(std::min<uint64_t>(rest, window_bytes_)) + kLastLineBytes);
    if (target <= filled_) target = filled_ + std::max<size_t>(kLastLineBytes, filled_);
    // The decompressed size is not known.
    DP_TRY_VOID(read_up_to(target, /*in_steps=*/!splittable_));
    return true;
  }

  /// Finds the complete records that begin before the limit, and moves used_ to the end of the last
  /// one. After a quote that is not closed, each line is a record of its own. This holds for the
  /// range in which the closing quote was searched. Otherwise each of these lines could cost
  /// another search of that length. All records of a window are found by the same rule.
  void index_lines() {
    const char* const text = buffer_.data();
    while (used_ < filled_ && base_ + used_ < limit_ && records_.size() < kWindowRecordsMax) {
      const char* const begin = text + used_;
      const char* end = nullptr;
      const bool plain = rules_.quoting != 0 && position() < plain_until_;
      if (!records_.empty() && plain != plain_) return;
      const Found found = find_end(begin, text + filled_, rules_.quoting, plain, eof_, end);
      if (found == Found::kMore) return;
      if (found == Found::kOpen && !plain) {
        if (!records_.empty()) return;  // it must be the first of a window
        plain_until_ = position() + kLineBytesMax;
      }
      plain_ = rules_.quoting != 0 && position() < plain_until_;
      if (end == text + filled_)
        buffer_.data()[filled_] = '\n';  // overwrites padding, because parsers stop at a line break
      const size_t next = std::min(size_t(end - text) + 1, filled_);
      const size_t size = size_t(end - begin) - (end > begin && end[-1] == '\r' ? 1 : 0);
      if (size > kLineBytesMax) {
        records_.push_back({.begin = uint32_t(used_), .size = RecordRef::kTooLong});
      } else if (found == Found::kOpen) {
        records_.push_back({.begin = uint32_t(used_), .size = RecordRef::kUnclosed});
      } else if (!is_blank_line({begin, size}, rules_)) {
        records_.push_back({.begin = uint32_t(used_), .size = uint32_t(size)});
      }
      used_ = next;
    }
  }

  /// Skips the bytes up to and including the next line break.
  Result<void> skip_line() {
    const uint64_t begin = position();
    scanned_ = true;
    for (;;) {
      if (used_ < filled_) {
        const void* end = std::memchr(buffer_.data() + used_, '\n', filled_ - used_);
        if (end != nullptr) {
          used_ = size_t(static_cast<const char*>(end) - buffer_.data()) + 1;
          return {};
        }
      }
      base_ += filled_;
      used_ = filled_ = 0;
      if (eof_) return {};
      if (base_ - begin > kSkippedBytesMax) {
        return Error{ErrorCode::kBadData, str("a line is longer than 256 MiB: ", path_),
                     str(path_, ": byte ", begin),
                     "check that the file is text, and set data.format"};
      }
      buffer_.reserve(kScanBytes, 0);
      DP_TRY(filled_, source_->read(buffer_.data(), kScanBytes));
      eof_ = filled_ < kScanBytes;
    }
  }

  const LineRules rules_;
  uint64_t first_ = 0;
  bool scanned_ = false;  // the buffer has what skip_line() read, which may be less than a window
  uint64_t plain_until_ = 0;  // before this offset each line is a record
  bool plain_ = false;        // value for the records of the current window
};

Result<std::unique_ptr<LineWindows>> open_line_windows(const plan::FileInfo& info,
                                                       const plan::ShardRange& range,
                                                       uint64_t preamble_bytes, LineRules rules,
                                                       size_t window_bytes, Buffer& buffer,
                                                       std::vector<RecordRef>& records) {
  DP_TRY(File file, open_unchanged(info));
  // A range after the preamble starts one byte early. If that byte is a line break, the first byte
  // of the range begins a line.
  const bool inside = info.splittable && range.begin > preamble_bytes;
  const uint64_t start = inside ? range.begin - 1 : info.splittable ? preamble_bytes : 0;
  DP_TRY(
      std::unique_ptr<ByteSource> source,
      open_bytes(std::move(file), start, info.is_streamed() ? info.cuts : std::vector<uint64_t>()));
  if (!info.splittable) DP_TRY_VOID(source->skip(preamble_bytes));
  auto lines =
      std::make_unique<LineWindows>(info, range, rules, window_bytes, buffer, records,
                                    std::move(source), info.splittable ? start : preamble_bytes);
  if (inside) DP_TRY_VOID(lines->align());
  lines->started();
  return lines;
}

}  // namespace

Result<LineRules> rules_of(const DataSpec& data) {
  LineRules rules{.comments = has_sparse_lines(data.format)};
  if (traits_of(data.format).quotes && data.quoted_newlines) {
    DP_TRY(rules.quoting, delimiter_of(data));
  }
  return rules;
}

std::vector<std::string_view> records_in(std::string_view text, LineRules rules, bool whole,
                                         size_t records_max) {
  std::vector<std::string_view> records;
  const char* plain_until = text.data();
  while (!text.empty() && records.size() < records_max) {
    const char* const begin = text.data();
    const char* end = nullptr;
    const bool plain = begin < plain_until;
    const Found found = find_end(begin, begin + text.size(), rules.quoting, plain, whole, end);
    if (found == Found::kMore) break;
    if (found == Found::kOpen && !plain) plain_until = begin + std::min(text.size(), kLineBytesMax);
    const size_t size = size_t(end - begin);
    const size_t kept = size - (size > 0 && begin[size - 1] == '\r' ? 1 : 0);
    if (found == Found::kEnd && !is_blank_line(text.substr(0, kept), rules))
      records.push_back(text.substr(0, kept));
    text.remove_prefix(std::min(size + 1, text.size()));
  }
  return records;
}

Result<RecordCuts> find_line_cuts(const DataSpec& data, const plan::FileInfo& info,
                                  uint64_t target_bytes, uint64_t records_max) {
  plan::FileInfo all = info;
  all.splittable = false;
  all.cuts.clear();
  DP_TRY(const LineRules rules, rules_of(data));
  DP_TRY(const Preamble preamble, read_preamble(info.path, data, data.header));
  Buffer buffer;
  std::vector<RecordRef> records;
  DP_TRY(const auto source, open_line_windows(all, {.end = info.bytes}, preamble.bytes, rules,
                                              kPlainWindowBytes, buffer, records));
  CutFinder finder(info.bytes, target_bytes, records_max);
  Window window;
  for (;;) {
    DP_TRY(const bool more, source->next(window));
    if (!more) return std::move(finder).finish();
    for (const RecordRef& ref : records) {
      const uint64_t place = window.offset_of(ref);
      if (!finder.add(place, source->begins_anew(place))) return std::move(finder).finish();
    }
  }
}

Result<Preamble> read_preamble(const std::string& path, const DataSpec& data, bool header) {
  DP_TRY(const LineRules rules, rules_of(data));
  DP_TRY(File file, File::open(path));
  DP_TRY(std::unique_ptr<ByteSource> source, open_bytes(std::move(file), 0));
  Preamble preamble;
  std::string text(3, '\0');
  DP_TRY(const size_t head, source->read(text.data(), 3));
  text.resize(head);
  if (text == "\xef\xbb\xbf") {
    preamble.bytes = 3;
    text.clear();
  }
  const uint32_t lines = data.skip_lines + (header ? 1 : 0);
  for (uint32_t line = 0; line < lines; ++line) {
    const char quoting = header && line + 1 == lines ? rules.quoting : 0;
    size_t end = std::string::npos;
    for (bool whole = false;;) {
      const char* found = nullptr;
      if (find_end(text.data(), text.data() + text.size(), quoting, false, whole, found) !=
              Found::kMore &&
          found != text.data() + text.size())
        end = size_t(found - text.data());
      if (end != std::string::npos || whole) break;
      const size_t have = text.size();
      if (have > kLineBytesMax)
        return Error{ErrorCode::kBadData, "the header line is longer than 16 MiB",
                     str(path, ":", line + 1)};
      const size_t step = std::max<size_t>(have, 4096);
      text.resize(have + step);
      DP_TRY(const size_t n, source->read(text.data() + have, step));
      text.resize(have + n);
      whole = n == 0;
    }
    if (end == std::string::npos && line + 1 < lines) {
      return Error{ErrorCode::kBadData,
                   str("the file ends before its ", lines, " lines of header and data.skip_lines"),
                   str(path, ":", line + 1), "check data.skip_lines and data.header"};
    }
    preamble.header = text.substr(0, end);
    preamble.bytes += end == std::string::npos ? text.size() : end + 1;
    text.erase(0, end == std::string::npos ? end : end + 1);
  }
  if (!preamble.header.empty() && preamble.header.back() == '\r') preamble.header.pop_back();
  return preamble;
}

Result<std::unique_ptr<WindowSource>> open_lines(const plan::FileInfo& info,
                                                 const plan::ShardRange& range,
                                                 uint64_t preamble_bytes, LineRules rules,
                                                 size_t window_bytes, Buffer& buffer,
                                                 std::vector<RecordRef>& records) {
  DP_TRY(auto lines,
         open_line_windows(info, range, preamble_bytes, rules, window_bytes, buffer, records));
  return std::unique_ptr<WindowSource>(std::move(lines));
}

std::unique_ptr<WindowSource> lines_of(std::unique_ptr<ByteSource> source, const std::string& name,
                                       LineRules rules, size_t window_bytes, Buffer& buffer,
                                       std::vector<RecordRef>& records) {
  return std::make_unique<LineWindows>(plan::FileInfo{.path = name, .splittable = false},
                                       plan::ShardRange{}, rules, window_bytes, buffer, records,
                                       std::move(source), 0);
}

std::string line_of(const std::string& path, uint64_t offset) {
  auto file = File::open(path);
  if (!file) return path;
  auto source = open_bytes(std::move(*file), 0);
  if (!source) return path;
  std::vector<char> block(kMiB);
  uint64_t line = 1;
  while (offset > 0) {
    const auto n = (*source)->read(block.data(), size_t(std::min<uint64_t>(block.size(), offset)));
    if (!n || *n == 0) break;
    line += uint64_t(std::count(block.data(), block.data() + *n, '\n'));
    offset -= *n;
  }
  return str(path, ":", line);
}

}  // namespace downpour::data
