#include "shared/optim/initializer.h"

#include <algorithm>
#include <cstring>

#include "shared/base/hash.h"
#include "shared/base/rng.h"

namespace downpour::optim {
namespace {

/// The quantile of the standard normal distribution truncated at two deviations, at (1 + t) / 2, t
/// in (-1, 1). Own rational minimax fit (4/3 in t^2, 1.2e-6); without branches, so that columns
/// become vector lanes.
inline float truncated_normal_quantile(float t) {
  const float y = t * t;
  const float p = 1.196287341F + y * (-2.186959604F +
                                      y * (1.188099298F + y * (-0.155987303F + y * -0.009564776F)));
  const float q = 1.0F + y * (-2.066667654F + y * (1.366885434F + y * -0.284280293F));
  return std::clamp(t * p / q, -2.0F, 2.0F);
}

/// Calls value(u) with u uniform in [-1, 1) for each column, and stores what it returns.
template <typename Value>
void fill(uint64_t row_seed, uint32_t dim, void* out, Value value) {
  constexpr uint32_t kLanes = 16;
  auto* bytes = static_cast<uint8_t*>(out);
  for (uint32_t begin = 0; begin < dim; begin += kLanes) {
    float block[kLanes];  // always whole: the loop below has a constant length
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
      // Half a step up: the 2^24 values of u become symmetric about 0.
      fill(row_seed, dim, out,
           [scale](float u) { return scale * truncated_normal_quantile(u + 0x1.0p-24F); });
      return;
  }
}

}  // namespace downpour::optim
