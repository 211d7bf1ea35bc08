#include <time.h>

#include "shared/base/check.h"
#include "shared/base/units.h"
#include "shared/env/clock.h"

namespace downpour {

int64_t PosixClock::now_ns() const {
  timespec now{};
  const int rc = ::clock_gettime(CLOCK_BOOTTIME, &now);
  DP_CHECK(rc == 0, rc);
  return int64_t(now.tv_sec) * kSecond + now.tv_nsec;
}

}  // namespace downpour
