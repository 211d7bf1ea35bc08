// RecordProgram: runs data.program, which writes one record for each record that it reads.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "shared/data/reading/program.h"
#include "shared/data/reading/scratch.h"
#include "shared/data/records/window.h"
#include "shared/job/job.h"

namespace downpour::data {

/// Writes the records of `input` to the program's stdin, framed in the data's format, and reads its
/// stdout. The i-th output record replaces the i-th input record and keeps its offset in the file.
/// An empty output record drops the record. The program does not see input records that are not
/// whole; they pass through unchanged. The first next() starts the program. Errors: those of
/// programs; kBadData if the program does not write exactly one record for each.
class RecordProgram final : public WindowSource {
 public:
  /// Places windows of about `window_bytes` bytes in `text`, which must outlive this object.
  /// `quoting`: see LineRules. If `may_drop` is false, an empty output record is an error.
  RecordProgram(ProgramCall call, std::shared_ptr<ProgramPool> pool, DataFormat format,
                char quoting, bool may_drop, size_t window_bytes, Scratch::Text& text);
  /// Returns the memory for the windows of `input`.
  Scratch::Text& input_text() { return input_text_; }
  void set_input(std::unique_ptr<WindowSource> input) { input_ = std::move(input); }

  Result<bool> next(Window& window) override;
  bool at_end() const override { return ended_; }
  uint64_t first_offset() const override { return input_->first_offset(); }
  uint64_t end_offset() const override { return input_->end_offset(); }
  std::string locate(uint64_t offset) override;

 private:
  struct Pending {
    uint64_t offset = 0;
    uint32_t size = 0;  // RecordRef's code if the record is not whole, else 0
  };
  Result<void> start();
  Result<std::string_view> more_input();
  void send(const char* text, uint32_t size, Pending& pending);
  void take_unsent();
  Result<void> take_written();
  Result<void> expect_all();
  Error failed(const std::string& how) const;

  const ProgramCall call_;
  const std::shared_ptr<ProgramPool> pool_;
  const DataFormat format_;
  const char quoting_;
  const bool may_drop_;
  const size_t window_bytes_;
  const std::string name_;
  Scratch::Text& text_;
  Scratch::Text input_text_;
  std::unique_ptr<WindowSource> input_, output_;
  std::string chunk_;            // bytes being sent to the program
  std::deque<Pending> pending_;  // read from the input, not yet given out
  bool input_ended_ = false, ended_ = false;
  uint64_t sent_ = 0, written_ = 0;  // counts of records
  uint64_t progress_ = 0;
  Window output_window_;
  std::vector<RecordRef> output_records_;
  std::vector<RecordOffset> places_, unsent_places_;
};

}  // namespace downpour::data
