// Staging: fragments of parts larger than a frame, kept until all are there and can be applied
// whole.
#pragma once

#include <cstdint>
#include <list>
#include <vector>

#include "ps/core/bits.h"
#include "ps/core/events.h"
#include "shared/base/bytes.h"

namespace downpour::ps {

/// One fragment as it came: its payload stays in the receive buffer.
struct Fragment {
  wire::Push push;
  Bytes keys;
  Bytes values;
};

/// The fragments of one batch from one worker for one covered set.
struct Stage {
  Incarnation worker{};
  BatchId batch;
  Bits covered;
  int64_t born_ns = 0;
  uint64_t bytes = 0;
  uint32_t present = 0;
  std::vector<Fragment> fragments;  // by index; push.fragments is 0 where it has not come yet
};

/// Stages in order of birth, bounded by PsLimits: the oldest goes first.
class Staging {
 public:
  explicit Staging(const PsLimits& limits) : limits_(limits) {}

  struct Added {
    Stage* whole = nullptr;  // where this fragment was the last one
    bool too_large = false;  // the stage alone is beyond the limits; it was dropped
  };
  /// Keeps a fragment. One that is there already changes nothing; one that differs from it in cut
  /// begins the stage anew (its sender has cut the batch otherwise).
  Added add(const wire::Push& push, const Bits& covered, const Bytes& keys, const Bytes& values,
            int64_t now_ns);
  /// Ends a stage: applied, or no longer of use.
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
