// The archive of the C++ library calls arc4random(), which glibc has since 2.36 only. This
// definition takes its place, so that the library runs with older versions.
#include <cstdint>
#include <cstdlib>
#include <sys/random.h>

extern "C" uint32_t arc4random() {
  uint32_t random = 0;
  if (getrandom(&random, sizeof random, 0) != sizeof random) std::abort();
  return random;
}
