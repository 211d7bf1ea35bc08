#include "shared/transport/credit.h"

#include <cerrno>
#include <sys/eventfd.h>
#include <unistd.h>

namespace downpour::transport {

Waker::Waker() : fd_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) { DP_CHECK(fd() >= 0, errno); }

void Waker::wake() {
  if (pending_.exchange(true)) return;
  const uint64_t one = 1;
  const auto written = ::write(fd(), &one, sizeof(one));
  DP_CHECK(written == ssize_t{sizeof(one)}, errno);  // cannot fail, because the counter is 0 or 1
}

void Waker::clear() {
  uint64_t count = 0;
  const auto got = ::read(fd(), &count, sizeof(count));
  (void)got;  // EAGAIN: another thread has read already
  // This must come last. Work announced before this line is found by the caller, which looks for
  // work next. A wake() after this line writes to the eventfd again.
  pending_.exchange(false);
}

}  // namespace downpour::transport
