#include "shared/data/formats/numpy/array_stream.h"

#include <algorithm>
#include <optional>

#include "shared/data/formats/numpy/array_parser.h"
#include "shared/data/formats/numpy/arrays.h"
#include "shared/job/field_output.h"

namespace downpour::data {
namespace {

constexpr size_t kPieceBytes = size_t{1} << 20;  // memory grows with the data that arrive, not with
                                                 // the size in a header

std::string array_of(const FieldSpec& field) {
  std::string name = field.path.empty() ? field.name : field.path;
  if (name.ends_with(kNpyEnding)) name.resize(name.size() - kNpyEnding.size());
  return name;
}

std::string row_text(const NpyArray& array) {
  std::string text = npy_type_name(array.type) + " [";
  for (size_t i = 1; i < array.shape.size(); ++i) text += str(i > 1 ? ", " : "", array.shape[i]);
  return text + "]";
}

bool has_same_rows(const NpyArray& a, const NpyArray& b) {
  return a.type == b.type &&
         std::equal(a.shape.begin() + 1, a.shape.end(), b.shape.begin() + 1, b.shape.end());
}

/// Creates a parser for rows that are stored side by side, and sets their sizes in `blocks`.
Result<std::unique_ptr<RecordParser>> make_row_parser(const FieldContext& context,
                                                      const ArrayFields& arrays,
                                                      const std::shared_ptr<RowBlocks>& blocks,
                                                      std::vector<SourceArray>& used) {
  DP_TRY(std::unique_ptr<RecordParser> parser, make_array_parser(context, arrays, blocks, used));
  for (const SourceArray& array : used) {
    blocks->row_bytes.push_back(size_t(array.array.row_bytes()));
    blocks->strides.push_back(1);
  }
  return parser;
}

/// Rows that are already stored side by side in windows.
class RowWindows final : public WrappedWindows {
 public:
  RowWindows(std::unique_ptr<WindowSource> inner, std::shared_ptr<RowBlocks> blocks)
      : WrappedWindows(std::move(inner)), blocks_(std::move(blocks)) {}
  Result<bool> next(Window& window) override {
    DP_TRY(const bool more, inner_->next(window));
    if (more) blocks_->lie_in(window.text);
    return more;
  }

 private:
  const std::shared_ptr<RowBlocks> blocks_;
};

/// Repacks chunks of arrays into rows that are stored side by side, a window at a time.
class ArrayStream final : public WindowSource {
 public:
  ArrayStream(std::unique_ptr<ByteSource> source, std::string name, size_t window_bytes,
              Buffer& buffer, std::vector<RecordRef>& records)
      : source_(std::move(source)),
        name_(std::move(name)),
        window_bytes_(window_bytes),
        buffer_(buffer),
        records_(records) {}

  /// Reads the first chunk, which determines type and shape of the rows.
  Result<std::unique_ptr<RecordParser>> start(const FieldContext& context) {
    for (std::string& name : streamed_arrays(context.data)) {
      columns_.push_back({});
      columns_.back().name = std::move(name);
    }
    DP_TRY_VOID(read_chunk());
    arrays_->source = name_;
    arrays_->name_of = array_of;
    for (const Column& column : columns_) {
      if (!column.first) break;  // there are no rows at all
      SourceArray& array = arrays_->there.emplace_back();
      array.name = column.name;
      array.where = place(column.name);
      array.array = *column.first;
    }
    std::vector<SourceArray> used;
    DP_TRY(std::unique_ptr<RecordParser> parser, make_row_parser(context, *arrays_, blocks_, used));
    for (const SourceArray& array : used) {
      const auto column = std::find_if(columns_.begin(), columns_.end(),
                                       [&](const Column& each) { return each.name == array.name; });
      used_.push_back(size_t(column - columns_.begin()));
      begins_.push_back(row_bytes_);
      row_bytes_ += size_t(array.array.row_bytes());
    }
    rows_per_window_ =
        std::clamp<uint64_t>(window_bytes_ / std::max<size_t>(row_bytes_, 1), 1, kWindowRecordsMax);
    return parser;
  }

  Result<bool> next(Window& window) override {
    records_.clear();
    const uint64_t first = given_;
    size_t count = 0;
    while (!ended_ && count < rows_per_window_) {
      if (next_row_ == chunk_rows_) {
        DP_TRY_VOID(read_chunk());
        continue;
      }
      const size_t rows = std::min<size_t>(rows_per_window_ - count, chunk_rows_ - next_row_);
      const size_t wanted = (count + rows) * row_bytes_;
      if (wanted > buffer_.capacity()) {
        buffer_.reserve(std::min(std::max(wanted, 2 * buffer_.capacity()),
                                 size_t(rows_per_window_) * row_bytes_),
                        count * row_bytes_);
      }
      repack(rows, buffer_.data() + count * row_bytes_);
      count += rows;
      next_row_ += rows;
    }
    if (count == 0) return false;
    given_ += count;
    records_.resize(count);
    for (size_t i = 0; i < count; ++i)
      records_[i] = {.begin = uint32_t(i * row_bytes_), .size = uint32_t(row_bytes_)};
    blocks_->lie_in(buffer_.data());
    window.text = buffer_.data();
    window.offset = first * row_bytes_;
    window.records = &records_;
    return true;
  }
  bool at_end() const override { return ended_; }
  uint64_t first_offset() const override { return 0; }
  uint64_t end_offset() const override { return given_ * row_bytes_; }
  std::string locate(uint64_t offset) override {
    return str(name_, ", record ", offset / std::max<size_t>(row_bytes_, 1));
  }
  std::shared_ptr<const ArrayFields> arrays() const { return arrays_; }
  size_t row_bytes() const { return row_bytes_; }

 private:
  struct Column {
    std::string name;
    std::optional<NpyArray> first;  // of the first chunk; all chunks have its type and shape
    Buffer bytes;                   // of the current chunk
  };

  std::string place(const std::string& array) const {
    return str(name_, ", array `", array, "` of the records from record ", chunk_begin_, " on");
  }
  Error cut_short(const std::string& array) const {
    return Error{ErrorCode::kBadData, "the program's output ends inside an array", place(array),
                 "the program must write complete arrays: one .npy for each field, all with the "
                 "same number of rows"};
  }

  /// Reads the next array of each column, or sets ended_.
  Result<void> read_chunk() {
    chunk_begin_ += chunk_rows_;
    chunk_rows_ = next_row_ = 0;
    uint64_t bytes = 0;
    for (Column& column : columns_) {
      DP_TRY(const std::optional<NpyArray> head, read_head(column));
      if (!head) {
        ended_ = true;
        return {};
      }
      bytes += std::min(head->rows * head->row_bytes(), kChunkBytesMax + 1);
      if (bytes > kChunkBytesMax) {
        return Error{ErrorCode::kBadData,
                     str("arrays of more than ", kChunkBytesMax >> 20, " MiB in one chunk"),
                     place(column.name), "write arrays with fewer rows"};
      }
      const bool is_first = &column == &columns_.front();
      if (!is_first && head->rows != chunk_rows_) {
        return Error{
            ErrorCode::kBadData,
            str("has ", head->rows, " rows, `", columns_.front().name, "` has ", chunk_rows_),
            place(column.name), "all arrays of one chunk must have the same number of rows"};
      }
      chunk_rows_ = size_t(head->rows);
      DP_TRY_VOID(read_elements(column, size_t(head->rows * head->row_bytes())));
    }
    return {};
  }

  /// Returns nothing if the output ends here. That is allowed only before the first array of a
  /// chunk.
  Result<std::optional<NpyArray>> read_head(Column& column) {
    char head[kNpyHeadBytesMax];
    constexpr size_t kLengthAt = 8, kLongest = 12;
    DP_TRY(size_t have, source_->read(head, kLengthAt + 2));
    if (have == 0 && &column == &columns_.front()) return std::optional<NpyArray>();
    if (have < kLengthAt + 2) return cut_short(column.name);
    const bool is_short = head[6] == 1;
    if (!is_short) {
      DP_TRY(const size_t more, source_->read(head + have, kLongest - have));
      have += more;
      if (have < kLongest) return cut_short(column.name);
    }
    uint32_t bytes = 0;
    std::memcpy(&bytes, head + kLengthAt, is_short ? 2 : 4);
    if (bytes <= kNpyHeadBytesMax - have) {  // otherwise parse_npy() refuses the header
      DP_TRY(const size_t more, source_->read(head + have, bytes));
      if (more < bytes) return cut_short(column.name);
      have += more;
    }
    DP_TRY(NpyArray array, parse_npy({head, have}, UINT64_MAX, place(column.name)));
    if (!column.first) {
      column.first = array;
    } else if (!has_same_rows(*column.first, array)) {
      return Error{ErrorCode::kBadData,
                   str("has rows of ", row_text(array), ", but the earlier arrays had rows of ",
                       row_text(*column.first)),
                   place(column.name), "every array of a field must have the same type and shape"};
    }
    return std::optional(std::move(array));
  }

  Result<void> read_elements(Column& column, size_t bytes) {
    for (size_t have = 0; have < bytes;) {
      const size_t room = std::min(bytes, std::max(2 * have, kPieceBytes));
      column.bytes.reserve(room, have);
      DP_TRY(const size_t n, source_->read(column.bytes.data() + have, room - have));
      if (n < room - have) return cut_short(column.name);
      have += n;
    }
    return {};
  }

  void repack(size_t rows, char* to) {
    for (size_t i = 0; i < used_.size(); ++i) {
      const size_t bytes = blocks_->row_bytes[i];
      const char* from = columns_[used_[i]].bytes.data() + next_row_ * bytes;
      char* at = to + begins_[i];
      for (size_t row = 0; row < rows; ++row, from += bytes, at += row_bytes_)
        std::memcpy(at, from, bytes);
    }
  }

  const std::unique_ptr<ByteSource> source_;
  const std::string name_;
  const size_t window_bytes_;
  Buffer& buffer_;
  std::vector<RecordRef>& records_;
  const std::shared_ptr<RowBlocks> blocks_ = std::make_shared<RowBlocks>();
  const std::shared_ptr<ArrayFields> arrays_ = std::make_shared<ArrayFields>();
  std::vector<Column> columns_;
  std::vector<size_t> used_;    // indexes of the columns that a field reads
  std::vector<size_t> begins_;  // offset of each of them in a row
  size_t row_bytes_ = 0;
  uint64_t rows_per_window_ = 1;
  size_t chunk_rows_ = 0, next_row_ = 0;
  uint64_t chunk_begin_ = 0, given_ = 0;  // in records
  bool ended_ = false;
};

}  // namespace

std::vector<std::string> streamed_arrays(const DataSpec& data) {
  if (!data.columns.empty()) return data.columns;
  std::vector<std::string> names;
  for (const FieldSpec& field : data.fields) {
    if (is_cross(field)) continue;
    std::string name = array_of(field);
    if (std::find(names.begin(), names.end(), name) == names.end())
      names.push_back(std::move(name));
  }
  return names;
}

Result<RowStream> rows_of(std::unique_ptr<ByteSource> source, const FieldContext& context,
                          const std::string& name, size_t window_bytes, Buffer& buffer,
                          std::vector<RecordRef>& records) {
  auto stream =
      std::make_unique<ArrayStream>(std::move(source), name, window_bytes, buffer, records);
  RowStream out;
  DP_TRY(out.records.parser, stream->start(context));
  out.arrays = stream->arrays();
  out.row_bytes = stream->row_bytes();
  out.records.source = std::move(stream);
  return out;
}

Result<RowStream> rows_in(std::unique_ptr<WindowSource> windows, const FieldContext& context,
                          std::shared_ptr<const ArrayFields> arrays) {
  const auto blocks = std::make_shared<RowBlocks>();
  std::vector<SourceArray> used;
  RowStream out;
  DP_TRY(out.records.parser, make_row_parser(context, *arrays, blocks, used));
  for (const size_t bytes : blocks->row_bytes) out.row_bytes += bytes;
  out.arrays = std::move(arrays);
  out.records.source = std::make_unique<RowWindows>(std::move(windows), blocks);
  return out;
}

}  // namespace downpour::data
