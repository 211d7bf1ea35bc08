#include "chief/core/run/phases.h"

#include <algorithm>
#include <array>
#include <utility>

#include "shared/base/check.h"

namespace downpour::chief {

bool may_follow(Phase from, Phase to) {
  using enum Phase;
  // Every phase but the last may also end the job. A phase that follows itself begins anew.
  static constexpr std::array kAllowed = {
      std::pair{kGathering, kAdopting},
      std::pair{kAdopting, kGathering},  // all ps are gone, and everything goes back
      std::pair{kAdopting, kReconciling},
      std::pair{kAdopting, kTraining},
      std::pair{kAdopting, kEvaluating},
      std::pair{kAdopting, kPredicting},
      std::pair{kAdopting, kSaving},  // a stop came before the first view
      std::pair{kTraining, kCompleting},
      std::pair{kTraining, kReconciling},
      std::pair{kTraining, kSaving},
      std::pair{kCompleting, kTraining},
      std::pair{kCompleting, kEvaluating},
      std::pair{kCompleting, kReconciling},
      std::pair{kCompleting, kSaving},
      std::pair{kReconciling, kReconciling},
      std::pair{kReconciling, kTraining},
      std::pair{kReconciling, kEvaluating},
      std::pair{kReconciling, kSaving},
      std::pair{kEvaluating, kTraining},
      std::pair{kEvaluating, kReconciling},
      std::pair{kEvaluating, kSaving},
      std::pair{kSaving, kTraining},
      std::pair{kSaving, kReconciling},
      std::pair{kSaving, kSaving},
  };
  if (from == kFinished) return false;
  if (to == kFinished) return true;
  if (to == kStopping) return from != kStopping;
  return std::find(kAllowed.begin(), kAllowed.end(), std::pair{from, to}) != kAllowed.end();
}

void Phases::enter(const Turn& turn, Phase phase) {
  DP_CHECK(may_follow(phase_, phase), int(phase_), int(phase));
  phase_ = phase;
  since_ns_ = turn.now_ns();
}

}  // namespace downpour::chief
