// Running programs: starts a program, supplies its stdin, and reads the bytes that it writes.
#pragma once

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

/// Returns the words of a command, separated by spaces, for messages.
std::string command_text(const std::vector<std::string>& argv);

}  // namespace downpour::data
