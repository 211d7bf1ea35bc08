// Programs as data sources: starts the `exec` program of a job and reads records from its stdout.
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
#include "shared/data/bytes/byte_source.h"
#include "shared/data/formats/format.h"
#include "shared/data/reading/read_plan.h"
#include "shared/data/reading/record_stream.h"
#include "shared/data/records/window.h"
#include "shared/plan/shard.h"

namespace downpour::data {

/// The programs that the readers of a process run. Safe to use from any thread.
class ProgramPool {
 public:
  /// Kills all programs, and from now on each program as soon as it is started. Readers that wait
  /// for a program return with an error.
  void stop();
  bool stopped() const;

 private:
  friend class ProgramSource;
  bool add(int pid);
  /// Calls waitpid() under the lock. The lock matters because the system may reuse the number of a
  /// reaped process, and stop() must not kill an unrelated process. Returns false if the program
  /// still runs.
  bool reap(int pid, int flags, int& status);
  mutable std::mutex mutex_;
  std::set<int> running_;  // process ids of the group leaders
  bool stopped_ = false;
};

/// Window size of program output where nothing is shuffled. It is small so that the records of a
/// slow program are trained soon.
constexpr size_t kProgramWindowBytes = size_t{64} << 10;

struct ProgramCall {
  std::vector<std::string> argv;                                 // argv[0] is looked up in PATH
  std::string directory;                                         // working directory
  std::vector<std::pair<std::string, std::string>> environment;  // added to this process's own
};

/// Supplies a program's stdin. Returns the next bytes, which stay valid until the next call, or an
/// empty text at the end.
using ProgramInput = std::function<Result<std::string_view>()>;

/// Starts the program in a process group of its own. read() returns what the program writes to
/// stdout; its stderr goes to the stderr of this process. While read() waits, it takes bytes from
/// `input` for as long as the program reads them. The program must exit with status 0 soon after it
/// closes stdout; otherwise the read() that reaches the end fails. Destroying the source before the
/// end kills the program. Errors: kNoInput (no such program or folder), kUnavailable (the program
/// cannot be started), kBadData (the program failed; includes the last line of its stderr).
Result<std::unique_ptr<ByteSource>> start_program(const ProgramCall& call,
                                                  std::shared_ptr<ProgramPool> pool,
                                                  ProgramInput input = nullptr);

/// Returns the entry that represents a program among the files of a plan. Its `bytes` are the
/// number of records. If that number is not known, they are 1, which makes one range.
plan::FileInfo program_info(const SourceSpec& source);

/// Returns the call for a range of an epoch, as docs/data.md specifies it.
ProgramCall call_of(const ReadPlan& plan, uint32_t epoch, const plan::ShardRange& range);

/// Returns the call of data.program for a range of an epoch.
ProgramCall transform_call_of(const ReadPlan& plan, uint32_t epoch, const plan::ShardRange& range);

/// Returns true if the range is a piece of a source that can only be read from its start.
bool is_piece(const ReadPlan& plan, const plan::ShardRange& range);

/// Starts the program of the range for the whole epoch.
Result<void> start_stream(const ReadPlan& plan, uint32_t epoch, const plan::ShardRange& range,
                          RecordStream::Reading& reading);

/// Opens the records that the plan's program writes for a range: lines or TFRecords, or rows of
/// arrays, which come with their parser. It is an error if the range has more or fewer records than
/// its length says.
Result<ShardRecords> open_program(const ReadPlan& plan, uint32_t epoch,
                                  const plan::ShardRange& range, const WindowMemory& memory);

}  // namespace downpour::data
