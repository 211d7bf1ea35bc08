#include "shared/env/lock_probe.h"

#include <fstream>
#include <sstream>
#include <sys/stat.h>

#include "shared/base/str.h"

namespace downpour {

bool is_locked(const std::string& path) {
  struct stat file {};
  if (lstat(path.c_str(), &file) != 0) return false;
  // A line of /proc/locks: "1: FLOCK  ADVISORY  WRITE 4711 fd:01:1234 0 EOF". The device is not
  // compared, because file systems such as overlayfs and btrfs report another one there.
  const std::string inode = str(":", uint64_t(file.st_ino));
  std::ifstream locks("/proc/locks");
  for (std::string line; std::getline(locks, line);) {
    std::istringstream words(line);
    std::string number, type, kind, access, process, place;
    words >> number >> type >> kind >> access >> process >> place;
    if (type == "FLOCK" && access == "WRITE" && place.ends_with(inode)) return true;
  }
  return false;
}

}  // namespace downpour
