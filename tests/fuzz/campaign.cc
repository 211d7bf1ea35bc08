#include "tests/fuzz/campaign.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <fstream>
#include <functional>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shared/base/hash.h"
#include "shared/base/str.h"
#include "tests/fuzz/memory_meter.h"

#if defined(__SANITIZE_ADDRESS__)
extern "C" int __lsan_do_recoverable_leak_check();
#endif

namespace downpour::fuzz {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int kSlower = 10;
#else
constexpr int kSlower = 1;
#endif
constexpr int kFaultExit = 98, kLeakExit = 97;
constexpr double kShrinkSeconds = 30;
constexpr std::string_view kMagic = "downpour fuzz 1\n";

/// Report of the reading process to the waiting one, in shared memory. It survives the death of the
/// reading process.
struct Report {
  uint64_t inputs = 0;
  uint64_t peak_bytes = 0;
  double cpu_ms_max = 0;
  char fault[4096] = {};
};

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}
double cpu_ms_now() {
  timespec now{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return double(now.tv_sec) * 1e3 + double(now.tv_nsec) / 1e6;
}

/// Limits processor time, not wall-clock time, because a busy machine or a stopped process is not a
/// fault of the reader.
void limit_time(const Target& target) {
  const itimerval timer{.it_interval = {}, .it_value = {target.cpu_seconds_max * kSlower, 0}};
  ::setitimer(ITIMER_PROF, &timer, nullptr);
}

/// Reads one input in the reading process. Ends the process if the check fails.
void read_one(const Target& target, const Input& input, Report& report) {
  limit_time(target);
  const double began = cpu_ms_now();
  limit_memory(target.memory_bytes_max);
  begin_peak();
  const std::string fault = target.run(input);
  report.peak_bytes = std::max(report.peak_bytes, peak_bytes());
  limit_memory(INT64_MAX);
  report.cpu_ms_max = std::max(report.cpu_ms_max, cpu_ms_now() - began);
  if (fault.empty()) return;
  std::snprintf(report.fault, sizeof report.fault, "%s", fault.c_str());
  ::_exit(kFaultExit);
}

/// Returns how a reading process failed, or an empty text.
std::string verdict_of(const Target& target, int status, const Report& report) {
  if (WIFSIGNALED(status)) {
    if (WTERMSIG(status) == SIGPROF)
      return str("takes more than ", target.cpu_seconds_max * kSlower, " s of processor time");
    return str("ends by signal ", WTERMSIG(status), " (", ::strsignal(WTERMSIG(status)), ")");
  }
  switch (WEXITSTATUS(status)) {
    case 0:
      return "";
    case kFaultExit:
      return report.fault;
    case kMemoryExit:
      return str("takes more than ", target.memory_bytes_max / kMiB, " MiB of memory");
    case kLeakExit:
      return "leaks memory";
    default:
      return str("ends with status ", WEXITSTATUS(status));
  }
}

/// Runs `work` in a child process. Fills `report` and returns how the child failed, or an empty
/// text.
std::string in_child(const Target& target, bool quiet, Report& report,
                     const std::function<void(Report&)>& work) {
  void* const shared =
      ::mmap(nullptr, sizeof(Report), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) std::abort();
  Report& told = *new (shared) Report;
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child < 0) std::abort();
  if (child == 0) {
    if (quiet) ::dup2(::open("/dev/null", O_WRONLY | O_CLOEXEC), 2);
    work(told);
#if defined(__SANITIZE_ADDRESS__)
    const itimerval off{};
    ::setitimer(ITIMER_PROF, &off, nullptr);
    if (__lsan_do_recoverable_leak_check() != 0) ::_exit(kLeakExit);
#endif
    ::_exit(0);
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  report = told;
  ::munmap(shared, sizeof(Report));
  return verdict_of(target, status, report);
}

/// Returns the text before the first number or colon. Two findings with the same text count as the
/// same defect.
std::string kind_of(std::string what) {
  what.resize(std::min(what.find_first_of("0123456789:"), what.size()));
  return what;
}

/// Removes pieces of an input, large ones first, while the same defect still occurs.
class Shrinker {
 public:
  Shrinker(const Target& target, std::string what)
      : target_(target), kind_(kind_of(std::move(what))), until_(seconds_now() + kShrinkSeconds) {}

  void shrink(Input& input) {
    for (bool smaller = true; smaller && seconds_now() < until_;) {
      smaller = false;
      for (size_t file = 0; file < input.files.size(); ++file) smaller |= shrink_file(input, file);
    }
  }

 private:
  bool shrink_file(Input& input, size_t file) {
    bool smaller = false;
    for (size_t piece = (input.files[file].size() + 1) / 2; piece > 0; piece /= 2) {
      for (size_t at = 0; at < input.files[file].size() && seconds_now() < until_;) {
        Input less = input;
        less.files[file].erase(at, piece);
        if (kind_of(run_alone(target_, less, /*quiet=*/true)) == kind_) {
          input = std::move(less);
          smaller = true;
        } else {
          at += piece;
        }
      }
    }
    return smaller;
  }

  const Target& target_;
  const std::string kind_;
  const double until_;
};

}  // namespace

Input input_of(const Target& target, uint64_t seed, uint64_t number) {
  Rng rng(hash_combine(hash_combine(seed, hash_string(target.name)), number));
  const uint64_t knobs = rng.next();
  Input input = target.make(rng);
  input.knobs = knobs;
  return input;
}

std::string run_alone(const Target& target, const Input& input, bool quiet) {
  Report report;
  return in_child(target, quiet, report, [&](Report& told) { read_one(target, input, told); });
}

Outcome run_campaign(const Target& target, const Limits& limits, const std::string& folder) {
  const double began = seconds_now();
  Report report;
  const std::string what = in_child(target, /*quiet=*/false, report, [&](Report& told) {
    while (told.inputs < limits.inputs && seconds_now() - began < limits.seconds) {
      read_one(target, input_of(target, limits.seed, limits.first + told.inputs), told);
      ++told.inputs;
    }
  });
  Outcome outcome{.inputs = report.inputs,
                  .seconds = seconds_now() - began,
                  .peak_bytes = report.peak_bytes,
                  .cpu_ms_max = report.cpu_ms_max};
  if (what.empty()) return outcome;
  Finding& finding = outcome.finding.emplace();
  finding.number = limits.first + report.inputs;
  finding.what = what;
  Input input = input_of(target, limits.seed, finding.number);
  Shrinker(target, what).shrink(input);
  finding.input = str(folder, "/fuzz-", target.name, "-", limits.seed, "-", finding.number);
  std::ofstream(finding.input, std::ios::binary) << encode_input(target.name, input);
  return outcome;
}

std::string encode_input(const std::string& target, const Input& input) {
  std::string out(kMagic);
  out += str(target, " ", input.knobs, " ", input.files.size());
  for (const std::string& file : input.files) out += str(" ", file.size());
  out += '\n';
  for (const std::string& file : input.files) out += file;
  return out;
}

bool decode_input(const std::string& bytes, std::string& target, Input& input) {
  if (!bytes.starts_with(kMagic)) return false;
  const size_t end = bytes.find('\n', kMagic.size());
  if (end == std::string::npos) return false;
  std::istringstream line(bytes.substr(kMagic.size(), end - kMagic.size()));
  size_t count = 0, at = end + 1, size = 0;
  line >> target >> input.knobs >> count;
  for (size_t i = 0; i < count && line >> size; ++i, at += size) {
    if (size > bytes.size() - at) return false;
    input.files.push_back(bytes.substr(at, size));
  }
  return input.files.size() == count && at == bytes.size();
}

}  // namespace downpour::fuzz
