#include "chief/runtime/spool.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <poll.h>
#include <set>
#include <stop_token>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

#include "shared/base/human.h"
#include "shared/base/units.h"
#include "shared/checkpoint/paths.h"
#include "shared/data/reading/program.h"
#include "shared/env/process.h"
#include "shared/env/signals.h"
#include "shared/env/storage.h"
#include "shared/job/range_source.h"
#include "shared/job/synth_source.h"
#include "shared/synth/synth.h"

namespace downpour::chief {
namespace {

namespace fs = std::filesystem;

/// Returns the error after a stop signal. No stored data remain, and no run has begun.
Error stopped(const char* what, int signal) {
  return Error{signal == SIGTERM ? ErrorCode::kTerminated : ErrorCode::kInterrupted,
               str("stopped while ", what, " was being stored"), "data.source",
               "no run was started; run the same command to start over", ""};
}

/// Stores data of unknown length that may arrive slowly, and reports the progress.
class Keeping {
 public:
  /// Create it when stop signals are blocked, because it starts a thread that reports.
  Keeping(OutputFile& to, const char* what, const SpoolProgress& progress)
      : to_(to), what_(what), progress_(progress) {
    if (progress_) teller_ = std::jthread([this](const std::stop_token& stop) { tell(stop); });
  }

  Result<void> append(const char* bytes, size_t count) {
    DP_TRY_VOID(to_.append(as_bytes({bytes, count})));
    kept_ += count;
    return {};
  }
  uint64_t kept() const { return kept_; }

 private:
  void tell(const std::stop_token& stop) {
    std::mutex mutex;
    std::unique_lock lock(mutex);
    std::condition_variable_any never;
    for (auto wait = std::chrono::seconds(2);; wait = std::chrono::seconds(10)) {
      never.wait_for(lock, stop, wait, [] { return false; });
      if (stop.stop_requested()) return;
      progress_(str(human_bytes(kept_), " ", what_,
                    " so far; all of it is stored before the first record is used"));
    }
  }

  OutputFile& to_;
  const char* const what_;
  const SpoolProgress& progress_;
  std::atomic<uint64_t> kept_{0};
  std::jthread teller_;
};

}  // namespace

Result<void> write_stdin(OutputFile& to, const SpoolProgress& progress) {
  if (::isatty(STDIN_FILENO) != 0)
    return Error{ErrorCode::kUsage, "the source is \"-\", but stdin is a terminal", "data.source",
                 "pipe the data into the command: zcat rows.gz | downpour train job.toml", ""};
  std::vector<char> block(kMiB);
  const SignalWatcher signals([](int) {});
  Keeping keeping(to, "read from stdin", progress);
  for (;;) {
    constexpr int kLookMs = 200;
    pollfd ready{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
    const bool waits = ::poll(&ready, 1, kLookMs) == 0;
    if (signals.signal() != 0) return stopped("stdin", signals.signal());
    if (waits) continue;
    const ssize_t n = ::read(STDIN_FILENO, block.data(), block.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return Error{ErrorCode::kIo, "stdin can't be read", "data.source"};
    if (n == 0) break;
    DP_TRY_VOID(keeping.append(block.data(), size_t(n)));
  }
  if (keeping.kept() > 0) return {};
  return Error{ErrorCode::kBadData, "stdin is empty", "data.source",
               "the source is \"-\": pipe the data into the command"};
}

namespace {

Result<void> write_range(OutputFile& to, uint64_t records) {
  std::string text;
  for (uint64_t i = 0; i < records; ++i) {
    text += str(i, '\n');
    if (text.size() < kMiB && i + 1 < records) continue;
    DP_TRY_VOID(to.append(as_bytes(text)));
    text.clear();
  }
  return {};
}

/// Stores the output of a program that runs once for all epochs, evaluations and resumed runs.
Result<void> write_program(OutputFile& to, const SourceSpec& source, const Job& job,
                           const SpoolProgress& progress) {
  data::ReadPlan plan;
  plan.data = job.data;
  plan.source = source;
  plan.seed = job.seed;
  plan.batch_size = job.train.batch_size;
  plan.base_dir = job.base_dir;
  plan.training = &source == &job.data.source;
  const SignalWatcher signals([&](int) { data::stop_programs(*plan.programs); });
  DP_TRY(const auto output, data::start_program(data::call_of(plan, 0, {}), plan.programs));
  std::vector<char> block(kMiB);
  Keeping keeping(to, "written by the program", progress);
  for (;;) {
    const auto n = output->read(block.data(), block.size());
    if (signals.signal() != 0) return stopped("the program's output", signals.signal());
    if (!n) return n.error();
    if (*n == 0) break;
    DP_TRY_VOID(keeping.append(block.data(), *n));
  }
  if (keeping.kept() > 0) return {};
  return Error{ErrorCode::kBadData, "the program wrote nothing", data::program_info(source).path,
               "the program must write its records to stdout"};
}

bool runs_once(const SourceSpec& source) {
  return source.is_program() && source.replay == Replay::kNone;
}

/// Returns true for sources whose text determines their content.
bool is_made(const std::string& path) {
  return range_records(path).has_value() || synth_source(path).has_value();
}

bool is_spooled(const std::string& path) { return path == "-" || is_made(path); }

std::string folder_of(const Job& job) { return job.run_dir + "/sources"; }

std::string name_of(const std::string& path) {
  if (!is_made(path)) return "stdin";
  std::string name = path;  // consists of letters, digits and ",=."
  name[path.find(':')] = '-';
  return name;
}

/// Returns true if data wait on stdin, which will not be read.
bool stdin_has_data() {
  struct stat status {};
  if (::fstat(STDIN_FILENO, &status) != 0) return false;
  if (S_ISREG(status.st_mode)) return status.st_size > 0;
  if (!S_ISFIFO(status.st_mode) && !S_ISSOCK(status.st_mode)) return false;
  constexpr int kWaitMs = 200;  // its writer may have just started
  pollfd ready{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
  int bytes = 0;
  return ::poll(&ready, 1, kWaitMs) > 0 && ::ioctl(STDIN_FILENO, FIONREAD, &bytes) == 0 &&
         bytes > 0;
}

Error not_there(const std::string& path) {
  if (path == "-") {
    return Error{ErrorCode::kUsage, "the source is \"-\", but no run has read stdin yet",
                 "data.source",
                 "start the run (zcat rows.gz | downpour train job.toml), or use a file", ""};
  }
  return Error{ErrorCode::kUsage, str("the source is \"", path, "\", but no run has started yet"),
               "data.source", "the run creates the file at its start: downpour train job.toml", ""};
}

/// Returns the file that replaces a path that is not a file.
Result<std::string> spooled(const std::string& path, const Job& job, Spooling spooling,
                            std::vector<std::string>& notes, const SpoolProgress& progress) {
  const std::string file = str(folder_of(job), '/', name_of(path));
  std::error_code ignored;
  const bool there = fs::exists(file, ignored);
  if (there && spooling != Spooling::kAnew) {
    if (!is_made(path) && spooling == Spooling::kMake && stdin_has_data()) {
      notes.push_back(
          str("stdin is not read: the run continues with the records that it read at its start (",
              file, "); --fresh starts a new run"));
    }
    return file;
  }
  if (spooling == Spooling::kUse) return not_there(path);
  PosixStorage storage;
  storage.guard(job.run_dir);
  DP_TRY_VOID(storage.make_dirs(folder_of(job)));
  if (const auto clicks = synth_source(path)) {
    constexpr uint32_t kThreadsMax = 8;  // each needs up to about 50 MB
    DP_TRY_VOID(data::synthesize(*clicks, file, std::min(allowed_cpus(), kThreadsMax)));
    return file;
  }
  const std::optional<uint64_t> range = range_records(path);
  DP_TRY(const std::unique_ptr<OutputFile> made, storage.create(file));
  DP_TRY_VOID(range ? write_range(*made, *range) : write_stdin(*made, progress));
  DP_TRY_VOID(made->commit());
  return file;
}

/// Returns the file that replaces a program that runs once.
Result<std::string> kept_output(const SourceSpec& source, const Job& job, Spooling spooling,
                                std::vector<std::string>& notes, const SpoolProgress& progress) {
  const plan::FileInfo info = data::program_info(source);
  const bool training = &source == &job.data.source;
  const std::string file =
      str(folder_of(job), training ? "/program-train-" : "/program-eval-", info.fingerprint);
  std::error_code ignored;
  // Output of a run that never began is not used, because the program may have changed.
  const bool begun = fs::exists(checkpoint::run_path(job.run_dir), ignored);
  if (fs::exists(file, ignored) && begun && spooling != Spooling::kAnew) {
    if (spooling == Spooling::kMake) {
      notes.push_back(str(
          "the program is not run: the run continues with its output from the start of the run (",
          file, "); --fresh runs it again"));
    }
    return file;
  }
  if (spooling == Spooling::kUse) {
    return Error{ErrorCode::kUsage, "the program has not been run yet (replay = \"none\")",
                 info.path, "the run starts the program: downpour train job.toml", ""};
  }
  PosixStorage storage;
  storage.guard(job.run_dir);
  DP_TRY_VOID(storage.make_dirs(folder_of(job)));
  DP_TRY(const std::unique_ptr<OutputFile> kept, storage.create(file));
  DP_TRY_VOID(write_program(*kept, source, job, progress));
  DP_TRY_VOID(kept->commit());
  return file;
}

/// Removes files that do not belong to the job, from an earlier run or an interrupted write.
void remove_others(const Job& job, const std::set<std::string>& own) {
  PosixStorage storage;
  storage.guard(job.run_dir);
  const auto names = storage.list(folder_of(job));
  if (!names) return;
  for (const std::string& name : *names) {
    const std::string path = str(folder_of(job), "/", name);
    if (!own.contains(path)) (void)storage.remove(path);
  }
}

}  // namespace

void print_spooling(const std::string& sentence) {
  std::fprintf(stderr, "source: %s\n", sentence.c_str());
}

bool has_spooled_sources(const Job& job) {
  const auto is_kept = [](const SourceSpec& source) {
    return runs_once(source) || std::ranges::any_of(source.paths, is_spooled);
  };
  return is_kept(job.data.source) || is_kept(job.eval.source);
}

Result<void> spool_sources(Job& job, Spooling spooling, std::vector<std::string>& notes,
                           const SpoolProgress& progress) {
  SourceSpec* const sources[] = {&job.data.source, &job.eval.source};
  size_t stdins = 0;
  for (const SourceSpec* source : sources) stdins += std::ranges::count(source->paths, "-");
  if (stdins > 1) {
    return Error{ErrorCode::kUsage, "\"-\" is given twice, but stdin can be read only once",
                 std::ranges::count(job.data.source.paths, "-") > 0 ? "data.source" : "eval.source",
                 "use a file for one of the sources; to read stdin several times, set `repeat` of "
                 "data.source"};
  }
  bool ranges = !job.data.source.paths.empty();
  for (const std::string& path : job.data.source.paths) ranges &= range_records(path).has_value();
  if (ranges && job.data.format == DataFormat::kAuto) {
    job.data.format = DataFormat::kCsv;
    if (job.data.columns.empty()) job.data.columns = {"value"};
    if (job.data.fields.empty()) job.data.fields = {{.name = "value"}};
  }
  std::set<std::string> own;
  for (SourceSpec* source : sources) {
    if (runs_once(*source)) {
      DP_TRY(std::string file, kept_output(*source, job, spooling, notes, progress));
      own.insert(file);
      source->exec.clear();
      source->replay = Replay::kEpoch;
      source->paths = {std::move(file)};
    }
    for (std::string& path : source->paths) {
      if (!is_spooled(path)) continue;
      DP_TRY(path, spooled(path, job, spooling, notes, progress));
      own.insert(path);
    }
  }
  if (spooling == Spooling::kAnew) remove_others(job, own);
  return {};
}

}  // namespace downpour::chief
