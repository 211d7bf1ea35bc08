#include <algorithm>
#include <atomic>
#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <new>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <utility>

#include "shared/base/check.h"
#include "shared/base/page_vector.h"
#include "shared/env/beneath.h"
#include "shared/env/storage.h"

namespace downpour {
namespace {

// Maximum number of temporary names to try. Crashed processes with the same pid may have left
// files.
constexpr int kTemporaryNamesMax = 1000;
constexpr off_t kWritebackBytes = 8 << 20;
// For writes that bypass the page cache: the alignment that disks and file systems require of
// address, offset and length, and the number of bytes that are gathered for one write.
constexpr size_t kDirectAlignment = kPageBytes;
constexpr size_t kDirectBytes = 2 << 20;
constexpr uint64_t kTransferBytesMax = uint64_t{1} << 30;  // Linux's limit is just below 2 GiB

enum class Intent { kRead, kCreate };

ErrorCode code_of(int error, Intent intent) {
  switch (error) {
    case EACCES:
    case EPERM:
    case EROFS:
      return ErrorCode::kPermission;
    case ENOENT:
      return intent == Intent::kRead ? ErrorCode::kNoInput : ErrorCode::kCannotCreate;
    case ENOTDIR:
      return intent == Intent::kRead ? ErrorCode::kNoInput : ErrorCode::kCannotCreate;
    case EISDIR:
    case EEXIST:
    case ENAMETOOLONG:
    case ELOOP:
      return intent == Intent::kRead ? ErrorCode::kIo : ErrorCode::kCannotCreate;
    default:
      return ErrorCode::kIo;
  }
}

Error io_error(const char* operation, const std::string& path, int error, Intent intent) {
  Error result{code_of(error, intent),
               str(operation, " failed: ", std::generic_category().message(error)), path};
  if (error == ENOSPC || error == EDQUOT) result.hint = "free some space on that file system";
  if (result.code == ErrorCode::kPermission) result.hint = "check the owner and mode of the folder";
  return result;
}

std::string name_of(const std::string& path) { return path.substr(path.find_last_of('/') + 1); }

/// Reads exactly the bytes [offset, offset + bytes), which the caller has compared with the file's
/// size.
Result<Bytes> read_exactly(int fd, const std::string& path, uint64_t offset, uint64_t bytes) {
  std::shared_ptr<uint8_t[]> memory(new (std::nothrow) uint8_t[bytes == 0 ? 1 : bytes]);
  if (memory == nullptr)
    return Error{ErrorCode::kIo, str("not enough memory for ", bytes, " bytes of the file"), path,
                 "give the process more memory, or spread the job over more ps"};
  uint64_t done = 0;
  while (done < bytes) {
    const ssize_t n = ::pread(fd, memory.get() + done, std::min(bytes - done, kTransferBytesMax),
                              off_t(offset + done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return io_error("read", path, errno, Intent::kRead);
    if (n == 0) {
      return Error{ErrorCode::kBadData, str("the file ends at byte ", offset + done), path};
    }
    done += uint64_t(n);
  }
  const void* begin = memory.get();
  return Bytes(std::move(memory), begin, bytes);
}

Result<uint64_t> regular_bytes(int fd, const std::string& path) {
  struct stat status {};
  if (::fstat(fd, &status) != 0) return io_error("stat", path, errno, Intent::kRead);
  if (!S_ISREG(status.st_mode)) return Error{ErrorCode::kBadData, "not a regular file", path};
  return uint64_t(status.st_size);
}

int open_at(const Place& place, int flags) {
  constexpr mode_t kMode = 0666;
  return ::openat(place.fd(), place.name.c_str(), flags | place.no_follow(), kMode);
}

bool is_guarded_link(const Place& place) { return place.no_follow() != 0 && is_link(place); }

/// Returns the error for a file that could not be opened, or link_error() for a link.
Error at_error(const char* operation, const Place& place, const std::string& path, int error,
               Intent intent) {
  if (is_guarded_link(place)) return link_error(path);
  return io_error(operation, path, error, intent);
}

// O_NONBLOCK: opening a fifo must not block. It has no effect on regular files.
constexpr int kReadFlags = O_RDONLY | O_CLOEXEC | O_NONBLOCK;

}  // namespace

Result<void> Storage::write_file_atomic(const std::string& path, std::span<const uint8_t> bytes) {
  DP_TRY(const std::unique_ptr<OutputFile> file, create(path));
  DP_TRY_VOID(file->append(bytes));
  return file->commit();
}

/// Appends to a descriptor. If `temporary` is not empty, commit() renames that file to the name of
/// `place`. With gather(), the descriptor may bypass the page cache (O_DIRECT).
class PosixOutputFile final : public OutputFile {
 public:
  PosixOutputFile(PosixStorage& storage, int fd, Place place, std::string path,
                  std::string temporary)
      : storage_(storage),
        fd_(fd),
        place_(std::move(place)),
        path_(std::move(path)),
        temporary_(std::move(temporary)) {}

  /// From now on, gathers bytes in aligned memory and writes them in large pieces. `direct`: the
  /// descriptor has O_DIRECT.
  void gather(bool direct) {
    direct_ = direct;
    gathered_.reset(static_cast<uint8_t*>(std::aligned_alloc(kDirectAlignment, kDirectBytes)));
    DP_CHECK(gathered_ != nullptr, "out of memory for a file's buffer");
  }

  ~PosixOutputFile() override {
    if (!temporary_.empty() &&
        storage_.fault("remove", str(folder_of(path_), "/", temporary_)) == 0) {
      const Place named = place_.sibling(temporary_);
      ::unlinkat(named.fd(), named.name.c_str(), 0);
    }
  }

  Result<void> append(std::span<const uint8_t> bytes) override {
    DP_TRY_VOID(usable());
    while (gathered_ != nullptr && !bytes.empty()) {
      if (const size_t whole = writable_in_place(bytes); whole > 0) {
        if (gathered_bytes_ > 0) DP_TRY_VOID(write_gathered(gathered_bytes_));
        DP_TRY_VOID(write(bytes.first(whole)));
        bytes = bytes.subspan(whole);
        continue;
      }
      const size_t here = std::min(bytes.size(), kDirectBytes - gathered_bytes_);
      std::memcpy(gathered_.get() + gathered_bytes_, bytes.data(), here);
      bytes = bytes.subspan(here);
      gathered_bytes_ += here;
      if (gathered_bytes_ == kDirectBytes) DP_TRY_VOID(write_gathered(kDirectBytes));
    }
    DP_TRY_VOID(write(bytes));
    begin_writeback();
    return {};
  }

  Result<void> commit() override {
    DP_TRY_VOID(write_rest());
    DP_TRY_VOID(sync());
    if (temporary_.empty()) return {};
    DP_TRY_VOID(take_name());
    return storage_.sync_folder_of(place_, path_);
  }

  Result<void> commit_volatile() override {
    DP_TRY_VOID(usable());
    DP_TRY_VOID(write_rest());
    return temporary_.empty() ? Result<void>{} : take_name();
  }

  /// Gives the file its name. It can't be appended to afterwards.
  Result<void> take_name() {
    int error = storage_.fault("rename", path_);
    const Place from = place_.sibling(temporary_);
    if (error == 0 &&
        ::renameat(from.fd(), from.name.c_str(), place_.fd(), place_.name.c_str()) != 0)
      error = errno;
    if (error != 0) return fail("rename", error);
    temporary_.clear();
    failed_ = true;  // rejects further calls
    return {};
  }

  /// Gives the file its name, or returns false if the name exists already. Uses link(2), because
  /// rename(2) would replace the existing file.
  Result<bool> commit_exclusive() {
    DP_TRY_VOID(sync());
    failed_ = true;  // rejects further calls, with or without an error
    int error = storage_.fault("link", path_);
    const Place from = place_.sibling(temporary_);
    if (error == 0 &&
        ::linkat(from.fd(), from.name.c_str(), place_.fd(), place_.name.c_str(), 0) != 0)
      error = errno;
    if (error == EEXIST) return false;
    if (error != 0) return io_error("link", path_, error, Intent::kCreate);
    DP_TRY_VOID(storage_.sync_folder_of(place_, path_));
    return true;  // the destructor unlinks the other name
  }

 private:
  Result<void> usable() const {
    if (!failed_) return {};
    return Error{ErrorCode::kIo, "the file is closed, or an earlier write to it failed", path_};
  }
  Result<void> write(std::span<const uint8_t> bytes) {
    while (!bytes.empty()) {
      if (const int error = storage_.fault("write", path_); error != 0) return fail("write", error);
      const ssize_t n =
          ::write(fd_.get(), bytes.data(), std::min<uint64_t>(bytes.size(), kTransferBytesMax));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0 && errno == EINVAL && leave_direct()) continue;
      if (n < 0) return fail("write", errno);
      bytes = bytes.subspan(size_t(n));
      written_ += n;
      // The remaining bytes are no longer aligned.
      if (size_t(n) % kDirectAlignment != 0 && !bytes.empty()) leave_direct();
    }
    return {};
  }
  /// Returns how many bytes can be written without gathering: whole blocks that are aligned in
  /// memory and in the file; 0 for few bytes.
  size_t writable_in_place(std::span<const uint8_t> bytes) const {
    const bool aligned = std::bit_cast<uintptr_t>(bytes.data()) % kDirectAlignment == 0;
    if (gathered_bytes_ % kDirectAlignment != 0 || !aligned || bytes.size() < kPagedBytesMin)
      return 0;
    return bytes.size() / kDirectAlignment * kDirectAlignment;
  }
  Result<void> write_gathered(size_t bytes) {
    gathered_bytes_ = 0;
    return write({gathered_.get(), bytes});
  }
  /// Writes the gathered bytes, padded with zeros to whole blocks, and then truncates the file to
  /// its size.
  Result<void> write_rest() {
    if (gathered_bytes_ == 0) return {};
    const size_t rest = gathered_bytes_;
    const size_t padded = (rest + kDirectAlignment - 1) / kDirectAlignment * kDirectAlignment;
    std::memset(gathered_.get() + rest, 0, padded - rest);
    DP_TRY_VOID(write_gathered(padded));
    written_ -= off_t(padded - rest);
    int error = storage_.fault("write", path_);
    if (error == 0 && ::ftruncate(fd_.get(), written_) != 0) error = errno;
    return error == 0 ? Result<void>{} : fail("truncate", error);
  }
  /// Removes O_DIRECT from the descriptor, because some file systems open files with it but reject
  /// the writes. Returns false if the descriptor does not have O_DIRECT or if it can't be removed.
  bool leave_direct() {
    if (!std::exchange(direct_, false)) return false;
    const int flags = ::fcntl(fd_.get(), F_GETFL);
    return flags >= 0 && ::fcntl(fd_.get(), F_SETFL, flags & ~O_DIRECT) == 0;
  }
  Result<void> sync() {
    DP_TRY_VOID(usable());
    int error = storage_.fault("fsync", path_);
    if (error == 0 && ::fsync(fd_.get()) != 0) error = errno;
    return error == 0 ? Result<void>{} : fail("fsync", error);
  }
  Error fail(const char* operation, int error) {
    failed_ = true;
    return io_error(operation, path_, error, Intent::kCreate);
  }

  /// Starts to write a large file to the disk early, because fsync would otherwise have to write
  /// all of it. Only a hint; fsync reports any error.
  void begin_writeback() {
    if (temporary_.empty() || direct_ || written_ - writeback_ < kWritebackBytes) return;
    (void)::sync_file_range(fd_.get(), writeback_, written_ - writeback_, SYNC_FILE_RANGE_WRITE);
    writeback_ = written_;
  }

  PosixStorage& storage_;
  Descriptor fd_;
  off_t written_ = 0, writeback_ = 0;
  struct Free {
    void operator()(uint8_t* memory) const { std::free(memory); }
  };
  std::unique_ptr<uint8_t[], Free> gathered_;
  size_t gathered_bytes_ = 0;
  bool direct_ = false;
  Place place_;
  std::string path_;       // for messages
  std::string temporary_;  // name in the same folder; empty if the file has its final name
  bool failed_ = false;
};

Result<Bytes> PosixStorage::read_file(const std::string& path, uint64_t bytes_max) {
  DP_TRY(const Place at, place(path, ErrorCode::kNoInput));
  const Descriptor fd(open_at(at, kReadFlags));
  if (fd.get() < 0) return at_error("open", at, path, errno, Intent::kRead);
  DP_TRY(const uint64_t bytes, regular_bytes(fd.get(), path));
  if (bytes > bytes_max) {
    return Error{ErrorCode::kBadData, str(bytes, " bytes is more than the ", bytes_max, " allowed"),
                 path};
  }
  return read_exactly(fd.get(), path, 0, bytes);
}

Result<Bytes> PosixStorage::read_range(const std::string& path, uint64_t offset, uint64_t bytes) {
  DP_TRY(const Place at, place(path, ErrorCode::kNoInput));
  const Descriptor fd(open_at(at, kReadFlags));
  if (fd.get() < 0) return at_error("open", at, path, errno, Intent::kRead);
  DP_TRY(const uint64_t size, regular_bytes(fd.get(), path));
  if (offset > size || bytes > size - offset) {
    return Error{ErrorCode::kBadData,
                 str("the file ends at byte ", size, ", but the reader needs ", bytes,
                     " bytes from byte ", offset),
                 path};
  }
  return read_exactly(fd.get(), path, offset, bytes);
}

Result<uint64_t> PosixStorage::file_bytes(const std::string& path) {
  DP_TRY(const Place at, place(path, ErrorCode::kNoInput));
  const Descriptor fd(open_at(at, kReadFlags));
  if (fd.get() < 0) return at_error("open", at, path, errno, Intent::kRead);
  return regular_bytes(fd.get(), path);
}

Result<bool> PosixStorage::exists(const std::string& path) {
  struct stat status {};
  return look(path, &status);
}

Result<bool> PosixStorage::look(const std::string& path, struct ::stat* status) const {
  auto at = place(path, ErrorCode::kNoInput);
  if (!at && at.error().code == ErrorCode::kNoInput) return false;
  if (!at) return std::move(at).error();
  const int flags = at->no_follow() != 0 ? AT_SYMLINK_NOFOLLOW : 0;
  if (::fstatat(at->fd(), at->name.c_str(), status, flags) == 0) {
    if (S_ISLNK(status->st_mode)) return link_error(path);
    return true;
  }
  if (errno == ENOENT || errno == ENOTDIR) return false;
  return io_error("stat", path, errno, Intent::kRead);
}

Result<std::vector<std::string>> PosixStorage::list(const std::string& folder) {
  DP_TRY(const Place at, place(folder, ErrorCode::kNoInput));
  Descriptor fd(open_at(at, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (fd.get() < 0) return at_error("open folder", at, folder, errno, Intent::kRead);
  const auto close = [](DIR* d) { ::closedir(d); };
  const std::unique_ptr<DIR, decltype(close)> directory(::fdopendir(fd.get()), close);
  if (directory == nullptr) return io_error("open folder", folder, errno, Intent::kRead);
  (void)fd.release();  // closedir() closes it
  std::vector<std::string> names;
  while (true) {
    errno = 0;
    const dirent* entry = ::readdir(directory.get());
    if (entry == nullptr) break;
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  if (errno != 0) return io_error("read folder", folder, errno, Intent::kRead);
  std::sort(names.begin(), names.end());
  return names;
}

// An NFS client caches the content of a folder until the folder's times change. Setting the times
// sends a request to the server, which also works on a full disk.
void PosixStorage::refresh(const std::string& folder) {
  const auto at = place(folder, ErrorCode::kNoInput);
  if (!at) return;
  const Descriptor fd(open_at(*at, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (fd.get() >= 0) (void)::futimens(fd.get(), nullptr);
}

Result<int> PosixStorage::open_new(const Place& place, const std::string& path, int* more_flags,
                                   std::string* temporary) {
  static std::atomic<uint64_t> counter{0};  // NOLINT: only makes names differ
  if (const int error = fault("open", path); error != 0) {
    return io_error("create", path, error, Intent::kCreate);
  }
  if (is_guarded_link(place)) return link_error(path);
  for (int attempt = 0; attempt < kTemporaryNamesMax; ++attempt) {
    *temporary = str(".", name_of(path), ".tmp-", ::getpid(), "-", ++counter);
    const Place named = place.sibling(*temporary);
    const int flags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC;
    const int more = more_flags == nullptr ? 0 : *more_flags;
    const int fd = open_at(named, flags | more);
    if (fd >= 0) return fd;
    if (errno == EINVAL && more != 0) {  // flags rejected, but the file may have been created
      ::unlinkat(named.fd(), named.name.c_str(), 0);
      *more_flags = 0;
      continue;
    }
    if (errno != EEXIST) return io_error("create", path, errno, Intent::kCreate);
  }
  return io_error("create", path, EEXIST, Intent::kCreate);
}

Result<std::unique_ptr<OutputFile>> PosixStorage::create(const std::string& path) {
  std::string temporary;
  DP_TRY(Place at, place(path));
  DP_TRY(const int fd, open_new(at, path, nullptr, &temporary));
  return std::unique_ptr<OutputFile>(
      new PosixOutputFile(*this, fd, std::move(at), path, std::move(temporary)));
}

Result<std::unique_ptr<OutputFile>> PosixStorage::create_large(const std::string& path) {
  std::string temporary;
  int flags = O_DIRECT;
  DP_TRY(Place at, place(path));
  DP_TRY(const int fd, open_new(at, path, &flags, &temporary));
  auto file =
      std::make_unique<PosixOutputFile>(*this, fd, std::move(at), path, std::move(temporary));
  file->gather(flags != 0);
  return std::unique_ptr<OutputFile>(std::move(file));
}

Result<bool> PosixStorage::create_exclusive(const std::string& path,
                                            std::span<const uint8_t> bytes) {
  DP_TRY(const bool taken, exists(path));
  if (taken) return false;
  std::string temporary;
  DP_TRY(Place at, place(path));
  DP_TRY(const int fd, open_new(at, path, nullptr, &temporary));
  PosixOutputFile file(*this, fd, std::move(at), path, std::move(temporary));
  DP_TRY_VOID(file.append(bytes));
  return file.commit_exclusive();
}

Result<std::unique_ptr<OutputFile>> PosixStorage::open_append(const std::string& path) {
  DP_TRY(const bool existed, exists(path));
  if (const int error = fault("open", path); error != 0)
    return io_error("open", path, error, Intent::kCreate);
  DP_TRY(Place at, place(path));
  const int fd = open_at(at, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC);
  if (fd < 0) return at_error("open", at, path, errno, Intent::kCreate);
  auto file = std::make_unique<PosixOutputFile>(*this, fd, at, path, std::string());
  if (!existed) DP_TRY_VOID(sync_folder_of(at, path));
  return std::unique_ptr<OutputFile>(std::move(file));
}

Result<void> PosixStorage::make_dirs(const std::string& folder) {
  const std::string trimmed = folder.substr(0, folder.find_last_not_of('/') + 1);
  struct stat status {};
  DP_TRY(const bool there, look(trimmed.empty() ? folder : trimmed, &status));
  if (there) {
    if (S_ISDIR(status.st_mode)) return {};
    return io_error("make folder", folder, ENOTDIR, Intent::kCreate);
  }
  const std::string parent = folder_of(trimmed);
  if (parent != trimmed) {
    DP_TRY(const bool has_parent, look(parent, &status));
    if (!has_parent) DP_TRY_VOID(make_dirs(parent));
    if (has_parent && !S_ISDIR(status.st_mode))
      return io_error("make folder", folder, ENOTDIR, Intent::kCreate);
  }
  int error = fault("mkdir", folder);
  if (error != 0) return io_error("make folder", folder, error, Intent::kCreate);
  DP_TRY(const Place at, place(trimmed));
  if (::mkdirat(at.fd(), at.name.c_str(), 0777) != 0) error = errno;
  if (error == EEXIST)
    return is_guarded_link(at) ? link_error(trimmed) : Result<void>{};  // created in the meantime
  if (error != 0) return io_error("make folder", folder, error, Intent::kCreate);
  return sync_folder_of(at, trimmed);
}

Result<void> PosixStorage::remove(const std::string& path) {
  if (const int error = fault("remove", path); error != 0)
    return io_error("remove", path, error, Intent::kCreate);
  auto at = place(path, ErrorCode::kNoInput);
  if (!at && at.error().code == ErrorCode::kNoInput) return {};
  if (!at) return std::move(at).error();
  int error = ::unlinkat(at->fd(), at->name.c_str(), 0) == 0 ? 0 : errno;
  if (error == EISDIR)
    error = ::unlinkat(at->fd(), at->name.c_str(), AT_REMOVEDIR) == 0 ? 0 : errno;
  if (error == 0 || error == ENOENT || error == ENOTDIR) return {};
  return io_error("remove", path, error, Intent::kCreate);
}

void PosixStorage::guard(const std::string& folder) {
  std::string trimmed = folder.substr(0, folder.find_last_not_of('/') + 1);
  const std::lock_guard lock(guard_mutex_);
  if (std::find(guarded_.begin(), guarded_.end(), trimmed) == guarded_.end())
    guarded_.push_back(std::move(trimmed));
}

Result<Place> PosixStorage::place(const std::string& path, ErrorCode missing) const {
  std::string root;
  bool found = false;
  {
    const std::lock_guard lock(guard_mutex_);
    for (const std::string& folder : guarded_) {
      const bool below =
          path.size() > folder.size() + 1 && path.starts_with(folder) && path[folder.size()] == '/';
      if (!below || (found && folder.size() >= root.size())) continue;
      found = true;
      root = folder;
    }
  }
  if (!found) return Place{nullptr, path};
  auto at = place_beneath(root, path);
  if (!at && at.error().code == ErrorCode::kNoInput) at.error().code = missing;
  return at;
}

Result<void> PosixStorage::sync_folder_of(const Place& file, const std::string& path) {
  const std::string folder = folder_of(path);
  int error = fault("fsync", folder);
  if (error != 0) return io_error("fsync", folder, error, Intent::kCreate);
  const std::string name = file.folder != nullptr ? "." : folder;
  const Descriptor fd(::openat(file.fd(), name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (fd.get() < 0) return io_error("open folder", folder, errno, Intent::kCreate);
  // EINVAL: some network file systems have no fsync of folders, because they make names durable
  // themselves.
  if (::fsync(fd.get()) != 0 && errno != EINVAL)
    return io_error("fsync", folder, errno, Intent::kCreate);
  return {};
}

}  // namespace downpour
