// Local cluster: ps and worker processes of this machine, started for one job and ended with it.
#pragma once

#include <cstdint>
#include <string>
#include <sys/types.h>
#include <vector>

#include "shared/base/result.h"

namespace downpour::tools {

struct LocalClusterOptions {
  std::string chief;       // endpoint
  std::string transport;   // "ipc" or "tcp"
  std::string socket_dir;  // ipc: where ps bind; 0700
  std::string log_dir;     // one file a process
  uint32_t ps = 1;
  uint32_t ps_threads = 1;
  uint32_t workers = 1;
  uint32_t worker_threads = 1;
};

class LocalCluster {
 public:
  LocalCluster() = default;
  LocalCluster(const LocalCluster&) = delete;
  LocalCluster& operator=(const LocalCluster&) = delete;
  /// Ends whatever still runs: SIGTERM, a moment later SIGKILL.
  ~LocalCluster();

  /// Starts downpour-ps and downpour-worker, found beside this program. Errors: kUnavailable naming
  /// the program.
  Result<void> start(const LocalClusterOptions& options);
  /// Looks after the processes. An error when a ps has died or no worker is left; a lost worker is
  /// told once through `notices`.
  Result<void> watch(std::vector<std::string>& notices);
  /// The job has ended: from now on processes may end.
  void expect_end() { ending_ = true; }
  /// Waits for all to end by themselves, at most this long.
  void wait(int64_t timeout_ns);

 private:
  struct Process {
    std::string name;  // "worker 0"
    std::string log;
    bool is_ps = false;
    pid_t pid = -1;  // -1: ended
  };
  Result<void> spawn(const std::string& program, const std::vector<std::string>& arguments,
                     Process process);

  std::vector<Process> processes_;
  bool ending_ = false;
};

/// The folder of the running program.
std::string program_dir();

}  // namespace downpour::tools
