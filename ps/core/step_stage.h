// StepStage: the parts of the next synchronous step that have arrived at a ps core, and the workers
// that wait for the step.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "ps/core/bits.h"
#include "ps/core/events.h"
#include "ps/core/payload.h"
#include "shared/base/bytes.h"

namespace downpour::ps {

/// A push, or a part of a push, that waits for its step. The payload stays in the receive buffers
/// until it is added to the sum of the step.
struct StagedPush {
  struct Payload {
    std::vector<wire::Section> sections;
    Bytes keys, values;
    std::vector<uint32_t> rows;  // of the keys; empty: look them up
  };
  Bits parts;          // the partitions of the push that had not staged the replica before
  bool whole = false;  // these are all partitions of the push
  std::vector<Payload> payloads;  // empty: added to the sum
  std::vector<OutputSums> metrics;
};

/// A push for which there was no room. The worker sends it again when it is asked to.
struct RefusedPush {
  uint32_t number = 0;
  BatchId batch;
  PeerKey from = kChiefPeer;
  RequestId request{};
  Bits parts;
  uint64_t bytes = 0;
  bool asked = false;  // it is on its way
};

/// What a core has of the batch that one replica contributes to the step.
struct StagedReplica {
  /// A push that is answered after the step.
  struct Waiting {
    PeerKey from = kChiefPeer;
    RequestId request{};
    Bits covered;
  };
  BatchId batch;
  bool quarantined = false;
  uint32_t batches_quarantined = 0;
  uint32_t records = 0;
  uint64_t records_hash = 0;
  uint32_t rate_reductions = 0;  // as in wire::Push
  PeerKey from = kChiefPeer;     // of the first push
  Bits covered;                  // all partitions that have the batch
  std::vector<StagedPush> pushes;
  std::vector<Waiting> waiting;
};

/// Parts stay until their step is committed, the partitions of the core change, a new quarantine
/// marker disagrees with them, or the replica stages a batch of an earlier shard. They are never
/// dropped because of their age or to free memory, because another partition may already have
/// committed the step. Each batch has a number, StepRules::number_of().
class StepStage {
 public:
  /// Keeps the reference.
  explicit StepStage(const PsLimits& limits) : limits_(limits) {}

  enum class Added : uint8_t {
    kStaged,
    kOtherBatch,  // the replica has staged a batch of an earlier shard, or the step has too many
    kFull,        // beyond PsLimits::step_bytes_max
    kRefused,     // no room; see refused()
  };
  /// Stages a push at the partitions `parts`, some or all of those that it covers. The push is
  /// answered after the step. A repeated push only replaces its earlier request. A replica takes
  /// its shards in ascending order, so a batch of an earlier shard replaces one of a later shard.
  /// `room`: for all payloads.
  Added add(uint32_t number, PeerKey from, RequestId request, const wire::Push& push,
            const Bits& covered, const Bits& parts, std::vector<StagedPush::Payload> payloads,
            uint64_t room);
  /// Calls add(StagedPush) for each payload of a batch, in the order of their arrival, and drops
  /// the payloads.
  template <typename Add>
  void use_payloads(uint32_t number, Add&& add) {
    const auto staged = replicas_.find(number);
    if (staged == replicas_.end()) return;
    for (StagedPush& push : staged->second.pushes) {
      if (push.payloads.empty()) continue;
      add(push);
      bytes_ -= bytes_of(push.payloads);
      push.payloads.clear();
    }
  }
  /// Returns the refused pushes, ascending by number.
  std::vector<RefusedPush>& refused() { return refused_; }
  /// Returns the memory of all payloads.
  uint64_t bytes() const { return bytes_; }
  const std::map<uint32_t, StagedReplica>& replicas() const { return replicas_; }
  /// Returns whether this batch is staged under the number at all partitions of `parts`.
  bool has(uint32_t number, BatchId batch, const Bits& parts) const;

  /// Returns the staged parts that all partitions of `owned` have, ascending by number.
  std::vector<wire::StepPart> complete(const Bits& owned) const;
  /// Returns null if nothing is staged under the number.
  const StagedReplica* find(uint32_t number) const;
  bool empty() const { return replicas_.empty() && refused_.empty(); }
  void erase(uint32_t number);
  void clear();
  /// Erases the replicas for which wanted(StagedReplica) is false.
  template <typename Wanted>
  void keep(Wanted&& wanted) {
    std::vector<uint32_t> gone;
    for (const auto& [number, staged] : replicas_) {
      if (!wanted(staged)) gone.push_back(number);
    }
    for (const uint32_t number : gone) erase(number);
  }

 private:
  static uint64_t bytes_of(const std::vector<StagedPush::Payload>& payloads);
  void refuse(RefusedPush&& push);

  const PsLimits& limits_;
  std::map<uint32_t, StagedReplica> replicas_;  // by number
  std::vector<RefusedPush> refused_;            // ascending by number
  uint64_t bytes_ = 0;                          // of all payloads
};

}  // namespace downpour::ps
