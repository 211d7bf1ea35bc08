// LocalCluster: starts the ps, worker and input processes of one job on this machine, restarts them
// when they die, and ends them with the job.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <sys/types.h>
#include <vector>

#include "chief/core/events.h"
#include "shared/base/result.h"
#include "tools/cli/restart_policy.h"

namespace downpour::tools {

struct LocalClusterOptions {
  std::string chief;       // endpoint
  std::string transport;   // "ipc" or "tcp"
  std::string keys;        // for tcp: folder with a key for each role
  std::string socket_dir;  // for ipc: folder for the sockets of ps and input processes, mode 0700
  std::string run_dir;     // each process appends to its own file in logs/, also after a restart
  uint32_t ps = 1;
  uint32_t ps_threads = 1;
  bool ps_in_workers = false;  // each worker process also runs a ps; then `ps` is not used
  uint32_t workers = 1;
  uint32_t worker_threads = 1;
  uint32_t inputs = 0;
  uint32_t input_threads = 1;
  bool allow_exec = false;  // workers and input processes may start the programs of the job
  uint32_t restarts = 3;    // per process without progress; then the job ends. 0: no restarts
};

class LocalCluster {
 public:
  LocalCluster() = default;
  LocalCluster(const LocalCluster&) = delete;
  LocalCluster& operator=(const LocalCluster&) = delete;
  ~LocalCluster();  // calls end()

  /// Starts downpour-ps and downpour-worker from the folder of this program. Error kUnavailable
  /// names the program that can't be started.
  Result<void> start(const LocalClusterOptions& options);
  /// Restarts processes that have ended, under the same index and after their pause. `progress` is
  /// as in RestartPolicy. Adds messages for the user to `notices`, and the processes that have
  /// ended since the last call to `ended`. Errors: a process keeps ending without progress of the
  /// job, or no ps or no worker is left. The job continues without input processes, because workers
  /// can read the data themselves.
  Result<void> watch(int64_t now_ns, uint64_t progress, std::vector<std::string>& notices,
                     std::vector<chief::EndedProcess>& ended);
  /// Records that the job is ending: from now on processes may end and are not restarted.
  void expect_end() { ending_ = true; }
  /// Ends all processes with SIGTERM, and with SIGKILL after 5 s. Call it after the chief has
  /// stopped the job.
  void end();
  uint32_t restarts() const { return restarts_; }

 private:
  struct Process {
    wire::Role role = wire::Role::kPs;
    uint32_t index = 0;
    std::string log;
    RestartPolicy policy{0};
    uint32_t starts = 0;
    pid_t pid = -1;            // -1: not running
    int64_t start_at_ns = -1;  // time of the next start; -1: none
    int last_status = 0;       // status of the last end, from waitpid()
    std::string last_words;    // the last end as text, with the last line of the log

    bool is_ps() const { return role == wire::Role::kPs; }
    bool given_up() const { return pid < 0 && start_at_ns < 0; }
    /// Returns "ps", "worker" or "input".
    std::string role_name() const;
    std::string name() const { return str(role_name(), " ", index); }
  };
  Result<void> spawn(Process& process);
  bool divides_cpus() const;
  std::vector<std::string> command(const Process& process) const;
  Result<void> on_ended(int64_t now_ns, uint64_t progress, int status, Process& process,
                        std::vector<std::string>& notices);
  Result<void> check_left() const;
  void wait(int64_t timeout_ns);

  LocalClusterOptions options_;
  std::vector<Process> processes_;
  uint32_t restarts_ = 0;
  bool ending_ = false;
};

}  // namespace downpour::tools
