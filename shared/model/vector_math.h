// exp and log1p for loops: branch-free float32 polynomials, which the compiler vectorizes.
#pragma once

#include <bit>
#include <cstdint>

namespace downpour::model {

/// Returns e^x. The relative error is below 2e-7 on [-87.3, 88.3]. Outside, the result is that of
/// the nearer end; NaN stays NaN. Range reduction by ln 2 in two parts (Cody and Waite 1980),
/// polynomial of degree 6 (Moshier's Cephes, expf).
inline float exp_fast(float x) {
  // 1.5 * 2^23: adding it rounds to an integer in the low bits.
  constexpr float kShift = 12582912.0F;
  x = x < -87.3F ? -87.3F : x;
  x = x > 88.3F ? 88.3F : x;
  const float shifted = x * 1.44269504088896341F + kShift;
  const float n = shifted - kShift;
  const float r = (x - n * 0.693359375F) - n * -2.12194440e-4F;
  float p = 1.9875691500e-4F;
  p = p * r + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  p = p * (r * r) + r + 1.0F;
  const uint32_t power = std::bit_cast<uint32_t>(shifted) - std::bit_cast<uint32_t>(kShift) + 127U;
  return p * std::bit_cast<float>(power << 23);
}

/// Returns ln(1 + u) for u in [0, 1], with a relative error below 3e-7, also for tiny u. It is the
/// series of 2 atanh(s), with s = u / (2 + u) in [0, 1/3], up to s^17. The first omitted term is
/// below 1e-9 of the value.
inline float log1p_fast(float u) {
  const float s = u / (2.0F + u);
  const float z = s * s;
  float p = 1.0F / 17;
  p = p * z + 1.0F / 15;
  p = p * z + 1.0F / 13;
  p = p * z + 1.0F / 11;
  p = p * z + 1.0F / 9;
  p = p * z + 1.0F / 7;
  p = p * z + 1.0F / 5;
  p = p * z + 1.0F / 3;
  return 2.0F * s * (1.0F + z * p);
}

/// Returns 1 / (1 + e^-x), with a relative error below 4e-7 for x > -87.
inline float sigmoid_fast(float x) { return 1.0F / (1.0F + exp_fast(-x)); }

/// Returns tanh x, with an absolute error below 3e-7.
inline float tanh_fast(float x) { return 2.0F * sigmoid_fast(2.0F * x) - 1.0F; }

}  // namespace downpour::model
