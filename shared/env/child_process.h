// ChildCommand: starts other programs as child processes, and waits for their end.
#pragma once

#include <string>
#include <sys/types.h>
#include <utility>
#include <vector>

namespace downpour {

struct ChildCommand {
  std::vector<std::string> argv;  // argv[0] is searched in PATH, unless it contains a slash
  std::string directory = ".";    // working directory
  std::vector<std::pair<std::string, std::string>> environment;  // added to this process's own
  // Descriptors that become the child's standard input, output and error; -1: as in this process.
  int in = -1, out = -1, err = -1;
};

/// A started child, or the errno of what failed, also of exec (ENOENT: there is no such program).
struct Started {
  pid_t pid = -1;
  int error = 0;
};

/// Starts a program that is not a part of Downpour. It leads a process group of its own, so Ctrl-C
/// does not reach it, and kill(-pid) also ends its children. All its signals have their default
/// action. The cost does not grow with the memory of this process.
Started start_foreign(const ChildCommand& command);

/// Starts a program of Downpour, which receives `death_signal` when the calling thread ends. With
/// `hold_stop_signals`, SIGINT and SIGTERM stay pending until the program unblocks them, so they do
/// not end it while it starts. Copies the page tables of this process, so call it while this
/// process is small.
Started start_own(const ChildCommand& command, int death_signal, bool hold_stop_signals);

/// Calls waitpid() with `flags`, again after each interruption. Returns false if the child still
/// runs, otherwise sets `status`.
bool reap(pid_t pid, int flags, int& status);

/// Returns "ended with status 1" or "was killed by signal 9 (Killed)" for a status of reap().
std::string end_text(int status);

}  // namespace downpour
