// Beneath: opens the paths below one folder without following a symbolic link.
#pragma once

#include <memory>
#include <string>
#include <sys/types.h>
#include <utility>

#include "shared/base/result.h"

namespace downpour {

/// The folder that a path lies in: "." without one.
std::string folder_of(const std::string& path);

/// A descriptor that is closed when it goes.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor();
  int get() const { return fd_; }
  /// The caller closes it.
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

/// Where a path lies: what the system calls of the ...at() family take.
struct Place {
  std::shared_ptr<const Descriptor>
      folder;        // null: the path is used as given, and links are followed
  std::string name;  // in the folder; without one the whole path

  int fd() const;
  /// O_NOFOLLOW for open flags, or 0.
  int no_follow() const;
  /// Another name in the same folder.
  Place sibling(const std::string& other) const;
};

/// The place of `path`, which lies below `root`: it starts with `root` and a slash. `root` may be
/// reached through links; each folder between `root` and the path's last name is opened without
/// following one. errno where a folder can't be opened. Errors: kPermission where a link or ".." is
/// in the way; kNoInput where a folder is missing; kIo.
Result<Place> place_beneath(const std::string& root, const std::string& path);

/// Opens `path` below `root` without following any link. Errors: as place_beneath, kCannotCreate.
Result<int> open_beneath(const std::string& root, const std::string& path, int flags,
                         mode_t mode = 0);

/// Whether the place itself is a symbolic link.
bool is_link(const Place& place);
/// What is reported of a link: names it and says what to do.
Error link_error(const std::string& path);

}  // namespace downpour
