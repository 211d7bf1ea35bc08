// Losses: the losses of a model's output, each listed once with what its target is, the keys of the
// job file that it has, and its metrics. shared/model/losses.cc computes them.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "shared/job/enum_name.h"

namespace downpour {

enum class Loss : uint8_t {
  kLogistic,
  kSoftmax,
  kSquared,
  kAbsolute,
  kHuber,
  kQuantile,
  kPoisson,
  kHinge,
  kBpr,
  kSampledSoftmax,
};

/// What the target of an output is.
enum class TargetType : uint8_t {
  kBinary,  // 0 or 1
  kClass,   // the number of one of several classes
  kNumber,
  kCount,  // a number of at least 0
};

/// What distinguishes a loss.
struct LossInfo {
  const char* name = "";
  Loss loss{};
  TargetType target = TargetType::kNumber;
  bool has_scale = false;      // the key `scale`
  bool has_offset = true;      // the key `offset`
  bool has_smoothing = false;  // the key `label_smoothing`
  bool is_margin = false;      // the prediction is a margin or score, and not a probability
  bool compares = false;       // compares a record with its negatives (data.negatives)
  const char* option = "";     // the key `delta` or `quantile`; empty: none
  // The metric that equals the loss. The console shows the loss under this name.
  const char* metric = "loss";
  // The metrics that a job may choose. Error messages list them in this order.
  std::array<const char*, 5> metrics{};

  constexpr bool is_regression() const {
    return target == TargetType::kNumber || target == TargetType::kCount;
  }
  /// What a prediction is, in descriptions of models.
  constexpr const char* prediction() const {
    if (compares) return "score";
    return is_regression() ? "value" : is_margin ? "margin" : "probability";
  }
};

inline constexpr std::array kLosses{
    LossInfo{.name = "logistic",
             .loss = Loss::kLogistic,
             .target = TargetType::kBinary,
             .has_smoothing = true,
             .metric = "logloss",
             .metrics = {"auc", "logloss", "accuracy", "calibration", "rmse"}},
    LossInfo{.name = "softmax_cross_entropy",
             .loss = Loss::kSoftmax,
             .target = TargetType::kClass,
             .has_offset = false,
             .has_smoothing = true,
             .metric = "logloss",
             .metrics = {"accuracy", "logloss"}},
    LossInfo{.name = "squared", .loss = Loss::kSquared, .has_scale = true, .metrics = {"rmse"}},
    LossInfo{.name = "absolute",
             .loss = Loss::kAbsolute,
             .has_scale = true,
             .metric = "mae",
             .metrics = {"mae", "rmse"}},
    LossInfo{.name = "huber",
             .loss = Loss::kHuber,
             .has_scale = true,
             .option = "delta",
             .metrics = {"loss", "rmse"}},
    LossInfo{.name = "quantile",
             .loss = Loss::kQuantile,
             .has_scale = true,
             .option = "quantile",
             .metric = "pinball",
             .metrics = {"pinball", "rmse"}},
    LossInfo{.name = "poisson",
             .loss = Loss::kPoisson,
             .target = TargetType::kCount,
             .metrics = {"loss", "rmse", "calibration"}},
    LossInfo{.name = "hinge",
             .loss = Loss::kHinge,
             .target = TargetType::kBinary,
             .is_margin = true,
             .metrics = {"auc", "accuracy", "loss"}},
    LossInfo{.name = "bpr",
             .loss = Loss::kBpr,
             .target = TargetType::kBinary,
             .has_offset = false,
             .is_margin = true,
             .compares = true,
             .metrics = {"auc", "loss"}},
    LossInfo{.name = "sampled_softmax",
             .loss = Loss::kSampledSoftmax,
             .target = TargetType::kBinary,
             .has_offset = false,
             .is_margin = true,
             .compares = true,
             .metrics = {"auc", "loss"}},
};

/// Returns the entry of a name, or null.
constexpr const LossInfo* find_loss(std::string_view name) {
  const auto found = std::ranges::find(kLosses, name, &LossInfo::name);
  return found == kLosses.end() ? nullptr : &*found;
}

constexpr const LossInfo& info_of(Loss loss) { return kLosses[size_t(loss)]; }
static_assert(std::ranges::all_of(kLosses, [](const LossInfo& loss) {
  return &info_of(loss.loss) == &loss;
}));

/// The names of all losses, and "", with which the preset chooses the loss.
inline constexpr auto kLossNames = names_or_none(kLosses);

}  // namespace downpour
