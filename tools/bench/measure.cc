#include "tools/bench/measure.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <fcntl.h>
#include <filesystem>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shared/base/check.h"
#include "shared/env/child_process.h"

namespace downpour::tools {
namespace {

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

/// Lets the calling child process end when its parent ends.
void die_with(pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);
}

}  // namespace

double wall_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

BenchResult Repeated::result(std::string name, std::string unit, std::string limit_name) const {
  BenchResult out{std::move(name), median(values_), std::move(unit), std::move(limit_name),
                  median(limits_)};
  if (values_.size() > 1) {
    out.low = *std::min_element(values_.begin(), values_.end());
    out.high = *std::max_element(values_.begin(), values_.end());
  }
  return out;
}

Child::Child(const std::function<void(const Tell&)>& body) {
  int pipe[2];
  DP_CHECK(::pipe2(pipe, O_CLOEXEC) == 0, errno);
  const pid_t parent = ::getpid();
  pid_ = ::fork();
  DP_CHECK(pid_ >= 0, errno);
  if (pid_ == 0) {
    ::close(pipe[0]);
    die_with(parent);
    body([&](const std::string& line) {
      const std::string text = line + "\n";
      if (::write(pipe[1], text.data(), text.size()) != ssize_t(text.size())) ::_exit(1);
    });
    ::_exit(0);  // run no destructors of the parent's objects
  }
  ::close(pipe[1]);
  for (char c = 0; ::read(pipe[0], &c, 1) == 1 && c != '\n';) told_ += c;
  ::close(pipe[0]);
}

Child::Child(const std::vector<std::string>& command, const std::string& log) {
  const int out = ::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  const Started started = start_own({.argv = command, .out = out, .err = out}, SIGKILL,
                                    /*hold_stop_signals=*/false);
  ::close(out);
  DP_CHECK(started.error == 0, started.error);
  pid_ = started.pid;
}

Child::~Child() {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

bool Child::running() {
  if (pid_ > 0 && ::waitpid(pid_, nullptr, WNOHANG) != 0) pid_ = -1;
  return pid_ > 0;
}

ScratchDir::ScratchDir() {
  std::string path = (std::filesystem::temp_directory_path() / "dp-bench-XXXXXX").string();
  DP_CHECK(::mkdtemp(path.data()) != nullptr, path);
  path_ = path;
}

ScratchDir::~ScratchDir() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace downpour::tools
