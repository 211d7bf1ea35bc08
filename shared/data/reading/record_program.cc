#include "shared/data/reading/record_program.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "shared/base/str.h"
#include "shared/data/formats/example/tfrecord.h"
#include "shared/data/formats/example/tfrecord_writer.h"
#include "shared/data/records/line_windows.h"
#include "shared/job/formats.h"

namespace downpour::data {
namespace {

constexpr uint32_t kNoText = uint32_t{1} << 31;

std::string name_of(const ProgramCall& call) {
  std::string name = "data.program:";
  for (const std::string& word : call.argv) name += str(" ", word);
  return name;
}

}  // namespace

RecordProgram::RecordProgram(ProgramCall call, std::shared_ptr<ProgramPool> pool, DataFormat format,
                             char quoting, bool may_drop, size_t window_bytes, Scratch::Text& text)
    : call_(std::move(call)),
      pool_(std::move(pool)),
      format_(format),
      quoting_(quoting),
      may_drop_(may_drop),
      window_bytes_(window_bytes),
      name_(name_of(call_)),
      text_(text) {}

/// Starts the program, unless the input has no record for it.
Result<void> RecordProgram::start() {
  DP_TRY(const std::string_view begin, more_input());
  if (begin.empty()) return {};
  const auto input = [this, begun = false]() mutable -> Result<std::string_view> {
    return std::exchange(begun, true) ? more_input() : Result<std::string_view>(chunk_);
  };
  DP_TRY(std::unique_ptr<ByteSource> source, start_program(call_, pool_, input));
  if (is_frames(format_)) {
    output_ = frames_of(std::move(source), name_, window_bytes_, text_.bytes, output_records_);
  } else {
    output_ = lines_of(std::move(source), name_, {.every = true, .quoting = quoting_},
                       window_bytes_, text_.bytes, output_records_);
  }
  return {};
}

/// Returns the records of the next input windows in the format that the program reads; an empty
/// text at the end of the input.
Result<std::string_view> RecordProgram::more_input() {
  chunk_.clear();
  Window window;
  while (chunk_.empty()) {
    DP_TRY(const bool more, input_->next(window));
    if (!more) {
      input_ended_ = true;
      return std::string_view();
    }
    progress_ = window.end_progress;
    for (const RecordRef& ref : *window.records) {
      Pending pending{.offset = window.offset_of(ref), .size = ref.is_whole() ? 0 : ref.size};
      if (ref.is_whole()) send(window.text + ref.begin, ref.size, pending);
      pending_.push_back(pending);
    }
  }
  return std::string_view(chunk_);
}

void RecordProgram::send(const char* text, uint32_t size, Pending& pending) {
  if (!is_frames(format_)) {
    chunk_.append(text, size);
    chunk_ += '\n';
  } else {
    uint32_t checksum;
    std::memcpy(&checksum, text + size, sizeof checksum);
    if (checksum != masked_crc32c(text, size)) {
      pending.size = RecordRef::kBadChecksum;
      return;
    }
    append_frame(chunk_, {text, size});
  }
  ++sent_;
}

/// Adds the next records that were not sent to the program. They have no text, so their `begin` is
/// above every offset that a window can have.
void RecordProgram::take_unsent() {
  for (; !pending_.empty() && pending_.front().size != 0; pending_.pop_front()) {
    const auto begin = uint32_t(kNoText + unsent_places_.size());
    unsent_places_.push_back({.offset = pending_.front().offset, .begin = begin});
    text_.records.push_back({.begin = begin, .size = pending_.front().size});
  }
}

/// Adds the records of the program's output window, each after the unsent records that precede it.
Result<void> RecordProgram::take_written() {
  for (RecordRef ref : output_records_) {
    if (ref.size == RecordRef::kDamaged || ref.size == RecordRef::kCutShort)
      return failed("wrote bytes that are not a TFRecord");
    take_unsent();
    if (pending_.empty())
      return failed(str("wrote more records than the ", sent_, " that it has read"));
    if (ref.size == 0 && !may_drop_) {
      Error error = failed("dropped a record, but prediction needs an output for every record");
      error.hint = "if DOWNPOUR_PURPOSE is \"predict\", the program must write every record";
      return error;
    }
    if (ref.size == 0) ref.size = RecordRef::kDropped;
    places_.push_back({.offset = pending_.front().offset, .begin = ref.begin});
    text_.records.push_back(ref);
    pending_.pop_front();
    ++written_;
  }
  return {};
}

Result<void> RecordProgram::expect_all() {
  if (!input_ended_) return failed("ended before it read all records");
  if (written_ < sent_) return failed(str("wrote ", written_, " records, but must write ", sent_));
  return {};
}

Error RecordProgram::failed(const std::string& how) const {
  return Error{ErrorCode::kBadData, str("the program ", how), name_,
               is_frames(format_) ? "the program must write one TFRecord for each that it reads, "
                                    "in the same order (an empty TFRecord drops the record)"
                                  : "the program must write one line for each that it reads, in "
                                    "the same order (an empty line drops the record)"};
}

Result<bool> RecordProgram::next(Window& window) {
  if (ended_) return false;
  if (output_ == nullptr) {
    DP_TRY_VOID(start());
  }
  text_.records.clear();
  places_.clear();
  unsent_places_.clear();
  output_records_.clear();
  window.begin_progress = window.end_progress;
  bool more = false;
  if (output_ != nullptr) {
    DP_TRY(more, output_->next(output_window_));
  }
  if (more) {
    DP_TRY_VOID(take_written());
  } else {
    take_unsent();
    DP_TRY_VOID(expect_all());
    ended_ = true;
    if (text_.records.empty()) return false;
  }
  places_.insert(places_.end(), unsent_places_.begin(), unsent_places_.end());
  window.text = more ? output_window_.text : chunk_.data();
  window.offset = 0;
  window.records = &text_.records;
  window.places = places_;
  window.end_progress = progress_;
  return true;
}

std::string RecordProgram::locate(uint64_t offset) {
  const auto has_offset = [&](const RecordOffset& place) { return place.offset == offset; };
  std::string where = input_->locate(offset);
  if (std::any_of(unsent_places_.begin(), unsent_places_.end(), has_offset)) return where;
  return str(where, " (as ", name_, " wrote the record)");
}

}  // namespace downpour::data
