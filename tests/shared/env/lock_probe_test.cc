#include "shared/env/lock_probe.h"

#include <catch2/catch.hpp>

#include "shared/env/file_lock.h"
#include "tests/support/scratch_dir.h"

namespace downpour {
namespace {

TEST_CASE("a lock is seen while it is held, and seeing it does not take it", "[env]") {
  const testing::ScratchDir dir;
  const std::string path = dir / "lock";
  CHECK_FALSE(is_locked(path));
  {
    const auto lock = FileLock::take(path, "owner");
    REQUIRE(lock);
    CHECK(is_locked(path));
    CHECK_FALSE(is_locked(dir.write("other", "")));
  }
  CHECK_FALSE(is_locked(path));
  CHECK(FileLock::take(path, "next"));
}

}  // namespace
}  // namespace downpour
