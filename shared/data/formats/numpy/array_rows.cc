// Windows of array rows. Large pieces of an array are mapped. Small ones, and those that can't be
// mapped, are read into one buffer.
#include <algorithm>

#include "shared/data/bytes/file.h"
#include "shared/data/bytes/mapped_bytes.h"
#include "shared/data/formats/format.h"
#include "shared/data/formats/numpy/array_parser.h"
#include "shared/data/formats/numpy/arrays.h"
#include "shared/data/formats/sniff_columns.h"

namespace downpour::data {
namespace {

/// Pieces of up to this size are read instead of mapped, because mapping costs page faults. If
/// there are few arrays, such pieces also stay in the cache while rows are gathered in random
/// order.
constexpr size_t kReadBytesMax = size_t{4} << 20;

class ArrayWindows final : public WindowSource {
 public:
  ArrayWindows(const plan::FileInfo& info, const plan::ShardRange& range, size_t window_bytes,
               std::vector<SourceArray> arrays, uint64_t all_row_bytes,
               std::shared_ptr<RowBlocks> blocks, Buffer& buffer, std::vector<RecordRef>& records)
      : path_(info.path),
        range_(range),
        all_row_bytes_(all_row_bytes),
        blocks_(std::move(blocks)),
        buffer_(buffer),
        records_(records),
        arrays_(std::move(arrays)) {
    begin_ = next_ = (range.begin + all_row_bytes - 1) / all_row_bytes;
    end_ = (range.end + all_row_bytes - 1) / all_row_bytes;
    uint64_t bytes = 0;
    for (const SourceArray& array : arrays_) {
      bytes += array.array.row_bytes();
      blocks_->row_bytes.push_back(size_t(array.array.row_bytes()));
    }
    blocks_->blocks.resize(arrays_.size());
    mapped_.resize(arrays_.size());
    row_bytes_ = std::max<uint64_t>(bytes, 1);
    rows_per_window_ = std::clamp<uint64_t>(window_bytes / row_bytes_, 1, kWindowRecordsMax);
  }

  Result<void> start() {
    DP_TRY(inflated_, inflated_members(arrays_));
    return {};
  }

  Result<bool> next(Window& window) override {
    records_.clear();
    DP_TRY_VOID(check());
    if (next_ >= end_) return false;
    const uint64_t count = std::min(rows_per_window_, end_ - next_);
    window.begin_progress = progress();
    size_t unmapped_bytes = kPadBytes;
    for (size_t i = 0; i < arrays_.size(); ++i) {
      const size_t bytes = size_t(count) * blocks_->row_bytes[i];
      mapped_[i].reset();
      if (inflated_[i] == nullptr && bytes > kReadBytesMax)
        mapped_[i] = MappedBytes::map(*arrays_[i].file, first_byte(i), bytes);
      if (!mapped_[i]) unmapped_bytes += bytes + kPadBytes;
    }
    buffer_.reserve(unmapped_bytes, 0);
    char* at = buffer_.data();
    for (size_t i = 0; i < arrays_.size(); ++i) {
      if (mapped_[i]) {
        blocks_->blocks[i] = mapped_[i]->data();
        continue;
      }
      const size_t bytes = size_t(count) * blocks_->row_bytes[i];
      DP_TRY_VOID(read_rows(i, bytes, at));
      blocks_->blocks[i] = at;
      at += bytes + kPadBytes;
    }
    blocks_->text = buffer_.data();
    records_.resize(size_t(count));
    for (uint32_t i = 0; i < count; ++i) records_[i] = {.begin = i, .size = 1};
    window.text = buffer_.data();
    window.offset = next_;
    window.records = &records_;
    next_ += count;
    window.end_progress = progress();
    return true;
  }
  Result<void> check() override {
    for (size_t i = 0; i < arrays_.size(); ++i) {
      // If the file was cut inside a mapped page, the rest of that page reads as zeros without
      // SIGBUS, so is_torn() is false. Rows that were read before are complete, but the file is no
      // longer the one of the job. The file's size is therefore checked too.
      const bool torn = mapped_[i] && mapped_[i]->is_torn();
      const bool whole = !torn && !arrays_[i].file->is_cut();
      if (!whole) return changed(arrays_[i]);
    }
    return {};
  }
  bool at_end() const override { return next_ >= end_; }
  uint64_t first_offset() const override { return begin_ * all_row_bytes_; }
  uint64_t end_offset() const override { return next_ * all_row_bytes_; }
  std::string locate(uint64_t offset) override { return str(path_, ":row ", offset); }

 private:
  uint64_t progress() const {
    return std::clamp(next_ * all_row_bytes_, range_.begin, range_.end) - range_.begin;
  }
  uint64_t first_byte(size_t i) const {
    return arrays_[i].array.data_offset + next_ * arrays_[i].array.row_bytes();
  }
  Result<void> read_rows(size_t i, size_t bytes, char* to) {
    if (inflated_[i] != nullptr) return inflated_[i]->read(to, bytes);
    const SourceArray& source = arrays_[i];
    DP_TRY(const size_t n, source.file->read_at(first_byte(i), to, bytes));
    if (n == bytes) return {};
    return changed(source);
  }
  static Error changed(const SourceArray& source) {
    return changed_error(source.where, "it is shorter now");
  }

  const std::string path_;
  const plan::ShardRange range_;
  const uint64_t all_row_bytes_;  // one row of all arrays of the source: the unit of the range
  std::shared_ptr<RowBlocks> blocks_;
  Buffer& buffer_;
  std::vector<RecordRef>& records_;
  std::vector<SourceArray> arrays_;
  std::vector<std::unique_ptr<InflatedMember>> inflated_;
  std::vector<std::optional<MappedBytes>> mapped_;  // the window; nothing: it is in buffer_
  uint64_t row_bytes_ = 0;                          // sum over the arrays that are read
  uint64_t rows_per_window_ = 0;
  uint64_t begin_ = 0, next_ = 0, end_ = 0;  // rows
};

Result<ShardRecords> open_array_rows(const FieldContext& context, const plan::FileInfo& info,
                                     const plan::ShardRange& range, const WindowMemory& memory) {
  DP_TRY(std::vector<SourceArray> all, open_arrays(context.data, info.path));
  DP_TRY(const plan::FileInfo now, look_at_arrays(info.path, all));
  if (now.fingerprint != info.fingerprint || now.bytes != info.bytes) {
    return Error{ErrorCode::kBadData, str("the arrays changed after the job started: ", info.path),
                 info.path,
                 "training data must not change while a job runs; start a new run with --fresh"};
  }
  auto blocks = std::make_shared<RowBlocks>();
  std::vector<SourceArray> used;
  ShardRecords out;
  const auto name_of = [&](const FieldSpec& field) {
    return array_name_of(context.data, info.path, field);
  };
  const uint64_t rows = all.front().array.rows;
  DP_TRY(out.parser,
         make_array_parser(context, {info.path, std::move(all), name_of}, blocks, used));
  const uint64_t all_row_bytes = info.bytes / rows;
  auto source =
      std::make_unique<ArrayWindows>(info, range, memory.window_bytes, std::move(used),
                                     all_row_bytes, blocks, memory.buffer, memory.records);
  DP_TRY_VOID(source->start());
  out.source = std::move(source);
  return out;
}

Result<uint64_t> mean_row_bytes(const DataSpec& data, const std::string& path) {
  DP_TRY(const std::vector<SourceArray> arrays, open_arrays(data, path));
  uint64_t bytes = 0;
  for (const SourceArray& array : arrays) bytes += array.array.row_bytes();
  return bytes;
}

}  // namespace

const Format kArrays{.layout = RecordLayout::kArrays,
                     .sniff = sniff_arrays,
                     .open_rows = open_array_rows,
                     .mean_record_bytes = mean_row_bytes};

}  // namespace downpour::data
