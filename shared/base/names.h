// Names that must differ.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace downpour {

/// The first that stands there for the second time; null: each stands there once.
inline const std::string* first_repeated(const std::vector<std::string>& names) {
  std::set<std::string_view> seen;
  for (const std::string& name : names) {
    if (!seen.insert(name).second) return &name;
  }
  return nullptr;
}

}  // namespace downpour
