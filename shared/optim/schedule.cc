#include "shared/optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "shared/base/check.h"

namespace downpour::optim {
namespace {

/// Returns the factor after `n` steps of decay.
double decay(const ScheduleSpec& spec, double n, uint32_t reductions) {
  const double turns = spec.decay_steps == 0 ? 0 : n / double(spec.decay_steps);
  const double left = 1.0 - std::min(turns, 1.0);
  const double end = double(spec.end);
  switch (spec.type) {
    case ScheduleType::kNone:
    case ScheduleType::kConstant:
      return 1.0;
    case ScheduleType::kStep:
      return std::pow(double(spec.decay_rate), std::floor(turns));
    case ScheduleType::kExponential:
      return std::pow(double(spec.decay_rate), turns);
    case ScheduleType::kPolynomial:
      return end + (1.0 - end) * std::pow(left, double(spec.power));
    case ScheduleType::kCosine:
      return end + (1.0 - end) * 0.5 * (1.0 - std::cos(std::numbers::pi * left));
    case ScheduleType::kInverseSqrt: {
      const auto scale = double(spec.decay_steps > 0 ? spec.decay_steps
                                                     : std::max<uint64_t>(spec.warmup_steps, 1));
      return std::sqrt(scale / (scale + n));
    }
    case ScheduleType::kPlateau:
      return std::max(double(spec.min), std::pow(double(spec.factor), double(reductions)));
  }
  DP_CHECK(false, int(spec.type));
  return 1.0;
}

}  // namespace

double schedule_factor(const ScheduleSpec& spec, uint64_t step, uint32_t reductions) {
  DP_CHECK(step >= 1, step);
  const uint64_t peak = std::max<uint64_t>(spec.warmup_steps, 1);
  const double rise = step < peak ? double(step) / double(peak) : 1.0;
  return rise * decay(spec, step > peak ? double(step - peak) : 0.0, reductions);
}

uint32_t reductions_max(const ScheduleSpec& spec) {
  // 0.1F * 0.1F is above 0.01F.
  const double min = double(spec.min) * (1 + 1e-6);
  uint32_t reductions = 0;
  while (std::pow(double(spec.factor), double(reductions)) > min) ++reductions;
  return reductions;
}

}  // namespace downpour::optim
