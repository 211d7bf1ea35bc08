// Training modes: when a worker may pull, and when its gradients are applied.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "shared/base/units.h"

namespace downpour {

/// async: a worker pulls whenever it has room for a batch, and each part of a push is applied when
/// it arrives.
///
/// bounded: the same, but a worker pulls its batch n (counted from 0) only when every worker with a
/// lease has finished at least n - `staleness` batches (stale synchronous parallel; Ho et al.,
/// "More Effective Distributed ML via a Stale Synchronous Parallel Parameter Server", NIPS 2013).
///
/// sync: `replicas` logical replicas each contribute their next batch to a step. The step applies
/// the sum of their gradients once, when all of them have arrived (bulk synchronous parallel;
/// Valiant, "A Bridging Model for Parallel Computation", CACM 1990). Any number of workers computes
/// the replicas, with the same result. With `backups`, a step leaves out up to so many replicas
/// that are late; their batches are computed again for the next step (Chen et al., "Revisiting
/// Distributed Synchronous SGD", ICLR workshop 2016, where late batches are dropped).
///
/// local: as sync, but in each round a replica trains `sync_every` batches alone, on a copy of the
/// variables. The variables then change by the mean of the replicas' changes, weighted by records
/// (McMahan et al., "Communication-Efficient Learning of Deep Networks from Decentralized Data",
/// AISTATS 2017). The optimizer `outer` applies the mean (Douillard et al., "DiLoCo", 2023).
///
/// mixed: dense variables as in sync, without backups, and the rows of sparse tables as in async: a
/// part is applied when it arrives (Lian et al., "Persia: An Open, Hybrid System Scaling Deep
/// Learning-based Recommenders up to 100 Trillion Parameters", KDD 2022).
enum class TrainMode : uint8_t { kAsync, kBounded, kSync, kLocal, kMixed };

constexpr uint64_t kStalenessDefault = 8;  // batches
constexpr uint32_t kReplicasMax = 256;
constexpr uint64_t kSyncEveryDefault = 16;  // batches
constexpr uint64_t kSyncEveryMax = 1 << 20;
constexpr uint64_t kSyncEveryEpoch = 0;  // a replica's share of the epoch
// Parts of a synchronous step that one ps core may keep until the step is applied.
constexpr uint64_t kStepBytesMax = 4 * kGiB;

/// What distinguishes a mode in the job file.
struct ModeTraits {
  TrainMode mode = TrainMode::kAsync;
  std::string_view name;
  bool has_staleness = false;  // the key `staleness`
  bool has_replicas = false;   // the key `replicas`; a step has several batches
  bool has_backups = false;    // the key `backups`
  bool has_rounds = false;     // the keys `sync_every` and `outer`; replicas train alone in between
  bool has_groups = false;     // sparse tables and dense variables lie in different partitions
};

/// One entry per mode, in the order of the enum.
inline constexpr std::array kModes{
    ModeTraits{.mode = TrainMode::kAsync, .name = "async"},
    ModeTraits{.mode = TrainMode::kBounded, .name = "bounded", .has_staleness = true},
    ModeTraits{.mode = TrainMode::kSync, .name = "sync", .has_replicas = true, .has_backups = true},
    ModeTraits{
        .mode = TrainMode::kLocal, .name = "local", .has_replicas = true, .has_rounds = true},
    ModeTraits{
        .mode = TrainMode::kMixed, .name = "mixed", .has_replicas = true, .has_groups = true},
};
static_assert([] {
  for (size_t i = 0; i < kModes.size(); ++i) {
    if (size_t(kModes[i].mode) != i) return false;
  }
  return kModes.size() == size_t(TrainMode::kMixed) + 1;
}());

constexpr const ModeTraits& traits_of(TrainMode mode) { return kModes[size_t(mode)]; }

}  // namespace downpour
