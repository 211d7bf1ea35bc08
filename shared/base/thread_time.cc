#include "shared/base/thread_time.h"

#include <cstdio>
#include <fcntl.h>
#include <unistd.h>

namespace downpour {

ThreadTime::ThreadTime() : file_(::open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC)) {}

std::optional<ThreadTime::Sums> ThreadTime::so_far() const {
  char text[96] = {};
  long long ran_ns = 0, waited_ns = 0;
  if (::pread(file_.get(), text, sizeof text - 1, 0) <= 0) return {};  // also without the file
  if (std::sscanf(text, "%lld %lld", &ran_ns, &waited_ns) != 2) return {};
  return Sums{ran_ns, waited_ns};
}

}  // namespace downpour
