#include "shared/optim/initializer.h"

#include <algorithm>
#include <cstring>

#include "shared/base/hash.h"
#include "shared/base/rng.h"

namespace downpour::optim {
namespace {

/// Returns the quantile at (1 + t) / 2, for t in (-1, 1), of the standard normal distribution
/// truncated at two standard deviations. The rational minimax fit (degrees 4 and 3 in t^2, error
/// 1.2e-6) was computed for this code. It has no branches, so the compiler vectorizes over columns.
inline float truncated_normal_quantile(float t) {
  const float y = t * t;
  const float p = 1.196287341F + y * (-2.186959604F +
                                      y * (1.188099298F + y * (-0.155987303F + y * -0.009564776F)));
  const float q = 1.0F + y * (-2.066667654F + y * (1.366885434F + y * -0.284280293F));
  return std::clamp(t * p / q, -2.0F, 2.0F);
}

/// For each column, stores value(u) with u uniform in [-1, 1).
template <typename Value>
void fill(uint64_t row_seed, uint32_t dim, void* out, Value value) {
  constexpr uint32_t kLanes = 16;
  auto* bytes = static_cast<uint8_t*>(out);
  for (uint32_t begin = 0; begin < dim; begin += kLanes) {
    // Full size even for the last block, so that the loop below has a constant length.
    float block[kLanes];
    for (uint32_t c = 0; c < kLanes; ++c) {
      const uint64_t word = mix64(row_seed + (begin + c) * 0x9e3779b97f4a7c15ULL);
      block[c] = value(2.0F * uniform_float(word) - 1.0F);
    }
    std::memcpy(bytes + size_t(begin) * sizeof(float), block,
                std::min(kLanes, dim - begin) * sizeof(float));
  }
}

}  // namespace

uint64_t variable_seed(uint64_t seed, std::string_view variable) {
  return hash_combine(seed, hash_string(variable));
}

void fill_initial(const InitSpec& init, uint64_t variable_seed, uint64_t key, uint32_t dim,
                  void* out) {
  const float scale = init.scale;
  const uint64_t row_seed = hash_combine(variable_seed, key);
  switch (init.type) {
    case InitType::kZero:
      std::memset(out, 0, size_t(dim) * sizeof(float));
      return;
    case InitType::kUniform:
      fill(row_seed, dim, out, [scale](float u) { return scale * u; });
      return;
    case InitType::kNormal:
      // Adding half a step makes the 2^24 values of u symmetric about 0.
      fill(row_seed, dim, out,
           [scale](float u) { return scale * truncated_normal_quantile(u + 0x1.0p-24F); });
      return;
  }
}

}  // namespace downpour::optim
