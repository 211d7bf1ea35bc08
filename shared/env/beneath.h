// place_beneath(), open_beneath(): open paths below a folder without following symbolic links.
#pragma once

#include <memory>
#include <string>
#include <sys/types.h>

#include "shared/base/descriptor.h"
#include "shared/base/result.h"

namespace downpour {

/// Returns the folder of a path; "." if the path has no slash.
std::string folder_of(const std::string& path);

/// A path as the system calls of the ...at() family take it: a folder and a name in it.
struct Place {
  std::shared_ptr<const Descriptor>
      folder;        // null: the path is used as given, and links are followed
  std::string name;  // in the folder; the whole path if `folder` is null

  /// Returns the folder's descriptor, or AT_FDCWD.
  int fd() const;
  /// Returns the flag for open(): O_NOFOLLOW, or 0 if `folder` is null.
  int no_follow() const;
  /// Returns the place of another name in the same folder.
  Place sibling(const std::string& other) const;
};

/// Returns the place of `path`, which must start with `root` and a slash. Links may lead to `root`,
/// but each folder between `root` and the last name of the path is opened without following links.
/// Errors: kPermission if one of these folders is a link or may not be opened, or if the path
/// contains ".."; kNoInput if a folder is missing; kIo. If a folder can't be opened, the
/// error contains the text of errno.
Result<Place> place_beneath(const std::string& root, const std::string& path);

/// Opens `path` below `root` without following links. Returns the descriptor, which the caller must
/// close. Errors: those of place_beneath(); if the file itself can't be opened, those of
/// io_error(), with Intent::kCreate if `flags` has O_CREAT.
Result<int> open_beneath(const std::string& root, const std::string& path, int flags,
                         mode_t mode = 0);

/// Returns whether the place is a symbolic link.
bool is_link(const Place& place);
/// Returns the error for a path that is a link. It names the path and says what to do.
Error link_error(const std::string& path);

}  // namespace downpour
