// number_text: numbers as text without loss.
#pragma once

#include <charconv>
#include <string>

namespace downpour {

/// Returns the shortest text that reads back as the same number.
template <typename T>
std::string number_text(T value) {
  char buffer[64];
  return {buffer, std::to_chars(buffer, buffer + sizeof buffer, value).ptr};
}

}  // namespace downpour
