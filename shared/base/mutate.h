// Mutants: deliberately broken variants of the code, to see that the simulator catches each. They
// exist only in builds with -DDP_MUTANT=ON, where the environment variable DP_MUTANT_NAME chooses
// one; otherwise every point is `false` and nothing of it is left. tools/mutants has the list.
#pragma once

#ifdef DP_MUTANT
#include <cstdlib>
#include <string_view>

namespace downpour {

inline bool mutant_chosen(std::string_view name) {
  const char* chosen = std::getenv("DP_MUTANT_NAME");
  return chosen != nullptr && name == chosen;
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
#endif
