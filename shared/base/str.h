// str(a, b, ...): concatenates anything that a stream can print.
#pragma once

#include <concepts>
#include <cstdint>
#include <sstream>
#include <string>
#include <string_view>
#include <type_traits>

namespace downpour {

/// Each appends `value` to `out` as a stream with default format prints it.
void append_number(std::string& out, int64_t value);
void append_number(std::string& out, uint64_t value);
void append_number(std::string& out, double value);

/// Appends `part` to `out` as operator<< prints it. Texts and numbers need no stream, because
/// making one costs more than all else.
template <typename Part>
void append_part(std::string& out, const Part& part) {
  static_assert(!std::is_function_v<Part>, "a manipulator would change nothing: use hex()");
  if constexpr (std::is_convertible_v<const Part&, std::string_view>) {
    out.append(std::string_view(part));
  } else if constexpr (std::same_as<Part, char> || std::same_as<Part, signed char> ||
                       std::same_as<Part, unsigned char>) {
    out.push_back(char(part));
  } else if constexpr (std::signed_integral<Part>) {
    append_number(out, int64_t{part});
  } else if constexpr (std::unsigned_integral<Part>) {
    append_number(out, uint64_t{part});
  } else if constexpr (std::same_as<Part, float> || std::same_as<Part, double>) {
    append_number(out, double(part));
  } else {
    std::ostringstream stream;
    stream << part;
    out.append(stream.view());
  }
}

/// Returns the hexadecimal digits of `value`, without leading zeros.
std::string hex(uint64_t value);

/// Concatenates by append_part(). For messages, not for the hot path.
template <typename... Parts>
std::string str(const Parts&... parts) {
  std::string out;
  (append_part(out, parts), ...);
  return out;
}

}  // namespace downpour
