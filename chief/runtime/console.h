// Console: what the user sees of a run. Results on stdout; progress, notices and errors on stderr.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "chief/core/events.h"
#include "shared/job/job.h"

namespace downpour::chief {

enum class LogFormat : uint8_t { kText, kJson };

struct ConsoleOptions {
  LogFormat format = LogFormat::kText;
  bool quiet = false;  // no progress; results and errors only
  bool terminal =
      false;  // stderr is one: one live line; else table rows at doubling intervals, no \r, no ESC
  bool color = false;
  uint32_t columns = 100;  // width of the terminal
  std::FILE* out = stdout;
  std::FILE* err = stderr;
};

/// What the first lines say.
struct StartInfo {
  std::string run_dir;
  std::string cluster;  // "one process: 1 ps, 1 worker, 2 compute threads", "2 ps + 2 workers over
                        // ipc, ..."
  std::string data;     // how much there is to train on, for people
  uint64_t train_bytes = 0;
  uint32_t train_files = 0;
  uint32_t shards = 0;
  bool insecure = false;   // --insecure: no keys
  std::string sharding;    // who reads what
  std::string evaluation;  // "a9a.t", "5 % held out", "" = none
  std::string resumed;     // "continues from checkpoint 1-3, after epoch 3 of 5", "" = a new run
  std::string
      model;  // eval, predict: "checkpoint 1-1, after epoch 1: the best of 3", "" = the newest
};

/// "12 shards"; of a number that only reading tells (0) "shards".
std::string shards_text(uint32_t shards);

class Console {
 public:
  Console(ConsoleOptions options, const Job& job);

  void start(const StartInfo& info);
  void show(const ProgressSnapshot& progress);
  void show(const EpochDone& done);
  void show(const EvalDone& done);
  void show(const CheckpointDone& done);
  void show(const Notice& notice);
  /// The closing summary: metrics per epoch beside the best constant's, account, throughput, bytes,
  /// memory per role, where the model lies, and the next command to type (`job_argument` as the
  /// user named the job). A job that ran without keys (StartInfo::insecure) is marked.
  void finish(const Finish& finish, const std::string& run_dir, const std::string& job_argument);

 private:
  /// Of a number that grows, smoothed; `last` is what it was.
  struct Rate {
    void add(uint64_t now, double elapsed_s);
    double per_second = 0;
    uint64_t last = 0;
  };
  void row(const std::string& text);
  void clear_live();
  void json(const std::string& line);

  ConsoleOptions options_;
  const Job& job_;
  bool live_shown_ = false;
  bool header_shown_ = false;
  uint64_t next_row_records_ = 0;
  int64_t last_elapsed_ns_ = 0;
  Rate records_, read_bytes_;
  wire::WorkTime last_work_;  // of the last row or line
  uint64_t train_bytes_ = 0;  // of the data, read once
  bool insecure_ = false;
  std::string sharding_;               // who reads what
  std::vector<OutputMetrics> window_;  // since the last row or line
};

}  // namespace downpour::chief
