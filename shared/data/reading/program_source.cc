#include "shared/data/reading/program_source.h"

#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <poll.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "shared/base/check.h"
#include "shared/base/str.h"
#include "shared/base/units.h"
#include "shared/data/reading/read_plan.h"
#include "shared/env/child_process.h"

namespace downpour::data {
namespace {

constexpr int kPipeBytes = 1 << 20;              // Linux's default maximum for unprivileged users
constexpr size_t kStderrBytes = 4096;            // last bytes of stderr, kept for error texts
constexpr int64_t kEndsWithinNs = 10 * kSecond;  // limit from end of output to exit
constexpr int kEndLookMs = 5;

std::string last_line(const std::string& text) {
  const size_t end = text.find_last_not_of(" \r\n");
  if (end == std::string::npos) return {};
  const size_t begin = text.find_last_of('\n', end) + 1;  // npos + 1 is 0
  return text.substr(begin, end + 1 - begin);
}

int64_t monotonic_ns() {
  timespec time{};
  ::clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * kSecond + time.tv_nsec;
}

void sleep_ms(int ms) {
  const timespec time{.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1'000'000L};
  ::nanosleep(&time, nullptr);
}

/// Writes to a pipe. If the pipe has no reader, fails with EPIPE and raises no SIGPIPE.
ssize_t write_quietly(int fd, std::string_view bytes) {
  sigset_t broken_pipe, before;
  ::sigemptyset(&broken_pipe);
  ::sigaddset(&broken_pipe, SIGPIPE);
  ::pthread_sigmask(SIG_BLOCK, &broken_pipe, &before);
  const ssize_t n = ::write(fd, bytes.data(), bytes.size());
  const int error = errno;
  const timespec at_once{};
  if (n < 0 && error == EPIPE) ::sigtimedwait(&broken_pipe, nullptr, &at_once);
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  errno = error;
  return n;
}

/// A pipe. Its destructor closes the ends that are still open.
struct Pipe {
  int read = -1, write = -1;
  Pipe() = default;
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  ~Pipe() {
    close_end(read);
    close_end(write);
  }
  bool open() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) return false;
    read = ends[0];
    write = ends[1];
    ::fcntl(write, F_SETPIPE_SZ, kPipeBytes);  // a hint: with it, each side waits less often
    return true;
  }
  static void close_end(int& end) {
    if (end >= 0) ::close(end);
    end = -1;
  }
};

}  // namespace

std::string command_text(const std::vector<std::string>& argv) {
  std::string text;
  for (const std::string& word : argv) text += str(text.empty() ? "" : " ", word);
  return text;
}

void ProgramPool::stop() {
  const std::lock_guard lock(mutex_);
  stopped_ = true;
  for (const int pid : running_) ::kill(-pid, SIGKILL);
}

std::shared_ptr<ProgramPool> make_program_pool() { return std::make_shared<ProgramPool>(); }

void stop_programs(ProgramPool& pool) { pool.stop(); }
bool are_stopped(const ProgramPool& pool) { return pool.stopped(); }

bool ProgramPool::stopped() const {
  const std::lock_guard lock(mutex_);
  return stopped_;
}

bool ProgramPool::add(int pid) {
  const std::lock_guard lock(mutex_);
  if (!stopped_) running_.insert(pid);
  return !stopped_;
}

bool ProgramPool::reap(int pid, int flags, int& status) {
  const std::lock_guard lock(mutex_);
  if (!downpour::reap(pid, flags, status)) return false;
  running_.erase(pid);
  return true;
}

class ProgramSource final : public ByteSource {
 public:
  ProgramSource(std::string name, std::shared_ptr<ProgramPool> pool, ProgramInput input)
      : name_(std::move(name)), pool_(std::move(pool)), input_(std::move(input)) {}
  ~ProgramSource() override { kill_it(); }

  Result<void> start(const ProgramCall& call);
  Result<size_t> read(char* to, size_t size) override;
  uint64_t consumed() const override { return read_; }

 private:
  Error failed(const std::string& how, const std::string& hint) const {
    const std::string said = last_line(tail_);
    return Error{ErrorCode::kBadData,
                 said.empty() ? str("the program ", how) : str("the program ", how, ": ", said),
                 name_, hint};
  }
  /// Reads some of the program's stderr. Copies it to the stderr of this process, and keeps its end
  /// for errors. Returns false if stderr is closed.
  bool take_stderr();
  /// Takes the next input of the program, unless there is unsent input left. Closes its stdin at
  /// the end of the input.
  Result<void> ask_input();
  void give_input();
  /// Waits for the program to exit after its last byte. Error if it does not exit in time, or if
  /// its exit status is not 0.
  Result<void> end();
  /// Returns false if the program still runs.
  bool reap(int flags);
  void kill_it();

  const std::string name_;
  const std::shared_ptr<ProgramPool> pool_;
  const ProgramInput input_;
  std::string_view unsent_;
  Pipe in_, out_, err_;
  pid_t pid_ = -1;
  int status_ = 0;
  bool ended_ = false;
  uint64_t read_ = 0;
  std::string tail_;
};

Result<void> ProgramSource::start(const ProgramCall& call) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(call.directory, ignored)) {
    return Error{ErrorCode::kNoInput, str("there is no folder ", call.directory), name_,
                 "a program runs in the folder of the job file, which must exist on the machine of "
                 "every worker"};
  }
  if (!out_.open() || !err_.open() || (input_ && !in_.open())) {
    return Error{ErrorCode::kUnavailable,
                 str("can't create a pipe for the program: ", std::strerror(errno)), name_};
  }
  if (input_) {
    ::fcntl(in_.write, F_SETFL, O_NONBLOCK);
  } else {
    in_.read = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  }
  if (in_.read < 0) {
    return Error{ErrorCode::kUnavailable, str("can't open /dev/null: ", std::strerror(errno)),
                 name_};
  }
  const Started started = start_foreign({.argv = call.argv,
                                         .directory = call.directory,
                                         .environment = call.environment,
                                         .in = in_.read,
                                         .out = out_.write,
                                         .err = err_.write});
  Pipe::close_end(in_.read);
  Pipe::close_end(out_.write);
  Pipe::close_end(err_.write);
  if (started.error != 0) {
    const bool absent = started.error == ENOENT || started.error == EACCES;
    return Error{absent ? ErrorCode::kNoInput : ErrorCode::kUnavailable,
                 str("can't start `", call.argv[0], "`: ", std::strerror(started.error)), name_,
                 absent ? "the program is searched in PATH on the machine of every worker; a name "
                          "with a slash is relative to the job file's folder"
                        : ""};
  }
  pid_ = started.pid;
  if (!pool_->add(pid_)) kill_it();
  return {};
}

bool ProgramSource::take_stderr() {
  char text[4096];
  const ssize_t n = ::read(err_.read, text, sizeof text);
  if (n <= 0) {
    if (n < 0 && errno == EINTR) return true;
    Pipe::close_end(err_.read);
    return false;
  }
  for (ssize_t at = 0, put = 0; at < n; at += put) {
    put = ::write(STDERR_FILENO, text + at, size_t(n - at));
    if (put <= 0) break;  // the log is full or closed; the program continues
  }
  tail_.append(text, size_t(n));
  if (tail_.size() > kStderrBytes) tail_.erase(0, tail_.size() - kStderrBytes);
  return true;
}

Result<void> ProgramSource::ask_input() {
  if (in_.write < 0 || !unsent_.empty()) return {};
  DP_TRY(unsent_, input_());
  if (unsent_.empty()) Pipe::close_end(in_.write);
  return {};
}

void ProgramSource::give_input() {
  const ssize_t n = write_quietly(in_.write, unsent_);
  if (n >= 0) {
    unsent_.remove_prefix(size_t(n));
  } else if (errno != EAGAIN && errno != EINTR) {
    Pipe::close_end(in_.write);  // it reads no more; its output decides whether that is an error
  }
}

Result<size_t> ProgramSource::read(char* to, size_t size) {
  size_t filled = 0;
  while (filled < size && !ended_) {
    DP_TRY_VOID(ask_input());
    pollfd wanted[3] = {{.fd = out_.read, .events = POLLIN, .revents = 0},
                        {.fd = err_.read, .events = POLLIN, .revents = 0},
                        {.fd = in_.write, .events = POLLOUT, .revents = 0}};  // poll ignores -1
    if (::poll(wanted, 3, -1) < 0 && errno != EINTR) {
      return Error{ErrorCode::kIo, str("can't wait for a program: ", std::strerror(errno)), name_};
    }
    if (wanted[1].revents != 0) take_stderr();
    if (wanted[2].revents != 0) give_input();
    if (wanted[0].revents == 0) continue;
    const ssize_t n = ::read(out_.read, to + filled, size - filled);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      return Error{ErrorCode::kIo, str("can't read from a program: ", std::strerror(errno)), name_};
    }
    if (n == 0) {
      ended_ = true;
      Pipe::close_end(in_.write);  // it may wait for the end of its input
      DP_TRY_VOID(end());
    }
    filled += size_t(n);
    read_ += size_t(n);
  }
  return filled;
}

bool ProgramSource::reap(int flags) {
  if (!pool_->reap(pid_, flags, status_)) return false;
  pid_ = -1;
  return true;
}

Result<void> ProgramSource::end() {
  const int64_t until_ns = monotonic_ns() + kEndsWithinNs;
  while (pid_ > 0 && !reap(WNOHANG)) {
    pollfd err{.fd = err_.read, .events = POLLIN, .revents = 0};
    if (err_.read >= 0 && ::poll(&err, 1, kEndLookMs) > 0) {
      take_stderr();
    } else if (err_.read < 0) {
      sleep_ms(kEndLookMs);
    }
    if (monotonic_ns() < until_ns) continue;
    kill_it();
    return failed(str("closed its output and did not end within ", kEndsWithinNs / kSecond, " s"),
                  "the program must exit with status 0 after its last record");
  }
  for (;;) {  // the rest of its stderr
    pollfd err{.fd = err_.read, .events = POLLIN, .revents = 0};
    if (err_.read < 0 || ::poll(&err, 1, 0) <= 0 || !take_stderr()) break;
  }
  if (pool_->stopped()) {
    return Error{ErrorCode::kUnavailable, "reading was stopped", name_};
  }
  if (WIFSIGNALED(status_)) return failed(end_text(status_), "");
  if (WEXITSTATUS(status_) != 0) {
    return failed(
        end_text(status_),
        "run the program by hand, with the variables DOWNPOUR_... that docs/data.md lists");
  }
  return {};
}

void ProgramSource::kill_it() {
  if (pid_ <= 0) return;
  ::kill(-pid_, SIGKILL);
  reap(0);
}

Result<std::unique_ptr<ByteSource>> start_program(const ProgramCall& call,
                                                  std::shared_ptr<ProgramPool> pool,
                                                  ProgramInput input) {
  DP_CHECK(!call.argv.empty());
  auto source =
      std::make_unique<ProgramSource>(command_text(call.argv), std::move(pool), std::move(input));
  DP_TRY_VOID(source->start(call));
  return std::unique_ptr<ByteSource>(std::move(source));
}

}  // namespace downpour::data
