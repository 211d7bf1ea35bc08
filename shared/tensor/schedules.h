// Schedules: how a learning rate changes during training. Their types, their settings, and one
// table of which type has which settings. shared/optim/schedule.h has the formulas.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <variant>

#include "shared/base/number_range.h"

namespace downpour {

enum class ScheduleType : uint8_t {
  kNone,  // the job gives no schedule
  kConstant,
  kStep,
  kExponential,
  kPolynomial,
  kCosine,
  kInverseSqrt,
  kPlateau,
};

/// The factor of a learning rate as a function of the step. Settings of other types are ignored.
struct ScheduleSpec {
  ScheduleType type = ScheduleType::kNone;
  uint64_t warmup_steps = 0;  // every type: the factor rises linearly to 1 in so many steps
  uint64_t decay_steps = 0;   // after the warm-up
  float decay_rate = 0.5F;    // step, exponential: factor per decay_steps
  float power = 1.0F;         // polynomial
  float end = 0.0F;           // polynomial, cosine: the last factor
  float factor = 0.2F;        // plateau: of one reduction
  uint32_t patience = 3;      // plateau: evaluations without improvement before a reduction
  float min_delta = 1e-4F;    // plateau: the least relative decrease of the loss that counts
  float min = 0.01F;          // plateau: the smallest factor
  auto operator<=>(const ScheduleSpec&) const = default;

  bool given() const { return type != ScheduleType::kNone; }
};

/// A setting of some schedules, with its bounds. `key` is its key in job files.
struct ScheduleSetting {
  const char* key = "";
  std::variant<float ScheduleSpec::*, uint64_t ScheduleSpec::*, uint32_t ScheduleSpec::*> member;
  Range range;
};

namespace settings {

inline constexpr Range kStepsRange{0, 9e15};
inline constexpr ScheduleSetting kDecaySteps{"decay_steps", &ScheduleSpec::decay_steps,
                                             kStepsRange};
inline constexpr ScheduleSetting kDecayRate{"decay_rate", &ScheduleSpec::decay_rate, {0, 1, true}};
inline constexpr ScheduleSetting kEnd{"end", &ScheduleSpec::end, {0, 1}};

inline constexpr std::array kDecayOfRate{kDecaySteps, kDecayRate};
inline constexpr std::array kPolynomial{
    kDecaySteps, ScheduleSetting{"power", &ScheduleSpec::power, {0, 100, true}}, kEnd};
inline constexpr std::array kCosine{kDecaySteps, kEnd};
inline constexpr std::array kInverseSqrt{kDecaySteps};
inline constexpr std::array kPlateau{
    ScheduleSetting{"factor", &ScheduleSpec::factor, {0.001, 0.99}},
    ScheduleSetting{"patience", &ScheduleSpec::patience, {1, 1000}},
    ScheduleSetting{"min_delta", &ScheduleSpec::min_delta, kShareBelowOne},
    ScheduleSetting{"min", &ScheduleSpec::min, {1e-6, 1}}};

}  // namespace settings

/// What distinguishes a schedule.
struct ScheduleInfo {
  ScheduleType type{};
  std::string_view name;  // in job files
  /// The settings besides warmup_steps, in the order in which a job is printed.
  std::span<const ScheduleSetting> settings;
  bool needs_decay_steps = false;
};

inline constexpr std::array kSchedules{
    ScheduleInfo{.type = ScheduleType::kNone},
    ScheduleInfo{.type = ScheduleType::kConstant, .name = "constant"},
    ScheduleInfo{ScheduleType::kStep, "step", settings::kDecayOfRate, true},
    ScheduleInfo{ScheduleType::kExponential, "exponential", settings::kDecayOfRate, true},
    ScheduleInfo{ScheduleType::kPolynomial, "polynomial", settings::kPolynomial, true},
    ScheduleInfo{ScheduleType::kCosine, "cosine", settings::kCosine, true},
    ScheduleInfo{ScheduleType::kInverseSqrt, "inverse_sqrt", settings::kInverseSqrt},
    ScheduleInfo{ScheduleType::kPlateau, "plateau", settings::kPlateau}};

static_assert([] {
  for (size_t i = 0; i < kSchedules.size(); ++i)
    if (size_t(kSchedules[i].type) != i) return false;
  return kSchedules.size() == size_t(ScheduleType::kPlateau) + 1;
}());

constexpr const ScheduleInfo& info_of(ScheduleType type) { return kSchedules[size_t(type)]; }

}  // namespace downpour
