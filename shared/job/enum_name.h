// Names in job files: EnumName, a value and its name; names_or_none(), the names in a table.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>
#include <utility>

namespace downpour {

template <typename E>
using EnumName = std::pair<std::string_view, E>;

/// Returns the names of all entries of a table, and "" for none of them.
template <typename Entry, size_t N>
constexpr std::array<const char*, N + 1> names_or_none(const std::array<Entry, N>& table) {
  std::array<const char*, N + 1> names{};
  for (size_t i = 0; i < N; ++i) names[i] = table[i].name;
  names[N] = "";
  return names;
}

}  // namespace downpour
