// str(a, b, ...): concatenates anything that a stream can print.
#pragma once

#include <sstream>
#include <string>
#include <string_view>

namespace downpour {

/// Concatenates by operator<<. For messages, not for the hot path.
template <typename... Parts>
std::string str(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return std::move(out).str();
}

}  // namespace downpour
