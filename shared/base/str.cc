#include "shared/base/str.h"

#include <charconv>

namespace downpour {
namespace {

/// `how`: further arguments of std::to_chars(). No number is longer than the buffer.
template <typename Number, typename... How>
void append_chars(std::string& out, Number value, How... how) {
  char text[32];
  out.append(text, std::to_chars(text, text + sizeof(text), value, how...).ptr);
}

}  // namespace

void append_number(std::string& out, int64_t value) { append_chars(out, value); }

void append_number(std::string& out, uint64_t value) { append_chars(out, value); }

void append_number(std::string& out, double value) {
  constexpr int kStreamDigits = 6;  // of a stream with default format
  append_chars(out, value, std::chars_format::general, kStreamDigits);
}

std::string hex(uint64_t value) {
  constexpr int kBase = 16;
  std::string out;
  append_chars(out, value, kBase);
  return out;
}

}  // namespace downpour
