// damage: random changes of a text, for the tests of parsers.
#pragma once

#include <string>

#include "shared/base/rng.h"

namespace downpour::testing {

/// Changes a byte of the text, which must not be empty, removes some, or repeats some elsewhere.
inline void damage(std::string& text, Rng& rng) {
  const size_t at = rng.below(text.size());
  switch (rng.below(3)) {
    case 0:
      text[at] = char(rng.below(256));
      break;
    case 1:
      text.erase(at, 1 + rng.below(8));
      break;
    default:
      text.insert(at, text.substr(rng.below(text.size()), 1 + rng.below(12)));
  }
}

}  // namespace downpour::testing
