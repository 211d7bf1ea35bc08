#include "shared/data/reading/program.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "shared/base/hash.h"
#include "shared/base/units.h"
#include "shared/data/formats/numpy/array_stream.h"
#include "shared/data/records/chosen_windows.h"
#include "shared/data/records/line_windows.h"
#include "shared/job/formats.h"

extern char** environ;

namespace downpour::data {
namespace {

constexpr int kPipeBytes = 1 << 20;              // Linux's default maximum for unprivileged users
constexpr size_t kStderrBytes = 4096;            // last bytes of stderr, kept for error texts
constexpr int64_t kEndsWithinNs = 10 * kSecond;  // limit from end of output to exit
constexpr int kEndLookMs = 5;

std::string text_of(const std::vector<std::string>& argv) {
  std::string text;
  for (const std::string& word : argv) text += str(text.empty() ? "" : " ", word);
  return text;
}

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
  pid_t got;
  while ((got = ::waitpid(pid, &status, flags)) < 0 && errno == EINTR) {
  }
  if (got == 0) return false;
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
  std::vector<std::string> words = call.argv, variables;
  for (char** each = environ; *each != nullptr; ++each) {
    const std::string_view known = *each;
    const auto mine = [&](const auto& own) {
      return known.starts_with(own.first) && known.substr(own.first.size()).starts_with('=');
    };
    if (std::none_of(call.environment.begin(), call.environment.end(), mine))
      variables.emplace_back(known);
  }
  for (const auto& [name, value] : call.environment) variables.push_back(str(name, "=", value));
  std::vector<char*> argv, envp;
  for (std::string& word : words) argv.push_back(word.data());
  for (std::string& variable : variables) envp.push_back(variable.data());
  argv.push_back(nullptr);
  envp.push_back(nullptr);

  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawnattr_init(&attributes);
  ::posix_spawn_file_actions_addchdir_np(&actions, call.directory.c_str());
  if (input_) {
    ::fcntl(in_.write, F_SETFL, O_NONBLOCK);
    ::posix_spawn_file_actions_adddup2(&actions, in_.read, STDIN_FILENO);
  } else {
    ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  }
  ::posix_spawn_file_actions_adddup2(&actions, out_.write, STDOUT_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, err_.write, STDERR_FILENO);
  sigset_t none, all;
  ::sigemptyset(&none);
  ::sigfillset(&all);
  ::posix_spawnattr_setsigmask(&attributes, &none);
  ::posix_spawnattr_setsigdefault(&attributes, &all);
  // In its own group, Ctrl-C does not reach the program, and kill(-pid) also ends its children.
  ::posix_spawnattr_setpgroup(&attributes, 0);
  ::posix_spawnattr_setflags(
      &attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  const int error = ::posix_spawnp(&pid_, argv[0], &actions, &attributes, argv.data(), envp.data());
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&actions);
  Pipe::close_end(in_.read);
  Pipe::close_end(out_.write);
  Pipe::close_end(err_.write);
  if (error != 0) {
    pid_ = -1;
    const bool absent = error == ENOENT || error == EACCES;
    return Error{absent ? ErrorCode::kNoInput : ErrorCode::kUnavailable,
                 str("can't start `", call.argv[0], "`: ", std::strerror(error)), name_,
                 absent ? "the program is searched in PATH on the machine of every worker; a name "
                          "with a slash is relative to the job file's folder"
                        : ""};
  }
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
  if (WIFSIGNALED(status_)) {
    return failed(
        str("was killed by signal ", WTERMSIG(status_), " (", ::strsignal(WTERMSIG(status_)), ")"),
        "");
  }
  if (WEXITSTATUS(status_) != 0) {
    return failed(
        str("ended with status ", WEXITSTATUS(status_)),
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
      std::make_unique<ProgramSource>(text_of(call.argv), std::move(pool), std::move(input));
  DP_TRY_VOID(source->start(call));
  return std::unique_ptr<ByteSource>(std::move(source));
}

plan::FileInfo program_info(const SourceSpec& source) {
  uint64_t hash = hash_combine(uint64_t(source.replay), source.records);
  for (const std::string& word : source.exec) hash = hash_combine(hash, hash_string(word));
  return {.path = str(plan::FileInfo::kProgramMark, text_of(source.exec)),
          .bytes = std::max<uint64_t>(source.records, 1),
          .fingerprint = hash,
          .splittable = false};
}

bool is_stream(const SourceSpec& source) {
  return source.is_program() && source.replay == Replay::kEpoch;
}

void cut_program(const SourceSpec& source, uint64_t records_a_range, plan::FileInfo& info) {
  info.records_before = {0};
  if (records_a_range == 0) return;
  if (source.records == 0) {
    DP_CHECK(records_a_range <= kOpenPieceMax, records_a_range);
    info.bytes = plan::kOpenEnd;
    info.cuts = {records_a_range};
    return;
  }
  info.records_before.clear();
  for (uint64_t begin = 0; begin < info.bytes;) {
    const uint64_t end = begin + std::min(records_a_range, info.bytes - begin);
    // Pieces that a stream skips stay shards, because their ends report that the stream progresses.
    const bool passed = is_stream(source) && end <= source.skip;
    info.records_before.push_back(passed ? begin : number_of_piece(source, begin, end));
    if (begin > 0) info.cuts.push_back(begin);
    begin = end;
  }
  info.splittable = !info.cuts.empty() && source.replay != Replay::kEpoch;
}

std::vector<plan::FileInfo> as_whole(std::vector<plan::FileInfo> files) {
  for (plan::FileInfo& file : files) {
    if (!file.is_open()) continue;
    file.bytes = 1;
    file.cuts.clear();
  }
  return files;
}

namespace {

/// Returns the call with the variables that every program receives.
ProgramCall call_for(const std::vector<std::string>& argv, const ReadPlan& plan, uint32_t epoch,
                     const plan::ShardRange& range) {
  ProgramCall call{.argv = argv, .directory = plan.base_dir, .environment = {}};
  const auto set = [&](const char* name, uint64_t value) {
    call.environment.emplace_back(str("DOWNPOUR_", name), str(value));
  };
  set("SEED", plan.seed);
  set("EPOCH", plan.training ? epoch : 0);
  set("STREAM", range.stream);
  set("STREAMS", std::max(plan.data.streams, 1U));
  call.environment.emplace_back("DOWNPOUR_PURPOSE", plan.targets_optional ? "predict"
                                                    : plan.training       ? "train"
                                                                          : "eval");
  return call;
}

}  // namespace

ProgramCall call_of(const ReadPlan& plan, uint32_t epoch, const plan::ShardRange& range) {
  ProgramCall call = call_for(plan.source.exec, plan, epoch, range);
  call.environment.emplace_back("DOWNPOUR_BATCH_SIZE", str(plan.batch_size));
  call.environment.emplace_back("DOWNPOUR_REPLICAS", "1");  // workers train independently
  if (plan.source.records == 0) return call;
  call.environment.emplace_back("DOWNPOUR_RECORDS", str(plan.source.records));
  call.environment.emplace_back("DOWNPOUR_SHARD_BEGIN", str(range.begin));
  call.environment.emplace_back("DOWNPOUR_SHARD_END", str(range.end));
  return call;
}

ProgramCall transform_call_of(const ReadPlan& plan, uint32_t epoch, const plan::ShardRange& range) {
  ProgramCall call = call_for(plan.data.program, plan, epoch, range);
  call.environment.emplace_back("DOWNPOUR_FILE", plan.files[range.file].path);
  return call;
}

namespace {

/// Counts the records of a program's range, because such a range is a range of records. Verifies
/// their number if it is known.
class ProgramWindows final : public WindowSource {
 public:
  ProgramWindows(std::unique_ptr<WindowSource> inner, std::string name, size_t row_bytes,
                 uint32_t epoch, const plan::ShardRange& range, bool counted, bool streamed)
      : inner_(std::move(inner)),
        name_(std::move(name)),
        row_bytes_(row_bytes),
        epoch_(epoch),
        range_(range),
        counted_(counted),
        streamed_(streamed) {}

  Result<bool> next(Window& window) override {
    const uint64_t before = records_;
    DP_TRY(const bool more, inner_->next(window));
    const uint64_t wanted = range_.end - range_.begin;
    if (more) records_ += window.records->size();
    if (counted_ && (records_ > wanted || (!more && records_ < wanted))) {
      return Error{
          ErrorCode::kBadData,
          str("the program wrote ", records_ > wanted ? "more" : str("only ", records_), " records",
              records_ > wanted ? " than the " : " of the ", wanted, " that were requested"),
          place(),
          "the program must write the records from DOWNPOUR_SHARD_BEGIN up to, but not including, "
          "DOWNPOUR_SHARD_END"};
    }
    if (streamed_) return more;  // BlockWindows has set the progress, in records
    window.begin_progress = counted_ ? before : 0;
    window.end_progress = counted_ ? records_ : uint64_t{!more};
    return more;
  }
  bool at_end() const override { return inner_->at_end(); }
  uint64_t first_offset() const override {
    return streamed_ ? inner_->first_offset() : range_.begin;
  }
  uint64_t end_offset() const override { return streamed_ ? inner_->end_offset() : range_.end; }
  std::string locate(uint64_t offset) override {
    if (row_bytes_ > 0) return str(place(), ", record ", offset / row_bytes_, " of its output");
    return str(place(), ", byte ", offset, " of its output");
  }

 private:
  std::string place() const {
    return str(name_, " (epoch ", epoch_ + 1,
               counted_ ? str(", records [", range_.begin, ", ", range_.end, ")") : "", ")");
  }

  const std::unique_ptr<WindowSource> inner_;
  const std::string name_;
  const size_t row_bytes_;  // bytes of a row of arrays; 0 for text
  const uint32_t epoch_;
  const plan::ShardRange range_;
  const bool counted_;
  const bool streamed_;  // the range is a piece of a stream
  uint64_t records_ = 0;
};

}  // namespace

bool is_piece(const ReadPlan& plan, const plan::ShardRange& range) {
  return plan.files[range.file].is_streamed();
}

Result<void> start_stream(const ReadPlan& plan, uint32_t epoch, const plan::ShardRange& range,
                          RecordStream::Reading& reading) {
  const plan::FileInfo& info = plan.files[range.file];
  plan::ShardRange whole = range;
  whole.begin = 0;
  whole.end = info.bytes;
  DP_TRY(std::unique_ptr<ByteSource> source,
         start_program(call_of(plan, epoch, whole), plan.programs));
  if (is_arrays(plan.data.format)) {
    DP_TRY(RowStream rows, rows_of(std::move(source), plan, info.path, kProgramWindowBytes,
                                   reading.buffer, reading.records));
    reading.source = std::move(rows.records.source);
    reading.arrays = std::move(rows.arrays);
  } else {
    const WindowMemory memory{kProgramWindowBytes, reading.buffer, reading.records};
    DP_TRY(reading.source,
           format_of(plan.data.format).open_stream(plan, std::move(source), info.path, memory));
  }
  // If the length is unknown, the pieces are cut from the chosen records only, because the numbers
  // of the other records are not known when the pieces are leased.
  if (info.is_open()) {
    whole.records_before = 0;
    reading.source =
        choose_by_number(plan.source, whole, /*whole=*/true, std::move(reading.source));
  }
  return {};
}

Result<ShardRecords> open_program(const ReadPlan& plan, uint32_t epoch,
                                  const plan::ShardRange& range, const WindowMemory& memory) {
  const plan::FileInfo& info = plan.files[range.file];
  const bool streamed = is_piece(plan, range);
  ShardRecords out;
  size_t row_bytes = 0;
  const auto take_rows = [&](RowStream rows) {
    row_bytes = rows.row_bytes;
    out = std::move(rows.records);
  };
  if (streamed) {
    const auto start = [&](RecordStream::Reading& reading) {
      return start_stream(plan, epoch, range, reading);
    };
    DP_TRY(StreamBlockPtr block, plan.streams->take(plan, epoch, range, start));
    std::shared_ptr<const ArrayFields> arrays = block->arrays;
    out.source = windows_of(std::move(block), memory.records);
    if (arrays != nullptr) {
      DP_TRY(RowStream rows, rows_in(std::move(out.source), plan, std::move(arrays)));
      take_rows(std::move(rows));
    }
  } else {
    DP_TRY(std::unique_ptr<ByteSource> source,
           start_program(call_of(plan, epoch, range), plan.programs));
    // Evaluation does not depend on the order, so it does not wait for a large window to shuffle.
    const bool waits = plan.training && plan.data.shuffle != "off";
    const WindowMemory window{waits ? memory.window_bytes : kProgramWindowBytes, memory.buffer,
                              memory.records};
    if (is_arrays(plan.data.format)) {
      DP_TRY(RowStream rows, rows_of(std::move(source), plan, info.path, window.window_bytes,
                                     window.buffer, window.records));
      take_rows(std::move(rows));
    } else {
      DP_TRY(out.source,
             format_of(plan.data.format).open_stream(plan, std::move(source), info.path, window));
    }
  }
  out.source = std::make_unique<ProgramWindows>(std::move(out.source), info.path, row_bytes, epoch,
                                                range, plan.source.records > 0, streamed);
  return out;
}

}  // namespace downpour::data
