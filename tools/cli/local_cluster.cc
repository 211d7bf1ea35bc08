#include "tools/cli/local_cluster.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shared/base/units.h"
#include "shared/env/beneath.h"
#include "shared/env/child_process.h"
#include "shared/env/process.h"
#include "shared/env/storage.h"

namespace downpour::tools {
namespace {

// Returns the last line of a log, which usually contains the reason why the process ended.
std::string last_line(const std::string& path) {
  std::ifstream in(path);
  std::string line;
  std::string last;
  while (std::getline(in, line)) {
    if (!line.empty()) last = line;
  }
  return last;
}

/// Returns SIGINT or SIGTERM if one of them ended the process, either through its handler or by the
/// default action; otherwise 0.
int stop_signal_of(int status) {
  const int signal = WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status) - 128;
  return signal == SIGINT || signal == SIGTERM ? signal : 0;
}

}  // namespace

std::string LocalCluster::Process::role_name() const {
  return is_ps() ? "ps" : role == wire::Role::kInput ? "input" : "worker";
}

LocalCluster::~LocalCluster() { end(); }

void LocalCluster::end() {
  ending_ = true;
  // The chief's Stop ends the processes that it has welcomed. This signal ends the others.
  for (const Process& process : processes_) {
    if (process.pid > 0) kill(process.pid, SIGTERM);
  }
  constexpr int64_t kPatienceNs = 5 * kSecond;
  wait(kPatienceNs);
  for (Process& process : processes_) {
    if (process.pid <= 0) continue;
    kill(process.pid, SIGKILL);
    int status = 0;
    reap(process.pid, 0, status);
    process.pid = -1;
  }
}

Result<void> LocalCluster::start(const LocalClusterOptions& options) {
  options_ = options;
  PosixStorage storage;
  storage.guard(options.run_dir);
  DP_TRY_VOID(storage.make_dirs(options.run_dir + "/logs"));
  const auto add = [&](wire::Role role, uint32_t index) {
    processes_.push_back(
        {.role = role, .index = index, .log = {}, .policy = RestartPolicy(options.restarts)});
    Process& process = processes_.back();
    process.log = str(options.run_dir, "/logs/", process.role_name(), "-", index, ".log");
    return spawn(process);
  };
  const uint32_t ps = options.ps_in_workers ? 0 : options.ps;
  for (uint32_t i = 0; i < ps; ++i) DP_TRY_VOID(add(wire::Role::kPs, i));
  for (uint32_t i = 0; i < options.inputs; ++i) DP_TRY_VOID(add(wire::Role::kInput, i));
  for (uint32_t i = 0; i < options.workers; ++i) DP_TRY_VOID(add(wire::Role::kWorker, i));
  return {};
}

/// Whether each ps, and each worker, keeps to an equal part of the processors. It has a processor
/// for each of its threads then.
bool LocalCluster::divides_cpus() const {
  const auto divides = [cpus = allowed_cpus()](uint32_t processes, uint32_t threads) {
    return processes > 0 && cpus % processes == 0 && threads <= cpus / processes;
  };
  const bool ps_divide = options_.ps_in_workers || divides(options_.ps, options_.ps_threads);
  return options_.inputs == 0 && ps_divide && divides(options_.workers, options_.worker_threads);
}

std::vector<std::string> LocalCluster::command(const Process& process) const {
  const std::string index = std::to_string(process.index);
  const std::string path =
      str(program_dir(), process.is_ps() ? "/downpour-ps" : "/downpour-worker");
  std::vector<std::string> command = {path, "--chief", options_.chief, "--index", index, "--local"};
  if (!options_.keys.empty()) command.insert(command.end(), {"--keys", options_.keys});
  if (divides_cpus()) {
    const uint32_t parts = process.is_ps() ? options_.ps : options_.workers;
    command.insert(command.end(), {"--cpu-parts", std::to_string(parts)});
  }
  if (!process.is_ps() && options_.allow_exec) command.emplace_back("--allow-exec");
  const uint32_t threads = process.is_ps()                      ? options_.ps_threads
                           : process.role == wire::Role::kInput ? options_.input_threads
                                                                : options_.worker_threads;
  command.insert(command.end(), {"--threads", std::to_string(threads)});
  if (process.role == wire::Role::kInput) command.insert(command.end(), {"--role", "input"});
  if (process.role == wire::Role::kWorker) {
    if (!options_.ps_in_workers) return command;
    command.insert(command.end(),
                   {"--with-ps", "--ps-threads", std::to_string(options_.ps_threads)});
  }
  // A restarted process gets a new endpoint, so that peers can't confuse it with its predecessor.
  const std::string endpoint = options_.transport == "tcp"
                                   ? std::string("tcp://127.0.0.1:*")
                                   : str("ipc://", options_.socket_dir, "/", process.role_name(),
                                         "-", index, ".", process.starts);
  command.insert(command.end(), {"--bind", endpoint});
  return command;
}

Result<void> LocalCluster::spawn(Process& process) {
  const std::vector<std::string> arguments = command(process);
  const int disposition = process.starts == 0 ? O_TRUNC : O_APPEND;
  DP_TRY(const int log,
         open_beneath(options_.run_dir, process.log, O_WRONLY | O_CREAT | disposition, 0644));
  const Started started = start_own({.argv = arguments, .out = log, .err = log}, SIGKILL,
                                    /*hold_stop_signals=*/true);
  close(log);
  if (started.error == ENOENT || started.error == EACCES) {
    return Error{ErrorCode::kUnavailable,
                 str(process.is_ps() ? "downpour-ps" : "downpour-worker",
                     " is not in the same folder as downpour"),
                 arguments[0], "build or install all of Downpour's programs in one folder"};
  }
  if (started.error != 0) {
    return Error{ErrorCode::kUnavailable,
                 str("can't start ", process.name(), ": ", std::strerror(started.error))};
  }
  process.pid = started.pid;
  process.start_at_ns = -1;
  ++process.starts;
  return {};
}

Result<void> LocalCluster::watch(int64_t now_ns, uint64_t progress,
                                 std::vector<std::string>& notices,
                                 std::vector<chief::EndedProcess>& ended) {
  for (Process& process : processes_) {
    int status = 0;
    if (process.pid > 0 && reap(process.pid, WNOHANG, status)) {
      chief::EndedProcess end{
          .role = process.role,
          .index = process.index,
          .pid = uint32_t(process.pid),
          .stop_signal = ending_ ? 0 : stop_signal_of(status),
          .goodbye = WIFEXITED(status) && (ending_ || WEXITSTATUS(status) == 0)};
      ended.push_back(end);
      if (options_.ps_in_workers && process.role == wire::Role::kWorker) {
        end.role = wire::Role::kPs;
        ended.push_back(end);
      }
      process.pid = -1;
      if (!ending_) {
        DP_TRY_VOID(on_ended(now_ns, progress, status, process, notices));
      }
    }
    if (ending_ || process.pid > 0 || process.start_at_ns < 0 || now_ns < process.start_at_ns) {
      continue;
    }
    DP_TRY_VOID(spawn(process));
    ++restarts_;
  }
  return ending_ ? Result<void>() : check_left();
}

Result<void> LocalCluster::on_ended(int64_t now_ns, uint64_t progress, int status, Process& process,
                                    std::vector<std::string>& notices) {
  const std::string line = last_line(process.log);
  process.last_status = status;
  process.last_words = str(process.name(), " ", end_text(status), line.empty() ? "" : ": ", line);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
    notices.push_back(str(process.name(), " exited as requested"));
    return {};
  }
  if (stop_signal_of(status) != 0) {
    // The chief is stopping the job. It may need this process again to save: a restarted ps
    // restores its partitions.
    constexpr int64_t kStopPauseNs = 250 * kMillisecond;
    process.start_at_ns = now_ns + kStopPauseNs;
    notices.push_back(str(process.last_words, "; the job stops"));
    return {};
  }
  if (options_.restarts == 0 || !restart_mends(status)) {
    notices.push_back(str(process.last_words, "; it is not restarted"));
    return {};
  }
  const auto start_at_ns = process.policy.on_ended(now_ns, progress);
  if (!start_at_ns) {
    return Error{
        ErrorCode::kUnavailable,
        str(process.name(), " ended ", options_.restarts + 1,
            " times in a row without progress of the job in between: ", process.last_words),
        process.log, "the log has the reason; the same command resumes from the newest checkpoint",
        "DP-4004"};
  }
  process.start_at_ns = *start_at_ns;
  notices.push_back(str(process.last_words, "; it is restarted"));
  return {};
}

/// Returns an error if no ps or no worker is running or waiting for a restart. The error has the
/// status of the last process if that is a permanent_error().
Result<void> LocalCluster::check_left() const {
  for (const wire::Role role : {wire::Role::kPs, wire::Role::kWorker}) {
    const Process* last = nullptr;
    bool left = false;
    for (const Process& process : processes_) {
      if (process.role != role) continue;
      left = left || !process.given_up();
      last = &process;
    }
    if (last == nullptr || left) continue;
    return Error{
        permanent_error(last->last_status).value_or(ErrorCode::kPeersLost),
        str("no ", role == wire::Role::kPs ? "ps" : "worker", " is left: ", last->last_words),
        last->log, "the same command resumes from the last checkpoint"};
  }
  return {};
}

void LocalCluster::wait(int64_t timeout_ns) {
  for (int64_t waited = 0;; waited += kMillisecond) {
    bool alive = false;
    for (Process& process : processes_) {
      if (process.pid <= 0) continue;
      int status = 0;
      if (reap(process.pid, WNOHANG, status)) {
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
