#include "shared/env/beneath.h"

#include <cerrno>
#include <fcntl.h>
#include <string_view>
#include <sys/stat.h>

#include "shared/base/check.h"
#include "shared/base/str.h"
#include "shared/env/io_error.h"

namespace downpour {
std::string folder_of(const std::string& path) {
  const size_t slash = path.find_last_of('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

int Place::fd() const { return folder == nullptr ? AT_FDCWD : folder->get(); }

int Place::no_follow() const { return folder == nullptr ? 0 : O_NOFOLLOW; }

Place Place::sibling(const std::string& other) const {
  return {folder, folder != nullptr ? other : str(folder_of(name), "/", other)};
}

bool is_link(const Place& place) {
  struct stat status {};
  return ::fstatat(place.fd(), place.name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0 &&
         S_ISLNK(status.st_mode);
}

Error link_error(const std::string& path) {
  return {
      ErrorCode::kPermission,
      "the path is a symbolic link, and Downpour does not follow links in a run folder", path,
      "remove the link; to keep a run on another disk, make run_dir itself a link, or mount the "
      "disk there",
      "DP-2721"};
}

Result<Place> place_beneath(const std::string& root, const std::string& path) {
  DP_CHECK(path.size() > root.size() && path.starts_with(root) && path[root.size()] == '/', path);
  constexpr int kFolderFlags = O_PATH | O_DIRECTORY | O_CLOEXEC;
  auto folder =
      std::make_shared<Descriptor>(::open(root.empty() ? "/" : root.c_str(), kFolderFlags));
  if (folder->get() < 0) return io_error("open", root, errno, Intent::kRead);
  std::string_view rest = std::string_view(path).substr(root.size() + 1);
  for (;;) {
    const size_t slash = std::min(rest.find('/'), rest.size());
    const std::string name(rest.substr(0, slash));
    const bool last = slash >= rest.size();
    rest.remove_prefix(last ? rest.size() : slash + 1);
    if (name == "..") {
      return Error{ErrorCode::kPermission, "the path leaves the run folder through \"..\"", path,
                   "use a path without \"..\"", "DP-2721"};
    }
    if (last) return Place{folder, name.empty() ? "." : name};
    if (name.empty() || name == ".") continue;
    auto next = std::make_shared<Descriptor>(
        ::openat(folder->get(), name.c_str(), kFolderFlags | O_NOFOLLOW));
    if (next->get() < 0) {
      const int error = errno;
      const std::string here = path.substr(0, path.size() - rest.size() - (last ? 0 : 1));
      if (is_link({folder, name})) return link_error(here);
      return io_error("open", here, error, Intent::kRead);
    }
    folder = std::move(next);
  }
}

Result<int> open_beneath(const std::string& root, const std::string& path, int flags, mode_t mode) {
  DP_TRY(const Place place, place_beneath(root, path));
  const int fd = ::openat(place.fd(), place.name.c_str(), flags | O_NOFOLLOW | O_CLOEXEC, mode);
  if (fd >= 0) return fd;
  const int error = errno;
  if (is_link(place)) return link_error(path);
  return io_error("open", path, error, (flags & O_CREAT) != 0 ? Intent::kCreate : Intent::kRead);
}

}  // namespace downpour
