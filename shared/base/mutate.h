// Mutants: deliberately broken variants of the code, to see that the simulator catches each. They
// exist only in builds with -DDP_MUTANT=ON, where the environment variable DP_MUTANT_NAME chooses
// one; otherwise every point is `false` and nothing of it is left. tools/mutants has the list.
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

/// What a mutant remembers that the code does not: true the first time that it is told of `what`.
inline bool mutant_sees_first(std::vector<uint64_t> what) {
  static std::set<std::vector<uint64_t>> seen;  // NOLINT: in builds of mutants only
  return seen.insert(std::move(what)).second;
}

}  // namespace downpour

/// True where this mutant was chosen: `if (DP_MUTATE("gap-ignored")) ...`.
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
