// fits_in_memory: checks that code runs within a memory limit.
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

/// Runs `body` in a child process that may map `bytes` more than this process has mapped. Returns
/// true if `body` returned true, and false if it returned false or the process ended in another
/// way. Under a sanitizer there is no limit.
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

/// Writes a file of `bytes` bytes that starts with `head`; the rest is a hole. Returns false if the
/// file system does not support files of that length.
inline bool write_sparse(const std::string& path, const std::string& head, uint64_t bytes) {
  std::ofstream(path, std::ios::binary) << head;
  return ::truncate(path.c_str(), off_t(bytes)) == 0;
}

}  // namespace downpour::testing
