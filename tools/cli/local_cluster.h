// Local cluster: ps, worker and input processes of this machine, started for one job, started again
// when they die, and ended with the job.
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
  std::string keys;        // tcp: folder with a key for each role
  std::string socket_dir;  // ipc: where ps and input processes bind; 0700
  std::string run_dir;     // each process appends to its own file in logs/, also after a restart
  uint32_t ps = 1;
  uint32_t ps_threads = 1;
  uint32_t workers = 1;
  uint32_t worker_threads = 1;
  uint32_t inputs = 0;
  uint32_t input_threads = 1;
  bool allow_exec = false;  // workers and input processes may start the programs that the job names
  uint32_t restarts = 3;    // of one process without progress; then the job ends. 0: none
};

class LocalCluster {
 public:
  LocalCluster() = default;
  LocalCluster(const LocalCluster&) = delete;
  LocalCluster& operator=(const LocalCluster&) = delete;
  ~LocalCluster();  // end()

  /// Starts downpour-ps and downpour-worker, found beside this program. Errors: kUnavailable naming
  /// the program.
  Result<void> start(const LocalClusterOptions& options);
  /// Starts processes that ended again under their index, each when its time has come. `progress`
  /// as in RestartPolicy. `notices` gets what the user should know, `ended` the processes that have
  /// ended since the last call. Errors: a process ends again and again without progress of the job;
  /// no ps or no worker is left and none will be started (without input processes workers read for
  /// themselves).
  Result<void> watch(int64_t now_ns, uint64_t progress, std::vector<std::string>& notices,
                     std::vector<chief::EndedProcess>& ended);
  /// The job is ending: from now on processes may end, and none is started.
  void expect_end() { ending_ = true; }
  /// Ends all processes: SIGTERM, after 5 s SIGKILL. Call it when the chief has stopped the job.
  void end();
  uint32_t restarts() const { return restarts_; }

 private:
  struct Process {
    wire::Role role = wire::Role::kPs;
    uint32_t index = 0;
    std::string log;
    RestartPolicy policy{0};
    uint32_t starts = 0;
    pid_t pid = -1;            // -1: does not run
    int64_t start_at_ns = -1;  // -1: will not be started
    int last_status = 0;       // how it ended, as waitpid() reports it
    std::string last_words;    // the same for the user, with its last line

    bool is_ps() const { return role == wire::Role::kPs; }
    bool given_up() const { return pid < 0 && start_at_ns < 0; }
    /// "ps", "worker", "input"
    std::string role_name() const;
    std::string name() const { return str(role_name(), " ", index); }
  };
  Result<void> spawn(Process& process);
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

/// The folder of the running program.
std::string program_dir();

}  // namespace downpour::tools
