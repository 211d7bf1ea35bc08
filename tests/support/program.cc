#include "tests/support/program.h"

#include <chrono>
#include <cstdlib>
#include <dirent.h>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <signal.h>
#include <sstream>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include "tests/support/seeds.h"

namespace downpour::testing {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kSlowness = kSanitized ? 5 : 1;

void nap() { std::this_thread::sleep_for(std::chrono::milliseconds(5)); }

}  // namespace

std::string read_text(const std::string& path) {
  std::ostringstream out;
  out << std::ifstream(path).rdbuf();
  return out.str();
}

Program::Program(const std::string& name, const std::vector<std::string>& arguments,
                 const std::string& folder) {
  static int count = 0;  // NOLINT: numbers the output files of this test process
  const std::string base = folder + "/" + name + "-" + std::to_string(++count);
  out_path_ = base + ".out";
  err_path_ = base + ".err";
  const std::string path = std::string(DP_BIN_DIR) + "/" + name;
  std::vector<char*> argv = {const_cast<char*>(path.c_str())};
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  pid_ = fork();
  if (pid_ == 0) {
    dup2(open(out_path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644), STDOUT_FILENO);
    dup2(open(err_path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644), STDERR_FILENO);
    execv(path.c_str(), argv.data());
    _exit(127);
  }
}

Program::~Program() {
  if (pid_ <= 0) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

void Program::signal(int number) const { kill(pid_, number); }

Ended Program::wait(double seconds) {
  Ended ended;
  const auto deadline = Clock::now() + kSlowness * std::chrono::duration<double>(seconds);
  int status = 0;
  while (waitpid(pid_, &status, WNOHANG) != pid_) {
    if (Clock::now() >= deadline) {
      ended.timed_out = true;
      kill(pid_, SIGKILL);
      waitpid(pid_, &status, 0);
      break;
    }
    nap();
  }
  pid_ = -1;
  ended.status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  ended.out = read_text(out_path_);
  ended.err = read_text(err_path_);
  return ended;
}

bool Program::saw(const std::string& text, double seconds) const {
  for (const auto deadline = Clock::now() + kSlowness * std::chrono::duration<double>(seconds);
       Clock::now() < deadline; nap()) {
    if (read_text(err_path_).find(text) != std::string::npos) return true;
  }
  return false;
}

std::vector<pid_t> Program::children(const std::string& name) const {
  std::vector<pid_t> found;
  DIR* const proc = opendir("/proc");
  for (const dirent* entry = readdir(proc); entry != nullptr; entry = readdir(proc)) {
    const pid_t pid = pid_t(std::strtol(entry->d_name, nullptr, 10));
    if (pid <= 0) continue;
    const std::string folder = std::string("/proc/") + entry->d_name;
    const std::string stat = read_text(folder + "/stat");
    const size_t close = stat.rfind(')');
    if (close == std::string::npos || close + 4 >= stat.size()) continue;
    if (std::strtol(stat.c_str() + close + 4, nullptr, 10) != pid_) continue;
    if (read_text(folder + "/cmdline").find(name) != std::string::npos) found.push_back(pid);
  }
  closedir(proc);
  return found;
}

}  // namespace downpour::testing
