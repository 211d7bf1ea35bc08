// Phases: the phase of the job, and which phases may follow it.
#pragma once

#include <cstdint>

#include "chief/core/events.h"
#include "chief/core/turn.h"

namespace downpour::chief {

/// Returns true if the job may go from one phase to the other.
bool may_follow(Phase from, Phase to);

class Phases {
 public:
  Phase current() const { return phase_; }
  /// Returns the time since the phase began.
  int64_t lasted_ns(const Turn& turn) const { return turn.now_ns() - since_ns_; }
  /// Begins the time of the first phase.
  void start(const Turn& turn) { since_ns_ = turn.now_ns(); }
  /// Enters a phase that may follow the current one.
  void enter(const Turn& turn, Phase phase);

  bool gathering() const { return phase_ == Phase::kGathering; }
  bool training() const { return phase_ == Phase::kTraining; }
  bool saving() const { return phase_ == Phase::kSaving; }
  bool reconciling() const { return phase_ == Phase::kReconciling; }
  /// Returns true while the partitions are asked what they hold.
  bool in_round() const { return reconciling() || phase_ == Phase::kCompleting; }
  /// Returns true while the chief grants leases.
  bool leasing() const {
    return training() || phase_ == Phase::kEvaluating || phase_ == Phase::kPredicting;
  }
  /// Returns true while leases are valid. During a reconciliation none is granted.
  bool working() const { return leasing() || reconciling(); }
  /// Returns true if a checkpoint may begin, because the number of complete epochs is certain.
  bool may_save() const { return training() || phase_ == Phase::kCompleting || saving(); }
  bool stopping() const { return phase_ == Phase::kStopping; }
  bool finished() const { return phase_ == Phase::kFinished; }
  bool ending() const { return stopping() || finished(); }

 private:
  Phase phase_ = Phase::kGathering;
  int64_t since_ns_ = 0;
};

}  // namespace downpour::chief
