// BackupOrder: which batches a worker computes first, if synchronous steps have backups.
#pragma once

#include <algorithm>
#include <cstdint>

#include "shared/base/ids.h"

namespace downpour::worker {

/// With backups, a step is applied without the batches that come last. A worker that holds more
/// replicas than it computes at once is often the last one: its second batch is left out. It then
/// does two things. It computes first what was left out, so that all of its replicas advance. And
/// it begins fewer batches, because one that is left out would delay the next step. The others
/// begin when the first ones have waited for their step as long as their computation has taken:
/// the step may need them.
///
/// A step is *over* if a ps has applied it. Values that were pulled for it are outdated.
class BackupOrder {
 public:
  BackupOrder() = default;
  /// `at_once`: batches that the worker computes at the same time.
  BackupOrder(bool enabled, uint32_t at_once) : enabled_(enabled), at_once_(at_once) {}

  /// Without backups nothing is left out, and every batch begins at once.
  bool enabled() const { return enabled_; }
  bool is_over(uint64_t step) const { return step <= over_; }
  /// Records that a ps has applied the step, as the worker learned under `view`. Returns false if
  /// that was known.
  bool pass(uint64_t step, ViewId view) {
    if (!enabled_ || is_over(step)) return false;
    over_ = step;
    view_ = view;
    return true;
  }
  /// Takes the oldest ownership generation of a new view. If it is newer than the view under which
  /// a step was over, all partitions have returned to an earlier step, and no step is over.
  void on_view(ViewId oldest_generation) {
    if (oldest_generation > view_) over_ = 0;
  }
  /// Sets how many of the worker's batches the newest step has left out.
  void set_left_out(uint32_t count) { left_out_ = count; }
  void add_left_out() { ++left_out_; }

  /// Returns how many of `count` batches for the next step begin at once.
  uint32_t begins(uint32_t count) const {
    return std::max({1U, at_once_, count - std::min(count, left_out_)});
  }
  /// Records that a batch is computed, `took_ns` after its pull.
  void on_computed(int64_t now_ns, int64_t took_ns) {
    computed_ns_ = now_ns;
    took_ns_ = took_ns;
  }
  /// Returns when the other batches may begin, once all that have begun are computed.
  int64_t others_begin_ns() const { return computed_ns_ + took_ns_; }

 private:
  bool enabled_ = false;
  uint32_t at_once_ = 1;
  uint64_t over_ = 0;  // the newest step that is over
  ViewId view_;        // under which it was applied
  uint32_t left_out_ = 0;
  int64_t computed_ns_ = 0, took_ns_ = 0;  // of the newest computed batch
};

}  // namespace downpour::worker
