// Mutations of bytes, as disks, copies, other programs and attackers cause them in a file.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "shared/base/rng.h"

namespace downpour::fuzz {

/// Upper limit of the length of an input. Most inputs are far shorter.
constexpr size_t kInputBytesMax = size_t{1} << 20;

using Dictionary = std::span<const std::string_view>;

/// Applies 1 to 16 random mutations: flips bits; changes bytes; fills runs with one byte; sets
/// integers of 1 to 8 bytes in either byte order to values at the ends of their range; inserts or
/// overwrites with tokens of the dictionary or pieces of `other`; removes, moves and repeats
/// pieces; truncates.
void mutate(std::string& bytes, const std::string& other, Dictionary dictionary, Rng& rng);

/// Returns true with probability 1 / `n`.
inline bool one_in(Rng& rng, uint64_t n) { return rng.below(n) == 0; }
/// Returns a random element.
template <typename T>
const T& one_of(std::span<const T> all, Rng& rng) {
  return all[size_t(rng.below(all.size()))];
}

}  // namespace downpour::fuzz
