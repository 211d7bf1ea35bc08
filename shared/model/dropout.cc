#include "shared/model/dropout.h"

#include "shared/base/hash.h"

namespace downpour::model {
namespace {

/// A 32-bit hash with the multipliers of Wellons' lowbias32. `late` is mixed in between the rounds,
/// so two records get unrelated words even if they agree in one half of their seeds. It vectorizes,
/// which 64-bit multiplications do not on most CPUs.
inline uint32_t word_of(uint32_t column, uint32_t early, uint32_t late) {
  uint32_t x = column * 0x9e3779b9U + early;
  x ^= x >> 16;
  x *= 0x7feb352dU;
  x ^= x >> 15;
  x ^= late;
  x *= 0x846ca68bU;
  x ^= x >> 16;
  x *= 0x7feb352dU;
  x ^= x >> 15;
  return x;
}

template <bool kAccumulate>
void drop_rows(ConstMatrix from, Matrix to, size_t rows, size_t width, DropoutMask mask) {
  const auto threshold = uint32_t(double(mask.rate) * 0x1.0p32);
  const float scale = 1.0F / (1.0F - mask.rate);
  for (size_t r = 0; r < rows; ++r) {
    const uint64_t seed = hash_combine(mask.seed, mask.record + r);
    const auto early = uint32_t(seed), late = uint32_t(seed >> 32);
    const float* f = from.data + r * from.stride;
    float* t = to.data + r * to.stride;
#pragma omp simd
    for (size_t j = 0; j < width; ++j) {
      const float x = word_of(uint32_t(j), early, late) >= threshold ? f[j] * scale : 0.0F;
      t[j] = kAccumulate ? t[j] + x : x;
    }
  }
}

}  // namespace

void drop(ConstMatrix from, Matrix to, size_t rows, size_t width, DropoutMask mask,
          bool accumulate) {
  if (accumulate) return drop_rows<true>(from, to, rows, width, mask);
  drop_rows<false>(from, to, rows, width, mask);
}

}  // namespace downpour::model
