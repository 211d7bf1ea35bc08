#include "shared/env/process.h"

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sched.h>
#include <string>
#include <sys/random.h>
#include <sys/resource.h>
#include <unistd.h>
#include <utility>

#include "shared/base/error_text.h"
#include "shared/env/cgroup.h"

namespace downpour {
namespace {

/// Returns the number in a file. Returns nothing if there is no such file, or if it has no number
/// ("max").
std::optional<uint64_t> number_in(const char* path) {
  std::ifstream file(path);
  uint64_t number = 0;
  return file >> number ? std::optional(number) : std::nullopt;
}

/// Returns how many bytes of `resource` (RLIMIT_...) this process can still use, or nothing without
/// a limit. `field` is the index of the number in /proc/self/statm that counts against the limit,
/// in pages.
std::optional<uint64_t> left_of(int resource, int field) {
  rlimit limit{};
  if (getrlimit(__rlimit_resource_t(resource), &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
    return std::nullopt;
  std::ifstream file("/proc/self/statm");
  uint64_t pages = 0;
  for (int i = 0; i <= field; ++i) file >> pages;
  const uint64_t used = pages * uint64_t(sysconf(_SC_PAGESIZE));
  return limit.rlim_cur - std::min<uint64_t>(limit.rlim_cur, used);
}
std::optional<uint64_t> address_space_left() { return left_of(RLIMIT_AS, 0); }
std::optional<uint64_t> data_left() { return left_of(RLIMIT_DATA, 5); }

/// Returns how many threads of the whole machine are running, including the calling one; 0 if that
/// is not known.
int threads_running() {
  double load = 0;
  int running = 0;
  std::ifstream file("/proc/loadavg");
  return file >> load >> load >> load >> running ? running : 0;
}

}  // namespace

uint32_t allowed_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  const int count = sched_getaffinity(0, sizeof set, &set) == 0
                        ? CPU_COUNT(&set)
                        : int(sysconf(_SC_NPROCESSORS_ONLN));
  return uint32_t(
      std::max(1.0, std::min(double(count), std::ceil(cgroup_limits().cpus.value_or(count)))));
}

uint64_t free_memory() {
  uint64_t free = 0;
  std::ifstream info("/proc/meminfo");
  for (std::string key, line; info >> key; std::getline(info, line)) {
    uint64_t kib = 0;
    if (key == "MemAvailable:" && info >> kib) free = kib * 1024;
  }
  if (const auto left = cgroup_limits().memory_left) free = std::min(free, *left);
  for (const auto& left : {address_space_left(), data_left()}) {
    if (left) free = std::min(free, *left);
  }
  return free;
}

bool address_space_limited() {
  constexpr uint64_t kNeverOvercommits = 2;
  return address_space_left() || data_left() ||
         number_in("/proc/sys/vm/overcommit_memory") == kNeverOvercommits;
}

ProcessUsage process_usage() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto ns = [](const timeval& t) {
    return uint64_t(t.tv_sec) * 1'000'000'000 + uint64_t(t.tv_usec) * 1'000;
  };
  return {ns(usage.ru_utime) + ns(usage.ru_stime), uint64_t(usage.ru_maxrss) * 1024};
}

const ProcessInfo& this_process() {
  static const ProcessInfo info;
  return info;
}

void prefer_throughput() {
  if (sched_getscheduler(0) != SCHED_OTHER) return;
  // Take several samples: a thread that works all the time is in each of them, and one that only
  // wakes up now and then is in few.
  constexpr int kLooks = 5;
  int busy = 0;
  for (int look = 0; look < kLooks; ++look) {
    if (look > 0) usleep(500);
    busy += threads_running() > 1 ? 1 : 0;
  }
  const sched_param none{};
  if (busy <= kLooks / 2) sched_setscheduler(0, SCHED_BATCH, &none);
}

void keep_to_part(uint32_t index, uint32_t parts) {
  cpu_set_t all, part;
  CPU_ZERO(&all);
  if (parts < 2 || sched_getaffinity(0, sizeof all, &all) != 0) return;
  const auto count = uint32_t(CPU_COUNT(&all));
  if (count % parts != 0) return;
  CPU_ZERO(&part);
  uint32_t at = 0;
  for (size_t cpu = 0; at < count; ++cpu) {
    if (!CPU_ISSET(cpu, &all)) continue;
    if (at / (count / parts) == index % parts) CPU_SET(cpu, &part);
    ++at;
  }
  sched_setaffinity(0, sizeof part, &part);
}

std::string program_dir() {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/exe", error).parent_path().string();
}

void prepare_process() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    // The lowest number that is free is the one of this stream.
    if (::fcntl(stream, F_GETFD) < 0) (void)::open("/dev/null", O_RDWR);
  }
  std::signal(SIGXFSZ, SIG_IGN);
  std::signal(SIGCHLD, SIG_DFL);  // ignored, it would hide how a child ends
}

int checked_output(int status) {
  const bool written = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
  if (written || status != 0) return status;
  return report_error({ErrorCode::kIo, "the output could not be written completely", "stdout",
                       "free space where it goes, then run the command again"});
}

std::string host_name() {
  char name[256] = {};
  return gethostname(name, sizeof name - 1) == 0 ? name : "unknown";
}

uint32_t process_id() { return uint32_t(getpid()); }

uint64_t random_id() {
  uint64_t id = 0;
  while (id == 0) {
    if (getrandom(&id, sizeof id, 0) != ssize_t(sizeof id)) id = 0;
  }
  return id;
}

}  // namespace downpour
