// RecordProgram: data.program, which gives a record for each record of the source that it reads.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "shared/data/program.h"
#include "shared/data/scratch.h"
#include "shared/data/window.h"
#include "shared/job/job.h"

namespace downpour::data {

/// Writes the records of `input` to the program's stdin, framed as the format is, and reads as many
/// from its stdout: the i-th is what became of the i-th, and keeps its place in the file; an empty
/// one is dropped. What was not whole before is not shown to the program and stays as it is. It is
/// started by the first next(). Errors: as of programs; kBadData where it does not give one for
/// each.
class RecordProgram final : public WindowSource {
 public:
  /// Windows of about `window_bytes` in `text`, which outlives it.
  /// `quoting`: as of LineRules. `may_drop`: else an empty record is an error.
  RecordProgram(ProgramCall call, std::shared_ptr<ProgramPool> pool, DataFormat format,
                char quoting, bool may_drop, size_t window_bytes, Scratch::Text& text);
  /// Where `input` may read to.
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
    uint32_t size = 0;  // as RecordRef's where the record is not whole; else 0
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
  std::string chunk_;            // on its way to the program
  std::deque<Pending> pending_;  // read, and not given out yet
  bool input_ended_ = false, ended_ = false;
  uint64_t sent_ = 0, written_ = 0;  // records
  uint64_t progress_ = 0;
  Window output_window_;
  std::vector<RecordRef> output_records_;
  std::vector<RecordOffset> places_, unsent_places_;
};

}  // namespace downpour::data
