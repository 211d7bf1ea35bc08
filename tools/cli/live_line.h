// LiveLine: a progress line that changes in place while a verb reads data. It is shown only on a
// terminal.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>

#include "chief/runtime/console.h"
#include "shared/base/human.h"
#include "shared/base/str.h"

namespace downpour::tools {

class LiveLine {
 public:
  explicit LiveLine(const chief::ConsoleOptions& console)
      : shown_(console.terminal && !console.quiet && console.format == chief::LogFormat::kText) {}
  LiveLine(const LiveLine&) = delete;
  LiveLine& operator=(const LiveLine&) = delete;
  ~LiveLine() { clear(); }

  /// Shows the progress. `of_bytes` is 0 if the total is unknown.
  void tell(uint64_t records, uint64_t bytes, uint64_t of_bytes) {
    if (!shown_) return;
    std::string text = str(grouped(records), " records, ", human_bytes(bytes));
    if (of_bytes > 0) text += str(" of ", human_bytes(of_bytes));
    if (text == last_) return;
    std::fprintf(stderr, "\r%s\x1b[K", text.c_str());
    last_ = std::move(text);
  }
  void clear() {
    if (!last_.empty()) std::fputs("\r\x1b[K", stderr);
    last_.clear();
  }

 private:
  const bool shown_;
  std::string last_;
};

}  // namespace downpour::tools
