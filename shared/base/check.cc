#include "shared/base/check.h"

#include <cstdio>
#include <cstdlib>

namespace downpour {

void check_failed(const char* file, int line, const char* condition, const std::string& values) {
  std::fprintf(stderr, "bug: %s:%d: %s does not hold:%s\n", file, line, condition, values.c_str());
  std::fflush(stderr);
  std::abort();
}

}  // namespace downpour
