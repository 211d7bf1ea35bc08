// Console: prints what the user sees of a run. Results go to stdout; progress, notices and errors
// to stderr.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "chief/core/events.h"
#include "shared/job/job.h"

namespace downpour::chief {

enum class LogFormat : uint8_t { kText, kJson };

struct ConsoleOptions {
  LogFormat format = LogFormat::kText;
  bool quiet = false;  // only results, warnings and errors
  // stderr is a terminal: print one live line. Otherwise print table rows at doubling intervals,
  // without \r and ESC.
  bool terminal = false;
  bool color = false;
  uint32_t columns = 100;  // width of the terminal
  std::FILE* out = stdout;
  std::FILE* err = stderr;
};

/// Content of the first lines.
struct StartInfo {
  std::string run_dir;
  std::string cluster;  // "one process: 1 ps, 1 worker, 2 compute threads", "2 ps + 2 workers over
                        // ipc, ..."
  std::string data;     // amount of training data, in words
  uint64_t train_bytes = 0;
  uint32_t train_files = 0;
  uint32_t shards = 0;
  bool insecure = false;   // --insecure: connections have no keys
  std::string sharding;    // how the data are divided among the readers
  std::string evaluation;  // "a9a.t", "5 % held out"; "": none
  std::string resumed;     // "continues from checkpoint 1-3, after epoch 3 of 5"; "": a new run
  std::string
      model;  // eval, predict: "checkpoint 1-1, after epoch 1: the best of 3"; "": the newest
};

class Console {
 public:
  Console(ConsoleOptions options, const Job& job);

  void start(const StartInfo& info);
  void show(const ProgressSnapshot& progress);
  void show(const EpochDone& done);
  void show(const EvalDone& done);
  void show(const CheckpointDone& done);
  void show(const Notice& notice);
  /// Prints the final summary: metrics per epoch next to those of the best constant, account,
  /// throughput, bytes, memory per role, the place of the model, and the next command to type.
  /// `job_argument` is the job as the user named it. A job without keys (StartInfo::insecure) is
  /// marked.
  void finish(const Finish& finish, const std::string& run_dir, const std::string& job_argument);

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
