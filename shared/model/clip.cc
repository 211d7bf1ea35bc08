#include "shared/model/clip.h"

#include <algorithm>
#include <cmath>

namespace downpour::model {
namespace {

double squared_norm(GradientView gradient) {
  double sum = 0;
  for (const float g : gradient) sum += double(g) * double(g);
  return sum;
}

/// Multiplies gradients of norm `norm` so that it becomes `most`, if it is above.
void shorten(double norm, float most, std::span<const GradientView> gradients) {
  if (!(norm > double(most)) || !std::isfinite(norm)) return;
  const auto factor = float(double(most) / norm);
  for (const GradientView gradient : gradients)
    for (float& g : gradient) g *= factor;
}

}  // namespace

void clip_gradients(const ClipSpec& clip, std::span<const GradientView> gradients) {
  if (clip.value > 0) {
    for (const GradientView gradient : gradients)
      for (float& g : gradient) {
        // NaN stays NaN, and is found later.
        if (g > clip.value) g = clip.value;
        if (g < -clip.value) g = -clip.value;
      }
  }
  double all = 0;
  for (const GradientView& gradient : gradients) {
    if (clip.norm > 0) shorten(std::sqrt(squared_norm(gradient)), clip.norm, {&gradient, 1});
    if (clip.global_norm > 0) all += squared_norm(gradient);
  }
  if (clip.global_norm > 0) shorten(std::sqrt(all), clip.global_norm, gradients);
}

}  // namespace downpour::model
