// The texts of the values of an enum, in a table.
#pragma once

#include <cstddef>

namespace downpour {

/// Returns the text of `value`: texts[i] for the value i, and `other` for a value without a text.
/// The table must end with the text of `last`, so a value that is added before it does not compile.
template <auto last, size_t N>
constexpr const char* enum_text(decltype(last) value, const char* const (&texts)[N],
                                const char* other = "") {
  static_assert(N == size_t(last) + 1, "a text is missing");
  return size_t(value) < N ? texts[size_t(value)] : other;
}

}  // namespace downpour
