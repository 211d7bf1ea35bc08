// Rounds: the current round, of the completion of an epoch or of a reconciliation, and the time at
// which a void round is repeated.
#pragma once

#include <cstdint>
#include <string>

#include "chief/core/turn.h"
#include "chief/core/work/completion.h"

namespace downpour::chief {

/// Numbers the rounds of this chief. At most one is running.
class Rounds {
 public:
  explicit Rounds(const ChiefConfig& config) : config_(config) {}

  CompletionRound& current() { return round_; }
  uint64_t number() const { return round_.round(); }
  /// Returns true after repeat(), until the round is begun again or cancelled.
  bool waits() const { return at_ns_ > 0; }
  /// Returns true if the pause before the next round is over.
  bool due(const Turn& turn) const { return at_ns_ > 0 && turn.now_ns() >= at_ns_; }

  /// Begins a round.
  void begin(Turn& turn, uint32_t epoch, const EpochExtent& extent, const wire::View& view);
  /// Drops a round that waits to be repeated.
  void cancel_repeat() { at_ns_ = 0; }
  /// Drops the running round, because ownership has changed or is about to change.
  void interrupt(Turn& turn);
  /// Voids the round, because ownership differs from what the round assumed. Another one is due
  /// after a pause. Returns false if too many rounds in a row were void.
  [[nodiscard]] bool repeat(Turn& turn, const std::string& why);
  /// Resets the number of void rounds, because a round was valid or an epoch begins.
  void forget_void() { void_rounds_ = 0; }

 private:
  const ChiefConfig& config_;
  CompletionRound round_;
  uint64_t last_round_ = 0;
  uint32_t void_rounds_ = 0;  // in a row
  int64_t at_ns_ = 0;         // > 0: when to begin another round
};

}  // namespace downpour::chief
