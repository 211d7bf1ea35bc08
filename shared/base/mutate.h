// Mutants: deliberately broken variants of the code, to test that the simulator detects each of
// them. They exist only in builds with -DDP_MUTANT=ON, where the environment variable
// DP_MUTANT_NAME chooses one. In other builds every DP_MUTATE is `false` and compiles to nothing.
// tools/mutants has the list.
#pragma once

#include <cstdint>
#include <initializer_list>

#ifdef DP_MUTANT
#include <cstdlib>
#include <set>
#include <string_view>
#include <vector>

namespace downpour {

inline bool mutant_chosen(std::string_view name) {
  const char* chosen = std::getenv("DP_MUTANT_NAME");
  return chosen != nullptr && name == chosen;
}

/// Memory of a mutant that the code itself does not need. Returns true at the first call with
/// `what`.
inline bool mutant_sees_first(std::vector<uint64_t> what) {
  static std::set<std::vector<uint64_t>> seen;  // NOLINT: in builds of mutants only
  return seen.insert(std::move(what)).second;
}

}  // namespace downpour

/// True if this mutant is chosen: `if (DP_MUTATE("gap-ignored")) ...`.
#define DP_MUTATE(name)                                         \
  ([] {                                                         \
    static const bool chosen = ::downpour::mutant_chosen(name); \
    return chosen;                                              \
  }())
#else
#define DP_MUTATE(name) false

namespace downpour {
inline bool mutant_sees_first(std::initializer_list<uint64_t>) { return false; }
}  // namespace downpour
#endif
