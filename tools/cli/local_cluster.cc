#include "tools/cli/local_cluster.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shared/base/units.h"

namespace downpour::tools {
namespace {

// The last line a process wrote: usually says why it ended.
std::string last_line(const std::string& path) {
  std::ifstream in(path);
  std::string line;
  std::string last;
  while (std::getline(in, line)) {
    if (!line.empty()) last = line;
  }
  return last;
}

std::string how_it_ended(int status) {
  if (WIFSIGNALED(status))
    return str("was ended by signal ", WTERMSIG(status), " (", strsignal(WTERMSIG(status)), ")");
  return str("ended with status ", WEXITSTATUS(status));
}

}  // namespace

std::string program_dir() {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/exe", error).parent_path().string();
}

LocalCluster::~LocalCluster() {
  // The first signal asks to leave in order, which needs a chief; the second ends.
  for (const int64_t patience_ns : {200 * kMillisecond, 2 * kSecond}) {
    for (Process& process : processes_) {
      if (process.pid > 0) kill(process.pid, SIGTERM);
    }
    wait(patience_ns);
  }
  for (Process& process : processes_) {
    if (process.pid <= 0) continue;
    kill(process.pid, SIGKILL);
    waitpid(process.pid, nullptr, 0);
  }
}

Result<void> LocalCluster::start(const LocalClusterOptions& options) {
  std::error_code error;
  std::filesystem::create_directories(options.log_dir, error);
  if (error)
    return Error{ErrorCode::kCannotCreate, str("can't make the folder for logs: ", error.message()),
                 options.log_dir};
  for (uint32_t i = 0; i < options.ps; ++i) {
    const std::string endpoint = options.transport == "tcp"
                                     ? std::string("tcp://127.0.0.1:*")
                                     : str("ipc://", options.socket_dir, "/ps-", i);
    DP_TRY_VOID(spawn("downpour-ps",
                      {"--chief", options.chief, "--index", std::to_string(i), "--bind", endpoint,
                       "--threads", std::to_string(options.ps_threads)},
                      {str("ps ", i), str(options.log_dir, "/ps-", i, ".log"), true, -1}));
  }
  for (uint32_t i = 0; i < options.workers; ++i) {
    DP_TRY_VOID(spawn("downpour-worker",
                      {"--chief", options.chief, "--index", std::to_string(i), "--threads",
                       std::to_string(options.worker_threads)},
                      {str("worker ", i), str(options.log_dir, "/worker-", i, ".log"), false, -1}));
  }
  return {};
}

Result<void> LocalCluster::spawn(const std::string& program,
                                 const std::vector<std::string>& arguments, Process process) {
  const std::string path = program_dir() + "/" + program;
  if (access(path.c_str(), X_OK) != 0) {
    return Error{ErrorCode::kUnavailable, str(program, " is not beside downpour"), path,
                 "build or install all of Downpour's programs in one folder"};
  }
  const int log = open(process.log.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (log < 0)
    return Error{ErrorCode::kCannotCreate, str("can't write a log: ", std::strerror(errno)),
                 process.log};
  std::vector<char*> argv = {const_cast<char*>(path.c_str())};
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid < 0) {
    close(log);
    return Error{ErrorCode::kUnavailable, str("can't start ", program, ": ", std::strerror(errno))};
  }
  if (pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);  // never an orphan
    if (getppid() != parent) _exit(1);
    signal(SIGINT, SIG_IGN);  // Ctrl-C is for the chief, which ends us in order
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    dup2(log, STDOUT_FILENO);
    dup2(log, STDERR_FILENO);
    execv(path.c_str(), argv.data());
    _exit(127);
  }
  close(log);
  process.pid = pid;
  processes_.push_back(std::move(process));
  return {};
}

Result<void> LocalCluster::watch(std::vector<std::string>& notices) {
  bool worker_lives = false;
  for (Process& process : processes_) {
    if (process.pid <= 0) continue;
    int status = 0;
    if (waitpid(process.pid, &status, WNOHANG) != process.pid) {
      worker_lives = worker_lives || !process.is_ps;
      continue;
    }
    process.pid = -1;
    if (ending_) continue;
    const std::string line = last_line(process.log);
    const std::string what =
        str(process.name, " ", how_it_ended(status), line.empty() ? "" : ": ", line);
    if (process.is_ps)
      return Error{ErrorCode::kPeersLost, what, process.log,
                   "the same command goes on from the last checkpoint"};
    notices.push_back(what);
  }
  const bool had_workers =
      std::any_of(processes_.begin(), processes_.end(), [](const Process& p) { return !p.is_ps; });
  if (had_workers && !worker_lives && !ending_) {
    return Error{ErrorCode::kPeersLost,
                 notices.empty() ? "no worker is left" : str("no worker is left; ", notices.back()),
                 "", "the same command goes on from the last checkpoint"};
  }
  return {};
}

void LocalCluster::wait(int64_t timeout_ns) {
  for (int64_t waited = 0;; waited += kMillisecond) {
    bool alive = false;
    for (Process& process : processes_) {
      if (process.pid <= 0) continue;
      if (waitpid(process.pid, nullptr, WNOHANG) == process.pid) {
        process.pid = -1;
      } else {
        alive = true;
      }
    }
    if (!alive || waited >= timeout_ns) return;
    usleep(1000);
  }
}

}  // namespace downpour::tools
