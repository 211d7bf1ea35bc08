// Chooses a mutant. The patches of this folder add mutants, which are deliberate bugs, to a copy of
// the sources. tools/mutants applies the patches, and lets the files that they change include this
// header. The environment variable DP_MUTANT names the mutant of a process.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

namespace downpour {

/// Returns whether the mutant `name` is chosen.
inline bool mutant(std::string_view name) {
  static const char* const chosen = std::getenv("DP_MUTANT");
  return chosen != nullptr && name == chosen;
}

/// Returns true at the first call with `what`. This is memory that only a mutant needs.
inline bool mutant_sees_first(std::vector<uint64_t> what) {
  static std::set<std::vector<uint64_t>> seen;
  return seen.insert(std::move(what)).second;
}

}  // namespace downpour
