// nearest_name: "did you mean" for keys, choices and names.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "shared/base/edit_distance.h"

namespace downpour {

/// Returns the name that `word` most likely means. Returns an empty string if no name is near (more
/// than a third of the word differs) and no name is a prefix of the word or the reverse.
inline std::string nearest_name(std::string_view word, const std::vector<std::string>& names) {
  constexpr size_t kWordMax = 64;  // a longer word is not a typing error
  if (word.size() > kWordMax) return {};
  std::string best;
  size_t best_distance = std::max<size_t>(1, std::min<size_t>(3, word.size() / 3)) + 1;
  for (const std::string& name : names) {
    const size_t distance = name.size() > kWordMax ? kWordMax : edit_distance(word, name);
    if (distance < best_distance) best = name, best_distance = distance;
  }
  if (!best.empty() || word.size() < 3) return best;
  for (const std::string& name : names) {
    if (name.starts_with(word) || word.starts_with(name)) return name;
  }
  return {};
}

}  // namespace downpour
