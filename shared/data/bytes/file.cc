#include "shared/data/bytes/file.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>
#include <vector>

#include "shared/base/edit_distance.h"
#include "shared/base/hash.h"
#include "shared/base/object_scheme.h"
#include "shared/base/units.h"
#include "shared/data/bytes/xxh3.h"
#include "shared/env/io_error.h"
#include "shared/objects/object_reader.h"
#include "shared/objects/store_settings.h"

namespace downpour::data {
namespace {

constexpr size_t kFingerprintBytes = 64 * kKiB;

/// Returns a hint such as "did you mean train.tsv?", or names the missing folder.
std::string nearest_name_hint(const std::filesystem::path& path) {
  std::error_code error;
  const auto folder = path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
  if (!std::filesystem::is_directory(folder, error))
    return str("there is no folder ", folder.string());
  const std::string wanted = path.filename().string();
  std::string best;
  size_t best_distance = std::max<size_t>(wanted.size() / 2, 1) + 1;
  size_t looked_at = 0;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    if (++looked_at > 10'000) break;
    const std::string name = entry->path().filename().string();
    const size_t distance = name.size() > 255 ? best_distance : edit_distance(wanted, name);
    if (distance < best_distance || (distance == best_distance && !best.empty() && name < best)) {
      best_distance = distance;
      best = name;
    }
  }
  return best.empty() ? str("list the folder ", folder.string())
                      : str("did you mean ", (folder / best).string(), "?");
}

Error open_error(const std::string& path, int number) {
  if (number == ENOENT || number == ENOTDIR) {
    return Error{ErrorCode::kNoInput, str("no such file: ", path), path, nearest_name_hint(path)};
  }
  return system_error("can't open", path, number, Intent::kRead);
}

/// Metadata of a file. While they stay the same, the content is assumed to stay the same. Writes
/// through a shared memory mapping may not update the times and go undetected.
struct FileState {
  uint64_t device = 0, number = 0, bytes = 0;
  int64_t modified_ns = 0, changed_ns = 0;
  auto operator<=>(const FileState&) const = default;
};

/// Returns nothing if the file changed so recently that a further change could leave its times the
/// same.
std::optional<FileState> settled_state(int fd) {
  constexpr int64_t kSecond = 1'000'000'000;
  struct stat status {};
  timespec now{};
  if (::fstat(fd, &status) != 0 || ::clock_gettime(CLOCK_REALTIME, &now) != 0) return std::nullopt;
  const auto ns = [](const timespec& time) { return time.tv_sec * kSecond + time.tv_nsec; };
  FileState state{.device = status.st_dev,
                  .number = status.st_ino,
                  .bytes = uint64_t(status.st_size),
                  .modified_ns = ns(status.st_mtim),
                  .changed_ns = ns(status.st_ctim)};
  const bool settled = std::max(state.modified_ns, state.changed_ns) < ns(now) - 2 * kSecond;
  return settled ? std::optional(state) : std::nullopt;
}

/// Caches fingerprints of files that were not modified recently, because every shard opens its
/// files again.
class KnownFingerprints {
 public:
  std::optional<uint64_t> find(const FileState& state) {
    const std::lock_guard lock(mutex_);
    const auto found = known_.find(state);
    return found == known_.end() ? std::nullopt : std::optional(found->second);
  }
  void add(const FileState& state, uint64_t fingerprint) {
    constexpr size_t kFilesMax = 1 << 14;
    const std::lock_guard lock(mutex_);
    if (known_.size() == kFilesMax) known_.clear();
    known_.emplace(state, fingerprint);
  }

 private:
  std::mutex mutex_;
  std::map<FileState, uint64_t> known_;
};
KnownFingerprints known_fingerprints;

}  // namespace

File::File(int fd, uint64_t bytes, std::string path)
    : fd_(fd), bytes_(bytes), path_(std::move(path)) {}

File::File(std::unique_ptr<objects::ObjectReader> object)
    : fd_(-1), bytes_(object->bytes()), path_(object->path()), object_(std::move(object)) {}

File::File(File&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      bytes_(other.bytes_),
      path_(std::move(other.path_)),
      object_(std::move(other.object_)) {}

Result<File> File::open(const std::string& path) {
  if (is_object_path(path)) {
    DP_TRY(objects::StoreSettings settings, objects::settings_from_environment());
    DP_TRY(auto object, objects::ObjectReader::open(path, std::move(settings)));
    return File(std::move(object));
  }
  const int fd =
      ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // opening a FIFO must not block
  if (fd < 0) return open_error(path, errno);
  struct stat status {};
  const bool known = ::fstat(fd, &status) == 0;
  File file(fd, known ? uint64_t(status.st_size) : 0, path);
  if (!known) return open_error(path, errno);
  if (S_ISDIR(status.st_mode)) {
    return Error{ErrorCode::kNoInput, str("is a folder, not a file: ", path), path,
                 "name one of its files"};
  }
  if (!S_ISREG(status.st_mode)) {
    return Error{ErrorCode::kNoInput, str("is not a regular file: ", path), path,
                 "write the data to a file first: a shard may be read more than once"};
  }
  return file;
}

File::~File() {
  if (fd_ >= 0) ::close(fd_);
}

bool File::is_cut() const {
  if (object_ != nullptr) return false;  // ObjectReader checks each read
  struct stat status {};
  return ::fstat(fd_, &status) != 0 || uint64_t(status.st_size) < bytes_;
}

Result<size_t> File::read_at(uint64_t offset, char* to, size_t size) const {
  if (object_ != nullptr) return object_->read_at(offset, to, size);
  size_t done = 0;
  while (done < size) {
    const ssize_t n = ::pread(fd_, to + done, size - done, off_t(offset + done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0)
      return system_error("can't read", str(path_, ":", offset + done), errno, Intent::kRead);
    if (n == 0) break;
    done += size_t(n);
  }
  return done;
}

Result<uint64_t> File::fingerprint() const {
  if (object_ != nullptr) return hash_combine(bytes_, hash_string(object_->etag()));
  std::optional<FileState> state = settled_state(fd_);
  if (state && state->bytes != bytes_) state.reset();  // it has grown since it was opened
  if (state) {
    if (const auto known = known_fingerprints.find(*state)) return *known;
  }
  std::vector<char> ends(kFingerprintBytes);
  DP_TRY(const size_t head, read_at(0, ends.data(), ends.size()));
  uint64_t hash = hash_combine(bytes_, xxh3(ends.data(), head));
  if (bytes_ > kFingerprintBytes) {
    DP_TRY(const size_t tail, read_at(bytes_ - kFingerprintBytes, ends.data(), ends.size()));
    hash = hash_combine(hash, xxh3(ends.data(), tail));
  }
  if (state) known_fingerprints.add(*state, hash);
  return hash;
}

Result<Compression> File::compression() const {
  char head[kCompressionHeadBytes];
  DP_TRY(const size_t n, read_at(0, head, sizeof head));
  return compression_of({head, n});
}

Result<bool> File::is_compressed() const {
  DP_TRY(const Compression found, compression());
  return found != Compression::kNone;
}

Error changed_error(const std::string& path, const std::string& how) {
  return Error{ErrorCode::kBadData,
               str("the file changed after the job started (", how, "): ", path), path,
               "when it is complete, run the same command again; if that is refused, because an "
               "epoch has begun, restore the data or start a new run with --fresh"};
}

Result<File> open_unchanged(const plan::FileInfo& info) {
  DP_TRY(File file, File::open(info.path));
  if (file.bytes() != info.bytes) {
    return changed_error(info.path,
                         str("it had ", info.bytes, " bytes, and now has ", file.bytes()));
  }
  DP_TRY(const uint64_t fingerprint, fingerprint_of(file));
  if (fingerprint != info.fingerprint) return changed_error(info.path, "its content is different");
  return file;
}

std::string idx_labels_path(const std::string& path) {
  const size_t name = path.rfind('/') == std::string::npos ? 0 : path.rfind('/') + 1;
  const size_t at = path.find("images-idx3", name);
  return at == std::string::npos ? "" : std::string(path).replace(at, 11, "labels-idx1");
}

Result<uint64_t> fingerprint_of(const File& file) {
  DP_TRY(const uint64_t own, file.fingerprint());
  const std::string labels_path = idx_labels_path(file.path());
  if (labels_path.empty()) return own;
  auto labels = File::open(labels_path);
  // A missing label file is reported when the labels are read. An I/O error is returned, because
  // otherwise it would look like a changed fingerprint.
  if (!labels && labels.error().code == ErrorCode::kIo) return std::move(labels).error();
  if (!labels) return own;
  DP_TRY(const uint64_t theirs, labels->fingerprint());
  return hash_combine(own, theirs);
}

}  // namespace downpour::data
