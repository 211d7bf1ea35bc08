// is_locked: whether a process holds a FileLock, without taking it.
#pragma once

#include <string>

namespace downpour {

/// Returns true if a process of this machine holds the lock on the file. Does not touch the lock,
/// so a process that takes it at the same time succeeds. False if the file does not exist, if
/// another machine holds the lock, or if the system does not list its locks.
bool is_locked(const std::string& path);

}  // namespace downpour
