#include "chief/runtime/spool.h"

#include <cstdio>
#include <filesystem>
#include <optional>
#include <unistd.h>
#include <utility>
#include <vector>

#include "shared/base/units.h"
#include "shared/job/range_source.h"

namespace downpour::chief {
namespace {

namespace fs = std::filesystem;

/// A file that appears under its name when it is whole and on the disk.
class NewFile {
 public:
  explicit NewFile(std::string path) : path_(std::move(path)), partial_(path_ + ".partial") {
    std::error_code error;
    fs::create_directories(fs::path(path_).parent_path(), error);
    file_ = std::fopen(partial_.c_str(), "wb");
  }
  ~NewFile() {
    if (file_ == nullptr) return;
    std::fclose(file_);
    std::error_code ignored;
    fs::remove(partial_, ignored);
  }
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  bool is_open() const { return file_ != nullptr; }
  Result<void> write(const char* data, size_t size) {
    if (std::fwrite(data, 1, size, file_) == size) return {};
    return Error{ErrorCode::kIo, "a source can't be written", partial_, "is the disk full?"};
  }
  Result<void> commit() {
    const bool whole = std::fflush(file_) == 0 && ::fsync(::fileno(file_)) == 0;
    std::error_code error;
    if (whole) fs::rename(partial_, path_, error);
    if (!whole || error)
      return Error{ErrorCode::kIo, "a source can't be written", path_, "is the disk full?"};
    std::fclose(std::exchange(file_, nullptr));
    return {};
  }

 private:
  std::string path_, partial_;
  std::FILE* file_ = nullptr;
};

Result<void> write_stdin(NewFile& to) {
  if (::isatty(STDIN_FILENO) != 0)
    return Error{ErrorCode::kUsage, "the source is \"-\", and stdin is a terminal", "data.source",
                 "pipe the data in: zcat rows.gz | downpour train job.toml", ""};
  std::vector<char> block(kMiB);
  uint64_t bytes = 0;
  for (;;) {
    const ssize_t n = ::read(STDIN_FILENO, block.data(), block.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return Error{ErrorCode::kIo, "stdin can't be read", "data.source"};
    if (n == 0) break;
    bytes += uint64_t(n);
    DP_TRY_VOID(to.write(block.data(), size_t(n)));
  }
  if (bytes > 0) return {};
  return Error{ErrorCode::kBadData, "nothing came on stdin", "data.source",
               "the source is \"-\": pipe the data in"};
}

Result<void> write_range(NewFile& to, uint64_t records) {
  std::string text;
  for (uint64_t i = 0; i < records; ++i) {
    text += str(i, '\n');
    if (text.size() < kMiB && i + 1 < records) continue;
    DP_TRY_VOID(to.write(text.data(), text.size()));
    text.clear();
  }
  return {};
}

/// The file that stands for a path of the job; the path itself where it is one.
Result<std::string> spooled(const std::string& path, const std::string& run_dir, bool fresh) {
  const std::optional<uint64_t> range = range_records(path);
  if (path != "-" && !range) return path;
  const std::string name = range ? str("range-", *range) : "stdin";
  const std::string file = str(run_dir, "/sources/", name);
  std::error_code ignored;
  if (fs::exists(file, ignored) && (range || !fresh)) return file;
  NewFile made(file);
  if (!made.is_open())
    return Error{ErrorCode::kCannotCreate, "a source's file can't be created", file,
                 "choose another run_dir"};
  DP_TRY_VOID(range ? write_range(made, *range) : write_stdin(made));
  DP_TRY_VOID(made.commit());
  return file;
}

}  // namespace

Result<void> spool_sources(Job& job, bool fresh) {
  bool ranges = !job.data.source.paths.empty();
  for (const std::string& path : job.data.source.paths) ranges &= range_records(path).has_value();
  if (ranges && job.data.format == DataFormat::kAuto) {
    job.data.format = DataFormat::kCsv;
    if (job.data.columns.empty()) job.data.columns = {"value"};
    if (job.data.fields.empty()) job.data.fields = {{.name = "value"}};
  }
  for (SourceSpec* source : {&job.data.source, &job.eval.source}) {
    for (std::string& path : source->paths) {
      DP_TRY(path, spooled(path, job.run_dir, fresh));
    }
  }
  return {};
}

}  // namespace downpour::chief
