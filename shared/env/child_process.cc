#include "shared/env/child_process.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <spawn.h>
#include <string_view>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shared/base/str.h"

extern char** environ;

namespace downpour {
namespace {

/// argv and envp of a command as exec takes them.
class Arguments {
 public:
  explicit Arguments(const ChildCommand& command) : words_(command.argv) {
    for (char** each = environ; *each != nullptr; ++each) {
      const std::string_view known = *each;
      const auto replaces = [&](const auto& own) {
        return known.starts_with(own.first) && known.substr(own.first.size()).starts_with('=');
      };
      if (std::none_of(command.environment.begin(), command.environment.end(), replaces))
        variables_.emplace_back(known);
    }
    for (const auto& [name, value] : command.environment)
      variables_.push_back(str(name, "=", value));
    for (std::string& word : words_) argv_.push_back(word.data());
    for (std::string& variable : variables_) envp_.push_back(variable.data());
    argv_.push_back(nullptr);
    envp_.push_back(nullptr);
  }
  Arguments(const Arguments&) = delete;
  Arguments& operator=(const Arguments&) = delete;

  char* const* argv() const { return argv_.data(); }
  char* const* envp() const { return envp_.data(); }

 private:
  std::vector<std::string> words_, variables_;
  std::vector<char*> argv_, envp_;
};

/// Runs in the forked child: only async-signal-safe functions. Returns only if it fails.
void become(const ChildCommand& command, const Arguments& arguments, bool hold_stop_signals) {
  if (hold_stop_signals) {
    sigset_t stop_signals;
    ::sigemptyset(&stop_signals);
    ::sigaddset(&stop_signals, SIGINT);
    ::sigaddset(&stop_signals, SIGTERM);
    ::sigprocmask(SIG_SETMASK, &stop_signals, nullptr);
  }
  if (command.in >= 0 && ::dup2(command.in, STDIN_FILENO) < 0) return;
  if (command.out >= 0 && ::dup2(command.out, STDOUT_FILENO) < 0) return;
  if (command.err >= 0 && ::dup2(command.err, STDERR_FILENO) < 0) return;
  if (::chdir(command.directory.c_str()) != 0) return;
  ::execvpe(arguments.argv()[0], arguments.argv(), arguments.envp());
}

}  // namespace

Started start_foreign(const ChildCommand& command) {
  const Arguments arguments(command);
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawnattr_init(&attributes);
  ::posix_spawn_file_actions_addchdir_np(&actions, command.directory.c_str());
  if (command.in >= 0) ::posix_spawn_file_actions_adddup2(&actions, command.in, STDIN_FILENO);
  if (command.out >= 0) ::posix_spawn_file_actions_adddup2(&actions, command.out, STDOUT_FILENO);
  if (command.err >= 0) ::posix_spawn_file_actions_adddup2(&actions, command.err, STDERR_FILENO);
  sigset_t none, all;
  ::sigemptyset(&none);
  ::sigfillset(&all);
  ::posix_spawnattr_setsigmask(&attributes, &none);
  ::posix_spawnattr_setsigdefault(&attributes, &all);
  ::posix_spawnattr_setpgroup(&attributes, 0);
  ::posix_spawnattr_setflags(
      &attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  Started started;
  started.error = ::posix_spawnp(&started.pid, arguments.argv()[0], &actions, &attributes,
                                 arguments.argv(), arguments.envp());
  if (started.error != 0) started.pid = -1;
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&actions);
  return started;
}

// With fork(), because posix_spawn() cannot set the parent-death signal.
Started start_own(const ChildCommand& command, int death_signal, bool hold_stop_signals) {
  const Arguments arguments(command);
  int failure[2];  // the child writes the errno; a successful exec closes the pipe
  if (::pipe2(failure, O_CLOEXEC) != 0) return {.error = errno};
  const pid_t parent = ::getpid();
  Started started{.pid = ::fork()};
  if (started.pid == 0) {
    ::prctl(PR_SET_PDEATHSIG, death_signal);
    if (::getppid() != parent) ::_exit(1);  // the parent ended before the call
    become(command, arguments, hold_stop_signals);
    const int error = errno;
    const bool reported = ::write(failure[1], &error, sizeof error) == ssize_t(sizeof error);
    ::_exit(reported ? 127 : 126);
  }
  if (started.pid < 0) started.error = errno;
  ::close(failure[1]);
  int error = 0;
  ssize_t n = 0;
  while ((n = ::read(failure[0], &error, sizeof error)) < 0 && errno == EINTR) {
  }
  ::close(failure[0]);
  if (started.pid > 0 && n == ssize_t(sizeof error)) {
    int status = 0;
    reap(started.pid, 0, status);
    started = {.error = error};
  }
  return started;
}

bool reap(pid_t pid, int flags, int& status) {
  pid_t got = 0;
  while ((got = ::waitpid(pid, &status, flags)) < 0 && errno == EINTR) {
  }
  return got != 0;
}

std::string end_text(int status) {
  if (WIFSIGNALED(status))
    return str("was killed by signal ", WTERMSIG(status), " (", ::strsignal(WTERMSIG(status)), ")");
  return str("ended with status ", WEXITSTATUS(status));
}

}  // namespace downpour
