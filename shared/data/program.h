// Programs as sources: what `exec` of a job starts, and the records that come out of its stdout.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "shared/base/result.h"
#include "shared/data/byte_source.h"
#include "shared/data/dataset.h"
#include "shared/data/parser.h"
#include "shared/data/record_stream.h"
#include "shared/data/window.h"

namespace downpour::data {

/// The programs that the readers of a process have running. Any thread.
class ProgramPool {
 public:
  /// Kills them all, and whatever is started later at once: readers that wait for one come back.
  void stop();
  bool stopped() const;

 private:
  friend class ProgramSource;
  bool add(int pid);
  /// waitpid() under the lock: a number that was reaped may soon be another's, whom stop() must not
  /// meet. False: it still runs.
  bool reap(int pid, int flags, int& status);
  mutable std::mutex mutex_;
  std::set<int> running_;  // leaders of their process groups
  bool stopped_ = false;
};

/// Of the text that a program writes, where nothing is shuffled: a slow one's records soon count.
constexpr size_t kProgramWindowBytes = size_t{64} << 10;

struct ProgramCall {
  std::vector<std::string> argv;                                 // argv[0] is looked up in PATH
  std::string directory;                                         // where it runs
  std::vector<std::pair<std::string, std::string>> environment;  // beside this process's own
};

/// What goes to a program's stdin: the next bytes, which stay until the next call; empty at the
/// end.
using ProgramInput = std::function<Result<std::string_view>()>;

/// Starts it, in a process group of its own; read() gives what it writes to its stdout, and its
/// stderr goes to ours. `input` is asked while read() waits, for as long as the program takes it. A
/// program that does not end well, or not at all after its last byte, is an error of the read()
/// that would give that byte. Destroyed before: it is killed. Errors: kNoInput (no such program or
/// folder), kUnavailable (it can't be started), kBadData (it failed, with the last line of its
/// stderr).
Result<std::unique_ptr<ByteSource>> start_program(const ProgramCall& call,
                                                  std::shared_ptr<ProgramPool> pool,
                                                  ProgramInput input = nullptr);

/// What stands for a program among the files of a plan. Its `bytes` are its records, or 1 where
/// their number is not known: one range then.
plan::FileInfo program_info(const SourceSpec& source);

/// The call for a range of an epoch, as docs/data.md says it.
ProgramCall call_of(const ReadPlan& plan, uint32_t epoch, const plan::ShardRange& range);

/// The call of data.program for a range of an epoch.
ProgramCall transform_call_of(const ReadPlan& plan, uint32_t epoch, const plan::ShardRange& range);

/// Whether a range of the plan's is a piece of what can only be read from its start.
bool is_piece(const ReadPlan& plan, const plan::ShardRange& range);

/// Starts the program that the range is of for the whole epoch.
Result<void> start_stream(const ReadPlan& plan, uint32_t epoch, const plan::ShardRange& range,
                          RecordStream::Reading& reading);

/// The windows of a range that the plan's program writes: of lines or TFRecords; or of rows of
/// arrays, with their parser. A range whose records are not as many as it says is an error.
Result<ShardRecords> open_program(const ReadPlan& plan, uint32_t epoch,
                                  const plan::ShardRange& range, size_t window_bytes,
                                  Buffer& buffer, std::vector<RecordRef>& records);

}  // namespace downpour::data
