// What the machine allows this process, and what the process has used.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace downpour {

/// Cores that this process may use: the affinity mask, cut down by a cgroup (v2 or v1) quota; at
/// least 1.
uint32_t allowed_cpus();

/// Bytes of memory that this process might still take without hurting others: what the system calls
/// available, cut down by a cgroup's limit (v2 or v1) and by this process's own limits (RLIMIT_AS,
/// RLIMIT_DATA); 0 where none is known.
uint64_t free_memory();
/// Whether reserved address space counts as used memory: RLIMIT_AS or RLIMIT_DATA is set, or the
/// system never overcommits.
bool address_space_limited();

struct ProcessUsage {
  uint64_t cpu_ns = 0;         // user + system, all threads
  uint64_t rss_bytes_max = 0;  // peak resident memory
};
ProcessUsage process_usage();

/// Where nothing else runs on this machine at the moment: tells the scheduler that this process
/// works in bulk (SCHED_BATCH), so that a thread that wakes up does not cut short the one at work.
/// Beside other work the same would make it wait for its turn behind them. For mains to call once,
/// before other threads start; what they start inherits it. A policy that the user chose stays.
void prefer_throughput();

std::string host_name();
uint32_t process_id();
/// 64 random bits from the kernel; for incarnations and run ids only.
uint64_t random_id();

/// What a node says of the process it lives in. The simulator's nodes say something else.
struct ProcessInfo {
  std::string host = host_name();
  uint32_t pid = process_id();
  uint32_t cpus = allowed_cpus();
  std::function<ProcessUsage()> usage = process_usage;
  std::function<uint64_t()> memory = free_memory;
  bool address_space_limited = downpour::address_space_limited();
};

}  // namespace downpour
