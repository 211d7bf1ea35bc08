// Mutations of bytes: what disks, copies, other programs and enemies make of a file.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "shared/base/rng.h"

namespace downpour::fuzz {

/// No input is made longer than this; most stay far shorter.
constexpr size_t kInputBytesMax = size_t{1} << 20;

using Dictionary = std::span<const std::string_view>;

/// One to some dozen mutations, each at random: bits and bytes turned, runs of a byte, integers of
/// 1 to 8 bytes in either order set to the ends of their range, tokens of the dictionary put in or
/// over, pieces cut out, doubled, repeated, moved, taken from `other`, and the end cut off.
void mutate(std::string& bytes, const std::string& other, Dictionary dictionary, Rng& rng);

/// Whether something of this chance happens: one in `n`.
inline bool one_in(Rng& rng, uint64_t n) { return rng.below(n) == 0; }
template <typename T>
const T& one_of(std::span<const T> all, Rng& rng) {
  return all[size_t(rng.below(all.size()))];
}

}  // namespace downpour::fuzz
