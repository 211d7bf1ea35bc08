#include "tools/data/record_cursor.h"

#include <algorithm>
#include <cstring>

#include "shared/base/units.h"
#include "shared/data/formats/example/tfrecord.h"
#include "shared/data/reading/batch_reader.h"
#include "shared/data/reading/program.h"
#include "shared/data/reading/record_program.h"
#include "shared/data/reading/record_stream.h"
#include "shared/data/records/chosen_windows.h"
#include "shared/data/records/line_windows.h"
#include "shared/job/formats.h"
#include "tools/data/data_set.h"

namespace downpour::tools {
namespace {

constexpr size_t kRowWindowBytes = size_t{1} << 20;

/// Reads lines, frames or images through a window source.
class WindowCursor final : public RecordCursor {
 public:
  WindowCursor(const DataSpec& data, const CursorOptions& options)
      : checked_(is_frames(data.format) && options.check),
        job_(options.through_program_of),
        epoch_(options.epoch),
        first_number_(options.first_number) {
    plan_.programs = options.programs;
    plan_.preambles = options.preambles;
  }

  Result<void> open(const DataSpec& data, const plan::FileInfo& info) {
    plan_.data = data;
    plan_.files = {info};
    range_ = {.file = 0, .end = info.bytes, .records_before = first_number_};
    if (job_ == nullptr) {
      DP_TRY(source_, open_input(text_));
      return {};
    }
    plan_.data = job_->data;
    plan_.seed = job_->seed;
    plan_.base_dir = job_->base_dir;
    DP_TRY(const data::LineRules rules, data::rules_of(data));
    auto program = std::make_unique<data::RecordProgram>(
        data::transform_call_of(plan_, epoch_, range_), plan_.programs, data.format, rules.quoting,
        /*may_drop=*/true, data::kPlainWindowBytes, text_);
    DP_TRY(auto input, open_input(program->input_text()));
    auto chosen = std::make_unique<data::ChosenWindows>(job_->data.source, range_, /*whole=*/true,
                                                        std::move(input));
    chosen_ = chosen.get();
    program->set_input(std::move(chosen));
    source_ = std::move(program);
    return {};
  }

  Result<bool> next(RawRecord& record) override {
    while (window_.records == nullptr || at_ == window_.records->size()) {
      DP_TRY(const bool more, source_->next(window_));
      if (!more) return false;
      at_ = 0;
    }
    const data::RecordRef ref = (*window_.records)[at_++];
    record.offset = window_.offset_of(ref);
    record.fault = {};
    record.bytes = {};
    record.dropped = ref.size == data::RecordRef::kDropped;
    if (!ref.is_whole()) {
      record.fault = data::fault_of(ref);
      return true;
    }
    record.bytes = {window_.text + ref.begin, ref.size};
    if (checked_) check_frame(record);
    return true;
  }
  std::string locate(uint64_t offset) override { return source_->locate(offset); }
  uint64_t progress() const override { return window_.end_progress; }
  uint64_t left_out() const override { return chosen_ == nullptr ? 0 : chosen_->left_out(); }

 private:
  Result<std::unique_ptr<data::WindowSource>> open_input(data::Scratch::Text& text) {
    return data::open_windows(plan_, plan_.files[0], range_,
                              {data::kPlainWindowBytes, text.bytes, text.records});
  }

  const bool checked_;
  const Job* const job_;  // null: read the file without the program
  const uint32_t epoch_;
  const uint64_t first_number_;
  data::ReadPlan plan_;
  plan::ShardRange range_;
  data::Scratch::Text text_;
  std::unique_ptr<data::WindowSource> source_;
  const data::ChosenWindows* chosen_ = nullptr;  // the program's input
  data::Window window_;
  size_t at_ = 0;
};

/// Reads rows of arrays and concatenates them.
class RowCursor final : public RecordCursor {
 public:
  RowCursor(std::string path, std::vector<data::SourceArray> arrays)
      : path_(std::move(path)), arrays_(std::move(arrays)), end_(arrays_.front().array.rows) {
    for (const data::SourceArray& array : arrays_) row_bytes_ += array.array.row_bytes();
    row_bytes_ = std::max<uint64_t>(row_bytes_, 1);
    rows_per_window_ = std::max<uint64_t>(kRowWindowBytes / row_bytes_, 1);
    row_.resize(row_bytes_ + data::kPadBytes);
  }

  Result<void> open() {
    DP_TRY(inflated_, data::inflated_members(arrays_));
    return {};
  }

  Result<bool> next(RawRecord& record) override {
    if (at_ == filled_) {
      if (next_ >= end_) return false;
      DP_TRY_VOID(fill());
    }
    const uint64_t row = at_++;
    char* to = row_.data();
    const char* block = blocks_.data();
    for (const data::SourceArray& array : arrays_) {
      const size_t bytes = size_t(array.array.row_bytes());
      std::memcpy(to, block + size_t(row) * bytes, bytes);
      to += bytes;
      block += bytes * filled_;
    }
    record.bytes = {row_.data(), size_t(to - row_.data())};
    record.offset = window_begin_ + row;
    record.fault = {};
    return true;
  }
  std::string locate(uint64_t offset) override { return str(path_, ":row ", offset); }
  uint64_t progress() const override { return next_ * row_bytes_; }

 private:
  Result<void> fill() {
    const uint64_t rows = std::min(rows_per_window_, end_ - next_);
    blocks_.resize(size_t(rows * row_bytes_));
    char* to = blocks_.data();
    for (size_t i = 0; i < arrays_.size(); ++i) {
      const data::NpyArray& array = arrays_[i].array;
      const size_t bytes = size_t(rows * array.row_bytes());
      if (inflated_[i] != nullptr) {
        DP_TRY_VOID(inflated_[i]->read(to, bytes));
      } else {
        const uint64_t offset = array.data_offset + next_ * array.row_bytes();
        DP_TRY(const size_t n, arrays_[i].file->read_at(offset, to, bytes));
        if (n < bytes) {
          return Error{ErrorCode::kBadData, str("the file is shorter now: ", arrays_[i].where),
                       arrays_[i].where, "the file must not change while it is read"};
        }
      }
      to += bytes;
    }
    filled_ = size_t(rows);
    at_ = 0;
    window_begin_ = next_;
    next_ += rows;
    return {};
  }

  const std::string path_;
  std::vector<data::SourceArray> arrays_;
  std::vector<std::unique_ptr<data::InflatedMember>> inflated_;
  uint64_t row_bytes_ = 0, rows_per_window_ = 1;
  std::vector<char> blocks_, row_;
  size_t at_ = 0, filled_ = 0;  // in rows of the blocks
  const uint64_t end_;
  uint64_t next_ = 0, window_begin_ = 0;
};

}  // namespace

void check_frame(RawRecord& record) {
  uint32_t crc;
  std::memcpy(&crc, record.bytes.data() + record.bytes.size(), sizeof crc);
  if (crc == data::masked_crc32c(record.bytes.data(), record.bytes.size())) return;
  record.fault = {.reason = "has a wrong checksum",
                  .hint = "copy or download the file again, or skip bad records"};
}

Result<std::unique_ptr<RecordCursor>> open_cursor(const DataSpec& data, const plan::FileInfo& info,
                                                  const CursorOptions& options) {
  if (is_arrays(data.format)) {
    DP_TRY(std::vector<data::SourceArray> arrays, data::open_arrays(data, info.path));
    auto rows = std::make_unique<RowCursor>(info.path, std::move(arrays));
    DP_TRY_VOID(rows->open());
    return std::unique_ptr<RecordCursor>(std::move(rows));
  }
  auto windows = std::make_unique<WindowCursor>(data, options);
  DP_TRY_VOID(windows->open(data, info));
  return std::unique_ptr<RecordCursor>(std::move(windows));
}

}  // namespace downpour::tools
