// Layers: the types of layers of a model, each listed once with what it reads and which keys of the
// job file it has. shared/model/compile.cc translates them into operations.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>

namespace downpour {

/// What distinguishes a type of layer.
struct LayerInfo {
  const char* type = "";
  bool reads_keys = false;      // sparse fields, by their embedding keys
  bool reads_numbers = true;    // other fields, and layers
  bool has_rows = false;        // the keys `dim` and `table`; `dim` is required
  bool has_vectors = false;     // the key `dim`, which is required: columns of a vector
  bool has_pool = false;        // the key `pool`
  bool has_units = false;       // the key `units`
  bool needs_units = false;     // `units` is required
  bool is_activation = false;   // also a value of the keys `activation` and `last`
  bool has_activation = false;  // the keys `activation` and `last`
  bool has_bias = false;        // the key `bias`
  bool has_init = false;        // the key `init`
  bool has_bins = false;        // the key `bins`
  bool has_cross = false;       // the keys `depth` and `rank`
  bool has_dropout = false;     // the key `dropout`
  bool has_rate = false;        // the key `rate`, which is required
};

inline constexpr std::array kLayers{
    LayerInfo{.type = "linear",
              .reads_keys = true,
              .has_units = true,
              .has_bias = true,
              .has_init = true},
    LayerInfo{.type = "embedding",
              .reads_keys = true,
              .reads_numbers = false,
              .has_rows = true,
              .has_pool = true,
              .has_init = true,
              .has_dropout = true},
    LayerInfo{.type = "fm",
              .reads_keys = true,
              .reads_numbers = false,
              .has_rows = true,
              .has_units = true,
              .has_init = true,
              .has_dropout = true},
    LayerInfo{.type = "dense",
              .has_units = true,
              .needs_units = true,
              .has_activation = true,
              .has_bias = true,
              .has_init = true,
              .has_dropout = true},
    LayerInfo{.type = "relu", .is_activation = true},
    LayerInfo{.type = "sigmoid", .is_activation = true},
    LayerInfo{.type = "concat"},
    LayerInfo{.type = "add"},
    LayerInfo{.type = "piecewise", .has_bins = true},
    LayerInfo{.type = "dropout", .has_rate = true},
    LayerInfo{.type = "cross", .has_bias = true, .has_init = true, .has_cross = true},
    LayerInfo{.type = "dot", .has_vectors = true},
    LayerInfo{.type = "leaky_relu", .is_activation = true},
    LayerInfo{.type = "gelu", .is_activation = true},
    LayerInfo{.type = "silu", .is_activation = true},
    LayerInfo{.type = "tanh", .is_activation = true},
    LayerInfo{.type = "layer_norm"}};

inline constexpr auto kLayerTypes = [] {
  std::array<const char*, kLayers.size()> types{};
  for (size_t i = 0; i < types.size(); ++i) types[i] = kLayers[i].type;
  return types;
}();
/// The values of the keys `activation` and `last`: the types of activations, and "" for none.
inline constexpr auto kActivationNames = [] {
  constexpr auto kIs = [](const LayerInfo& info) { return info.is_activation; };
  std::array<const char*, size_t(std::ranges::count_if(kLayers, kIs)) + 1> names{};
  size_t count = 0;
  for (const LayerInfo& info : kLayers) {
    if (info.is_activation) names[count++] = info.type;
  }
  names[count] = "";
  return names;
}();
/// Types that other systems have. A job that names one gets the error that this version does not
/// have the type.
inline constexpr std::array kUnavailableLayerTypes{"batch_norm", "attention", "multiply"};

/// Returns the type of that name, or null.
constexpr const LayerInfo* find_layer_type(std::string_view type) {
  for (const LayerInfo& info : kLayers) {
    if (info.type == type) return &info;
  }
  return nullptr;
}

}  // namespace downpour
