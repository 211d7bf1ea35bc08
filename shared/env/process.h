// What the machine allows this process, and what the process has used.
#pragma once

#include <cstdint>
#include <string>

namespace downpour {

/// Cores that this process may use: the affinity mask, cut down by a cgroup (v2 or v1) quota; at least 1.
uint32_t allowed_cpus();

struct ProcessUsage {
  uint64_t cpu_ns = 0;         // user + system, all threads
  uint64_t rss_bytes_max = 0;  // peak resident memory
};
ProcessUsage process_usage();

std::string host_name();
/// 64 random bits from the kernel; for incarnations and run ids only.
uint64_t random_id();

}  // namespace downpour
