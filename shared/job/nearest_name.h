// nearest_name: "did you mean" for keys, choices and names.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace downpour {

/// Edits (insert, delete, replace, swap neighbours) between two words: optimal string alignment.
inline size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> before, last(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] != b[j - 1])});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    before = std::exchange(last, row);
  }
  return last[b.size()];
}

/// The name that `word` most likely meant; empty where none is near (more than a third of it
/// differs) and none begins with it.
inline std::string nearest_name(std::string_view word, const std::vector<std::string>& names) {
  constexpr size_t kWordMax = 64;  // a longer word is no typing error
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
