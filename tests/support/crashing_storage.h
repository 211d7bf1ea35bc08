// CrashingStorage: a disk that fails from a given operation on.
#pragma once

#include <cerrno>
#include <string>

#include "shared/env/storage.h"

namespace downpour::testing {

/// Fails every operation from number `crash_at` on, as if the process had been killed there.
/// Operations are numbered from 1.
class CrashingStorage final : public PosixStorage {
 public:
  explicit CrashingStorage(int crash_at) : crash_at_(crash_at) {}
  int fault(const char*, const std::string&) override { return ++count >= crash_at_ ? EIO : 0; }
  int count = 0;

 private:
  int crash_at_;
};

}  // namespace downpour::testing
