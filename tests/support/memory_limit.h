// fits_in_memory: whether some code gets by with so much memory.
#pragma once

#include <cstdint>
#include <fstream>
#include <string>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

namespace downpour::testing {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kMemoryIsLimited = false;  // sanitizers map terabytes
#else
constexpr bool kMemoryIsLimited = true;
#endif

/// Runs `body` in a process of its own, which may map `bytes` more than this process has mapped.
/// True: `body` returned true. False: it did not, or the process ended otherwise.
template <typename Body>
bool fits_in_memory(uint64_t bytes, Body&& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    uint64_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    const rlim_t limit = pages * uint64_t(::sysconf(_SC_PAGESIZE)) + bytes;
    const rlimit limits{limit, limit};
    if (kMemoryIsLimited && ::setrlimit(RLIMIT_AS, &limits) != 0) ::_exit(2);
    ::_exit(body() ? 0 : 1);
  }
  int status = 0;
  return child > 0 && ::waitpid(child, &status, 0) == child && WIFEXITED(status) &&
         WEXITSTATUS(status) == 0;
}

/// A file of that length whose first bytes are `head` and whose others are a hole. False: the file
/// system knows no files of that length.
inline bool write_sparse(const std::string& path, const std::string& head, uint64_t bytes) {
  std::ofstream(path, std::ios::binary) << head;
  return ::truncate(path.c_str(), off_t(bytes)) == 0;
}

}  // namespace downpour::testing
