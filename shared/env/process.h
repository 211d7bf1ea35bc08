// ProcessInfo: the resources that the machine allows this process, and those that it has used.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace downpour {

/// Returns the number of processors that this process may use: those in its affinity mask, but no
/// more than the quotas of its cgroups (cgroup.h), rounded up; at least 1.
uint32_t allowed_cpus();

/// Returns how many bytes of memory this process can still use: the memory that the system reports
/// as available, but no more than the limits of the cgroups (cgroup.h) and of the process
/// (RLIMIT_AS, RLIMIT_DATA) leave. Returns 0 if the available memory is not known.
uint64_t free_memory();
/// Returns whether reserved address space counts as used memory. It does if RLIMIT_AS or
/// RLIMIT_DATA is set, or if the system never overcommits.
bool address_space_limited();

struct ProcessUsage {
  uint64_t cpu_ns = 0;         // user + system, all threads
  uint64_t rss_bytes_max = 0;  // peak resident memory
};
ProcessUsage process_usage();

/// Selects the scheduling policy SCHED_BATCH if nothing else runs on this machine at the moment.
/// With this policy, a thread that wakes up does not preempt a running one. If other work ran, the
/// policy would make this process wait for it. Called once by mains, before they start other
/// threads, which inherit the policy. Does not change a policy that the user has chosen.
void prefer_throughput();

/// Keeps this process to one of `parts` equal parts of the processors in its affinity mask: the
/// part `index % parts`, of consecutive processors. Changes nothing if they can't be divided
/// equally. A scheduler that wakes up the processes of a cluster often puts two of them on one
/// processor and leaves another one idle. Called by mains, before they start other threads.
void keep_to_part(uint32_t index, uint32_t parts);

/// The first call of mains. Opens /dev/null in place of a standard stream that is closed, so that
/// no other file gets its number and with it the messages of this process. Makes a write beyond the
/// limit of a file's size (ulimit -f) fail with EFBIG: SIGXFSZ would end the process without a
/// message. Takes back that SIGCHLD is ignored, as some launchers leave it.
void prepare_process();
/// The last call of mains. Returns the exit status: `status`, or that of kIo, with a message, if it
/// is 0 and stdout could not be written.
int checked_output(int status);

std::string host_name();
/// Returns the folder of the running program. All of Downpour's programs are in one folder.
std::string program_dir();
uint32_t process_id();
/// Returns 64 random bits from the kernel, never 0. Only for incarnations and run ids.
uint64_t random_id();

/// The facts that a node reports about its process. The nodes of the simulator have other values.
struct ProcessInfo {
  std::string host = host_name();
  uint32_t pid = process_id();
  uint32_t cpus = allowed_cpus();
  std::function<ProcessUsage()> usage = process_usage;
  std::function<uint64_t()> memory = free_memory;
  bool address_space_limited = downpour::address_space_limited();
};
/// Returns the facts of this process, which are read once.
const ProcessInfo& this_process();

}  // namespace downpour
