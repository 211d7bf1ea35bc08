// DP_CHECK: stops the process on a programmer error, in release builds too. Do not use it for
// conditions that a peer or a file controls.
#pragma once

#include <string>

#include "shared/base/str.h"

namespace downpour {

[[noreturn]] void check_failed(const char* file, int line, const char* condition,
                               const std::string& values);

template <typename... Values>
std::string check_values(const Values&... values) {
  std::ostringstream out;
  ((out << ' ' << values), ...);
  return std::move(out).str();
}

}  // namespace downpour

#define DP_CHECK(condition, ...)                                       \
  do {                                                                 \
    if (!(condition)) [[unlikely]] {                                   \
      ::downpour::check_failed(__FILE__, __LINE__, #condition,         \
                               ::downpour::check_values(__VA_ARGS__)); \
    }                                                                  \
  } while (false)

#ifdef NDEBUG
#define DP_DCHECK(condition, ...) \
  do {                            \
  } while (false)
#else
#define DP_DCHECK(condition, ...) DP_CHECK(condition, ##__VA_ARGS__)
#endif
