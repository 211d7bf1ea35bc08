// Pack: some floats of a row in vector registers.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace downpour::model {

// Floats of the widest vector register. Wider vectors would go through memory.
#if defined(__AVX512F__)
constexpr size_t kRegisterFloats = 16;
#elif defined(__AVX__)
constexpr size_t kRegisterFloats = 8;
#else
constexpr size_t kRegisterFloats = 4;
#endif

/// Floats of a row that stay in registers while the keys of a record are summed.
template <size_t kFloats>
struct Pack {
  static constexpr size_t kWidth = kFloats;
  static constexpr size_t kVectorFloats = std::min(kFloats, kRegisterFloats);
  static constexpr size_t kVectors = kFloats / kVectorFloats;
  typedef float Vector
      __attribute__((vector_size(kVectorFloats * sizeof(float)), aligned(4), may_alias));

  static const Vector& at(const float* p, size_t v) {
    return reinterpret_cast<const Vector*>(p)[v];
  }
  static Vector& at(float* p, size_t v) { return reinterpret_cast<Vector*>(p)[v]; }
};

/// Calls visit(Pack, column) for the columns of `dim`, with packs as wide as possible.
template <uint32_t kWidest = 32, typename F>
void for_packs(uint32_t dim, const F& visit, uint32_t column = 0) {
  for (; column + kWidest <= dim; column += kWidest) visit(Pack<kWidest>{}, column);
  if constexpr (kWidest > 1) for_packs<kWidest / 2>(dim, visit, column);
}

}  // namespace downpour::model
