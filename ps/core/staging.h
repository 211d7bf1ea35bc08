// Staging: keeps the fragments of a part that is larger than a frame, until the part is complete
// and can be applied as a whole.
#pragma once

#include <cstdint>
#include <list>
#include <vector>

#include "ps/core/bits.h"
#include "ps/core/events.h"
#include "shared/base/bytes.h"

namespace downpour::ps {

/// One fragment as it arrived. Its payload stays in the receive buffer.
struct Fragment {
  wire::Push push;
  Bytes keys;
  Bytes values;
};

/// The fragments that one worker has sent of one batch for the partitions in Push::covered. Workers
/// divide only the part of a single partition into fragments.
struct Stage {
  Incarnation worker{};
  BatchId batch;
  Bits covered;
  uint64_t step = 0;  // of all fragments, see wire::Push
  int64_t born_ns = 0;
  uint64_t bytes = 0;
  uint32_t present = 0;
  std::vector<Fragment> fragments;  // by index; push.fragments is 0 if missing
};

/// Stages in order of creation, bounded by PsLimits. Beyond a limit, the oldest stage is dropped
/// first; beyond the limit of one worker, the oldest stage of that worker.
class Staging {
 public:
  explicit Staging(const PsLimits& limits) : limits_(limits) {}

  struct Added {
    Stage* whole = nullptr;  // set if this fragment was the last one
    bool too_large = false;  // the stage alone exceeds the limits; it was dropped
  };
  /// Keeps a fragment. A repeated fragment changes nothing. A fragment that is cut differently
  /// replaces the whole stage, because its sender has divided the batch anew. So does a fragment
  /// of another step, because its gradients are of other values.
  Added add(const wire::Push& push, const Bits& covered, const Bytes& keys, const Bytes& values,
            int64_t now_ns);
  /// Ends a stage that was applied or that is no longer needed.
  void erase(Incarnation worker, BatchId batch, const Bits& covered);
  void expire(int64_t now_ns);
  void clear();

  uint64_t bytes() const { return bytes_; }
  size_t size() const { return stages_.size(); }

 private:
  using Position = std::list<Stage>::iterator;
  Position find(Incarnation worker, BatchId batch, const Bits& covered);
  Position erase_at(Position stage);
  Position begin(const wire::Push& push, const Bits& covered, int64_t now_ns);
  bool make_room(const Stage& keep, uint64_t bytes);

  PsLimits limits_;
  std::list<Stage> stages_;
  uint64_t bytes_ = 0;
};

}  // namespace downpour::ps
