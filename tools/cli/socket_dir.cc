#include "tools/cli/socket_dir.h"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <filesystem>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include <utility>

#include "shared/base/descriptor.h"
#include "shared/base/str.h"

namespace downpour::tools {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "downpour-";
constexpr size_t kRandomBytes = 6;          // chosen by mkdtemp()
constexpr size_t kSocketNameBytesMax = 28;  // "ps-4294967295.4294967295-255"
constexpr size_t kParentBytesMax = sizeof(sockaddr_un{}.sun_path) - 1 - 1 - kPrefix.size() -
                                   kRandomBytes - 1 - kSocketNameBytesMax;
constexpr int kAttemptsMax = 16;
constexpr const char* kLockName = "lock";

bool is_socket_dir_name(std::string_view name) {
  if (!name.starts_with(kPrefix) || name.size() != kPrefix.size() + kRandomBytes) return false;
  const std::string_view random = name.substr(kPrefix.size());
  return std::all_of(random.begin(), random.end(), [](unsigned char c) { return std::isalnum(c); });
}

std::vector<std::string> names_in(int folder) {
  std::vector<std::string> names;
  DIR* entries = fdopendir(dup(folder));
  if (entries == nullptr) return names;
  rewinddir(entries);  // the duplicate shares its position with `folder`
  while (const dirent* entry = readdir(entries)) names.emplace_back(entry->d_name);
  closedir(entries);
  return names;
}

/// Removes the sockets first and the lock last, so that the folder stays recognizable until it is
/// empty.
void remove_contents(int folder) {
  for (const std::string& name : names_in(folder)) {
    struct stat found {};
    const bool known = fstatat(folder, name.c_str(), &found, AT_SYMLINK_NOFOLLOW) == 0;
    if (known && S_ISSOCK(found.st_mode)) unlinkat(folder, name.c_str(), 0);
  }
  unlinkat(folder, kLockName, 0);
}

void remove_if_stale(int parent, const std::string& name) {
  const Descriptor folder(
      openat(parent, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat found {};
  if (folder.get() < 0 || fstat(folder.get(), &found) != 0 || found.st_uid != geteuid()) return;
  const Descriptor lock(openat(folder.get(), kLockName, O_RDWR | O_NOFOLLOW | O_CLOEXEC));
  if (lock.get() >= 0) {
    if (flock(lock.get(), LOCK_EX | LOCK_NB) != 0) return;  // the owner is running
    remove_contents(folder.get());
  }
  // This succeeds only if the folder is empty. A folder in use contains a lock.
  unlinkat(parent, name.c_str(), AT_REMOVEDIR);
}

}  // namespace

std::vector<std::string> socket_dir_parents() {
  std::vector<std::string> parents;
  const char* chosen = std::getenv("TMPDIR");
  std::error_code error;
  if (chosen != nullptr && *chosen != '\0')
    parents.push_back(fs::absolute(chosen, error).lexically_normal().string());
  if (!parents.empty() && parents[0].size() > 1 && parents[0].ends_with('/')) parents[0].pop_back();
  if (parents.empty() || parents[0] != "/tmp") parents.emplace_back("/tmp");
  return parents;
}

void remove_stale_socket_dirs(const std::string& parent) {
  const Descriptor folder(open(parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder.get() < 0) return;
  for (const std::string& name : names_in(folder.get())) {
    if (is_socket_dir_name(name)) remove_if_stale(folder.get(), name);
  }
}

/// Makes the folder. Until its lock is held, another job that starts may remove it; then it tries
/// again.
Result<SocketDir> SocketDir::create_in(const std::string& parent) {
  Error last;
  for (int attempt = 0; attempt < kAttemptsMax; ++attempt) {
    std::string path = str(parent, "/", kPrefix, std::string(kRandomBytes, 'X'));
    if (mkdtemp(path.data()) == nullptr)
      return Error{ErrorCode::kCannotCreate, std::strerror(errno), parent};
    SocketDir made;
    made.path_ = path;
    auto lock = FileLock::take(str(path, "/", kLockName), str("pid ", getpid()));
    if (lock) {
      made.lock_ = std::move(*lock);
      return made;
    }
    last = std::move(lock).error();
    if (access(path.c_str(), F_OK) == 0 && last.code != ErrorCode::kUnavailable) break;
  }
  return last;
}

Result<SocketDir> SocketDir::create(const std::vector<std::string>& parents) {
  std::string reasons;
  for (const std::string& parent : parents) {
    if (parent.size() > kParentBytesMax) {
      reasons += str(reasons.empty() ? "" : "; ", parent, ": ", parent.size(),
                     " bytes; because of the limit for socket paths it may have at most ",
                     kParentBytesMax);
      continue;
    }
    remove_stale_socket_dirs(parent);
    auto made = create_in(parent);
    if (made) return made;
    reasons += str(reasons.empty() ? "" : "; ", parent, ": ", made.error().what);
  }
  return Error{ErrorCode::kCannotCreate,
               str("can't create a folder for the sockets of the local processes (", reasons, ")"),
               parents.empty() ? "" : parents.front(),
               str("set TMPDIR to a writable folder of at most ", kParentBytesMax,
                   " bytes, or use --transport tcp"),
               "DP-5003"};
}

SocketDir::~SocketDir() {
  if (path_.empty()) return;
  const Descriptor folder(open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (folder.get() >= 0) remove_contents(folder.get());
  rmdir(path_.c_str());
}

}  // namespace downpour::tools
