#include <algorithm>
#include <atomic>
#include <cerrno>
#include <dirent.h>
#include <fcntl.h>
#include <new>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include "shared/env/beneath.h"
#include "shared/env/posix_output_file.h"
#include "shared/env/storage.h"

namespace downpour {
namespace {

// Maximum number of temporary names to try. Crashed processes with the same pid may have left
// files.
constexpr int kTemporaryNamesMax = 1000;

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
  const int fd = open_at(at, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC);
  if (fd < 0) return at_error("open", at, path, errno, Intent::kCreate);
  auto file = std::make_unique<PosixOutputFile>(*this, fd, at, path, std::string());
  if (!existed) DP_TRY_VOID(sync_folder_of(at, path));
  const off_t size = ::lseek(fd, 0, SEEK_END);
  char last = '\n';
  if (size > 0 && ::pread(fd, &last, 1, size - 1) == 1 && last != '\n')
    DP_TRY_VOID(file->append(as_bytes("\n")));
  return std::unique_ptr<OutputFile>(std::move(file));
}

Result<void> PosixStorage::make_dirs(const std::string& folder) {
  const std::string trimmed = folder.substr(0, folder.find_last_not_of('/') + 1);
  struct stat status {};
  DP_TRY(const bool there, look(trimmed.empty() ? folder : trimmed, &status));
  if (there) {
    if (S_ISDIR(status.st_mode)) return sync_names(trimmed);
    return io_error("make folder", folder, ENOTDIR, Intent::kCreate);
  }
  const std::string parent = folder_of(trimmed);
  if (parent != trimmed) {
    DP_TRY(const bool has_parent, look(parent, &status));
    if (has_parent && !S_ISDIR(status.st_mode))
      return io_error("make folder", folder, ENOTDIR, Intent::kCreate);
    DP_TRY_VOID(has_parent ? sync_names(parent) : make_dirs(parent));
  }
  int error = fault("mkdir", folder);
  if (error != 0) return io_error("make folder", folder, error, Intent::kCreate);
  DP_TRY(const Place at, place(trimmed));
  if (::mkdirat(at.fd(), at.name.c_str(), 0777) != 0) error = errno;
  if (error == EEXIST && is_guarded_link(at)) return link_error(trimmed);
  if (error != 0 && error != EEXIST)  // EEXIST: created in the meantime
    return io_error("make folder", folder, error, Intent::kCreate);
  DP_TRY_VOID(sync_folder_of(at, trimmed));
  const std::lock_guard lock(guard_mutex_);
  durable_.insert(trimmed);
  return {};
}

Result<void> PosixStorage::sync_names(const std::string& folder) {
  bool guarded = false;
  {
    const std::lock_guard lock(guard_mutex_);
    if (durable_.contains(folder)) return {};
    guarded = std::ranges::any_of(guarded_, [&](const std::string& root) {
      return folder == root || (folder.starts_with(root) && folder[root.size()] == '/');
    });
  }
  if (!guarded) return {};  // it belongs to the user
  DP_TRY_VOID(sync_names(folder_of(folder)));
  DP_TRY(const Place at, place(folder));
  DP_TRY_VOID(sync_folder_of(at, folder));
  const std::lock_guard lock(guard_mutex_);
  durable_.insert(folder);
  return {};
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
  {
    const std::lock_guard lock(guard_mutex_);
    durable_.erase(path);
  }
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
