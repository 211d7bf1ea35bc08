// Checks of lists of names.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace downpour {

/// Returns the first name that occurs for the second time, or null if all names differ.
inline const std::string* first_repeated(const std::vector<std::string>& names) {
  std::set<std::string_view> seen;
  for (const std::string& name : names) {
    if (!seen.insert(name).second) return &name;
  }
  return nullptr;
}

}  // namespace downpour
