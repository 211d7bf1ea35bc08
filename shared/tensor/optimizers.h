// Optimizers: their types, settings, and one table of what distinguishes them. The rule that each
// applies to a weight is in shared/optim.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <variant>

#include "shared/base/number_range.h"
#include "shared/tensor/schedules.h"

namespace downpour {

/// Checkpoints store the numbers (schemas/checkpoint.capnp), so new types come last.
enum class OptimizerType : uint8_t {
  kSgd,
  kMomentum,
  kAdagrad,
  kAdam,
  kFtrl,
  kRmsProp,
  kAdamW,
  kRowwiseAdagrad
};

/// An optimizer with the settings of all types. Settings of other types are ignored.
struct OptimizerSpec {
  OptimizerType type = OptimizerType::kAdam;
  float learning_rate = 0.001F;
  float momentum = 0.9F;             // momentum
  bool nesterov = false;             // momentum
  float initial_accumulator = 0.1F;  // both adagrads: > 0; ftrl: >= 0 (initial value of n)
  float epsilon = 1e-7F;             // both adagrads, adam, adamw, rmsprop
  float beta1 = 0.9F;                // adam, adamw
  float beta2 = 0.999F;              // adam, adamw
  float l1 = 0.0F;                   // ftrl
  float l2 = 0.0F;                   // ftrl
  float beta = 1.0F;                 // ftrl: beta of McMahan 2013
  float rho = 0.9F;                  // rmsprop: decay of the mean square
  float weight_decay = 0.01F;        // adamw
  // Every type: decay of the averages of the weights, which the rows then store; 0: no averages.
  float ema = 0.0F;
  // Of the learning rate. Checkpoints do not store it: a resumed run uses the schedule of its job.
  ScheduleSpec schedule = {};
  bool averages() const { return ema > 0; }
  auto operator<=>(const OptimizerSpec&) const = default;
};

/// A setting of some types, with its bounds if it is a number. `key` is its key in job files. In
/// schemas/checkpoint.capnp it has the same name in camel case.
struct OptimizerSetting {
  const char* key = "";
  std::variant<float OptimizerSpec::*, bool OptimizerSpec::*> member;
  Range range;
};

namespace settings {

inline constexpr std::array kMomentum{
    OptimizerSetting{"momentum", &OptimizerSpec::momentum, kShareBelowOne},
    OptimizerSetting{"nesterov", &OptimizerSpec::nesterov, {}}};
inline constexpr std::array kAdagrad{
    OptimizerSetting{"initial_accumulator", &OptimizerSpec::initial_accumulator, kPositive},
    OptimizerSetting{"epsilon", &OptimizerSpec::epsilon, {}}};
inline constexpr std::array kAdam{OptimizerSetting{"beta1", &OptimizerSpec::beta1, kShareBelowOne},
                                  OptimizerSetting{"beta2", &OptimizerSpec::beta2, kShareBelowOne},
                                  OptimizerSetting{"epsilon", &OptimizerSpec::epsilon, kPositive}};
inline constexpr std::array kAdamW{
    OptimizerSetting{"weight_decay", &OptimizerSpec::weight_decay, {}}, kAdam[0], kAdam[1],
    kAdam[2]};
inline constexpr std::array kRmsProp{
    OptimizerSetting{"rho", &OptimizerSpec::rho, kShareBelowOne},
    OptimizerSetting{"epsilon", &OptimizerSpec::epsilon, kPositive}};
inline constexpr std::array kFtrl{
    OptimizerSetting{"l1", &OptimizerSpec::l1, {}}, OptimizerSetting{"l2", &OptimizerSpec::l2, {}},
    OptimizerSetting{"beta", &OptimizerSpec::beta, {}},
    OptimizerSetting{"initial_accumulator", &OptimizerSpec::initial_accumulator, {}}};

}  // namespace settings

/// What distinguishes an optimizer.
struct OptimizerInfo {
  OptimizerType type{};
  std::string_view name;         // in job files and in output
  uint32_t slots = 0;            // floats of optimizer state per weight
  uint32_t row_slots = 0;        // floats of optimizer state per row
  bool rate_needs_step = false;  // the learning rate depends on the step
  /// The type that dense variables have instead, which are stored in blocks and have no rows.
  std::optional<OptimizerType> dense_type;
  OptimizerSpec defaults;  // of a job that gives only the type
  /// The settings besides the learning rate, in the order in which a job is printed.
  std::span<const OptimizerSetting> settings;
};

inline constexpr std::array kOptimizers{
    OptimizerInfo{.type = OptimizerType::kSgd,
                  .name = "sgd",
                  .defaults = {.type = OptimizerType::kSgd, .learning_rate = 0.01F}},
    OptimizerInfo{.type = OptimizerType::kMomentum,
                  .name = "momentum",
                  .slots = 1,  // velocity
                  .defaults = {.type = OptimizerType::kMomentum, .learning_rate = 0.01F},
                  .settings = settings::kMomentum},
    OptimizerInfo{.type = OptimizerType::kAdagrad,
                  .name = "adagrad",
                  .slots = 1,  // sum of squared gradients
                  .defaults = {.type = OptimizerType::kAdagrad, .learning_rate = 0.05F},
                  .settings = settings::kAdagrad},
    OptimizerInfo{.type = OptimizerType::kAdam,
                  .name = "adam",
                  .slots = 2,  // first moment, second moment
                  .rate_needs_step = true,
                  .defaults = {.type = OptimizerType::kAdam},
                  .settings = settings::kAdam},
    OptimizerInfo{.type = OptimizerType::kFtrl,
                  .name = "ftrl",
                  .slots = 2,  // z, n
                  .defaults = {.type = OptimizerType::kFtrl,
                               .learning_rate = 0.1F,
                               .initial_accumulator = 0.0F},
                  .settings = settings::kFtrl},
    OptimizerInfo{.type = OptimizerType::kRmsProp,
                  .name = "rmsprop",
                  .slots = 1,  // mean square of the gradient
                  .defaults = {.type = OptimizerType::kRmsProp},
                  .settings = settings::kRmsProp},
    OptimizerInfo{.type = OptimizerType::kAdamW,
                  .name = "adamw",
                  .slots = 2,  // first moment, second moment
                  .rate_needs_step = true,
                  .defaults = {.type = OptimizerType::kAdamW},
                  .settings = settings::kAdamW},
    OptimizerInfo{.type = OptimizerType::kRowwiseAdagrad,
                  .name = "rowwise_adagrad",
                  .row_slots = 1,  // sum of the means of the squared gradients of a row
                  .dense_type = OptimizerType::kAdagrad,
                  .defaults = {.type = OptimizerType::kRowwiseAdagrad, .learning_rate = 0.05F},
                  .settings = settings::kAdagrad}};

// The number of a type is its index. A type without an entry does not compile, because
// shared/optim/optimizer.cc uses the entry of each type as a constant.
static_assert([] {
  for (size_t i = 0; i < kOptimizers.size(); ++i) {
    const OptimizerInfo& info = kOptimizers[i];
    if (size_t(info.type) != i || info.defaults.type != info.type) return false;
  }
  return true;
}());

constexpr const OptimizerInfo& info_of(OptimizerType type) { return kOptimizers[size_t(type)]; }
constexpr std::string_view name_of(OptimizerType type) { return info_of(type).name; }
/// Returns the number of floats that a row stores besides each weight: the slots of the optimizer,
/// and the average.
constexpr uint32_t slots_of(const OptimizerSpec& spec) {
  return info_of(spec.type).slots + (spec.ema > 0 ? 1 : 0);
}
/// Returns the number of floats that a row stores once: the optimizer's slots of the row, and the
/// number of updates that its average has seen.
constexpr uint32_t row_slots_of(const OptimizerSpec& spec) {
  return info_of(spec.type).row_slots + (spec.ema > 0 ? 1 : 0);
}
/// Returns the settings of an optimizer for a job that gives only its type.
constexpr OptimizerSpec optimizer_defaults(OptimizerType type) { return info_of(type).defaults; }

}  // namespace downpour
