// Training modes: when a worker may pull, and when its gradients are applied.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace downpour {

/// async: a worker pulls whenever it has room for a batch, and each part of a push is applied when
/// it arrives. bounded: the same, but a worker may be at most `staleness` batches ahead of the
/// slowest one (stale synchronous parallel; Ho et al., "More Effective Distributed ML via a Stale
/// Synchronous Parallel Parameter Server", NIPS 2013).
enum class TrainMode : uint8_t { kAsync, kBounded };

constexpr uint64_t kStalenessDefault = 8;  // batches

/// What distinguishes a mode in the job file.
struct ModeTraits {
  TrainMode mode = TrainMode::kAsync;
  std::string_view name;
  bool has_staleness = false;  // the key `staleness`
};

/// One entry per mode, in the order of the enum.
inline constexpr std::array kModes{
    ModeTraits{.mode = TrainMode::kAsync, .name = "async"},
    ModeTraits{.mode = TrainMode::kBounded, .name = "bounded", .has_staleness = true},
};
static_assert([] {
  for (size_t i = 0; i < kModes.size(); ++i) {
    if (size_t(kModes[i].mode) != i) return false;
  }
  return kModes.size() == size_t(TrainMode::kBounded) + 1;
}());

constexpr const ModeTraits& traits_of(TrainMode mode) { return kModes[size_t(mode)]; }

}  // namespace downpour
