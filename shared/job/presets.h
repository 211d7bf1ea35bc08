// Presets: the models with a short name, each listed once with the options that it has.
// shared/job/preset.cc expands them, and docs/job-file.md describes them.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>

#include "shared/job/enum_name.h"

namespace downpour {

/// Which options of PresetOptions a preset has, besides `inputs`, `target`, `offset` and `scale`.
struct PresetInfo {
  const char* name = "";
  const char* loss = "logistic";  // unless the option `loss` chooses another one
  bool has_dim = false;
  bool has_units = false;
  bool has_bins = false;
  bool has_dropout = false;
  bool has_loss = false;
  bool has_classes = false;
  bool classifies = false;  // has only losses whose target is binary or a class
};

/// A network over embeddings and numbers.
constexpr PresetInfo network(const char* name) {
  return {.name = name,
          .has_dim = true,
          .has_units = true,
          .has_bins = true,
          .has_dropout = true,
          .has_loss = true,
          .has_classes = true};
}

inline constexpr std::array kPresets{
    PresetInfo{
        .name = "logistic_regression", .has_loss = true, .has_classes = true, .classifies = true},
    PresetInfo{.name = "linear_regression", .loss = "squared"},
    PresetInfo{.name = "softmax_mlp",
               .loss = "softmax_cross_entropy",
               .has_units = true,
               .has_dropout = true},
    network("wide_deep"),
    network("deepfm"),
    network("dcn_v2"),
    network("dlrm"),
    PresetInfo{
        .name = "factorization_machine", .has_dim = true, .has_dropout = true, .has_loss = true},
    PresetInfo{.name = "matrix_factorization",
               .loss = "squared",
               .has_dim = true,
               .has_dropout = true,
               .has_loss = true}};

/// Returns the entry of a name, or null.
constexpr const PresetInfo* find_preset(std::string_view name) {
  const auto found = std::ranges::find(kPresets, name, &PresetInfo::name);
  return found == kPresets.end() ? nullptr : &*found;
}

/// All names, and "" for a model of layers.
inline constexpr auto kPresetNames = names_or_none(kPresets);
/// Presets that other systems have. A job that names one gets the error that this version does not
/// have the preset.
inline constexpr std::array kUnavailablePresets{"dcn", "two_tower"};

}  // namespace downpour
