// Console: prints what the user sees of a run. Results go to stdout; progress, notices and errors
// to stderr.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "chief/core/events.h"
#include "chief/runtime/report_summary.h"
#include "chief/runtime/start_info.h"
#include "shared/env/queued_stream.h"
#include "shared/job/job.h"

namespace downpour::chief {

enum class LogFormat : uint8_t { kText, kJson };

struct ConsoleOptions {
  LogFormat format = LogFormat::kText;
  bool quiet = false;    // only results, warnings and errors
  bool verbose = false;  // a longer summary
  // stderr is a terminal: print one live line. Otherwise print table rows at doubling intervals,
  // without \r and ESC.
  bool terminal = false;
  bool color = false;
  uint32_t columns = 100;  // width of the terminal
  // stdout: colors, and the width of the terminal, which is 0 if it is none.
  bool out_color = false;
  uint32_t out_columns = 0;
  std::FILE* out = stdout;
  // Progress and notices. With `messages`, `err` is its stream, and the summary comes after its
  // lines.
  std::FILE* err = stderr;
  QueuedStream* messages = nullptr;
};

class Console {
 public:
  Console(ConsoleOptions options, const Job& job);

  void start(const StartInfo& info);
  /// Prints the address for the programs that compute the gradients, and their keys ("": none).
  void accepts_clients(const std::string& endpoint, const std::string& keys);
  void show(const ProgressSnapshot& progress);
  void show(const EpochDone& done);
  void show(const EvalDone& done);
  void show(const CheckpointDone& done);
  void show(const Notice& notice);
  /// Prints the final summary.
  void finish(const Finish& finish, const SummaryFacts& facts);

 private:
  /// Smoothed growth rate of a number; `last` is its last value.
  struct Rate {
    void add(uint64_t now, double elapsed_s);
    double per_second = 0;
    uint64_t last = 0;
  };
  void row(const std::string& text);
  void clear_live();
  void json(const nlohmann::ordered_json& line);

  ConsoleOptions options_;
  const Job& job_;
  bool live_shown_ = false;
  bool header_shown_ = false;
  uint64_t next_row_records_ = 0;
  int64_t last_elapsed_ns_ = 0;
  Rate records_, read_bytes_;
  wire::WorkTime last_work_;  // at the last row or line
  StartInfo start_;
  std::vector<OutputMetrics> window_;  // metrics since the last row or line
};

}  // namespace downpour::chief
