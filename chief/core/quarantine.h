// Quarantine: batches that the job does without. What the chief knows of them, and how a batch that
// was proposed is decided: for all partitions alike.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "shared/wire/messages.h"

namespace downpour::chief {

/// The lines of all unsealed epochs. A line is proposed, told to every partition in one round, and
/// decided by what they answer: if none has applied the batch it is given up for good, else the
/// line is withdrawn for good. A line that some partition tells of (a chief before this one
/// proposed it) is proposed anew: it comes out the same.
class Quarantine {
 public:
  enum class State : uint8_t { kProposed, kQuarantined, kWithdrawn };
  struct Marker {
    State state = State::kProposed;
    bool told = false;  // in the round under way
    std::string why;    // empty: a chief before this one knew
  };

  /// There may be lines that this chief has not heard of.
  void forget_what_others_know() { known_ = false; }
  bool known() const { return known_; }

  /// False if there is a line for the batch already.
  bool propose(BatchId batch, std::string why);
  const Marker* find(BatchId batch) const;
  size_t size() const { return markers_.size(); }

  /// What a StatusRequest or an Adopt carries.
  std::vector<wire::QuarantineMarker> markers() const;
  /// A round begins that tells all of them to everybody.
  void begin_round();
  struct Decision {
    BatchId batch;
    State state{};
    std::string why;
  };
  /// The round has ended validly: `answers`, merged over all partitions. Returns what is decided.
  std::vector<Decision> end_round(const std::vector<wire::QuarantineMarker>& answers);
  /// Something is to be told or to be decided: nobody may be given a shard of the epoch before
  /// another round.
  bool wants_round() const { return wants_round_; }
  /// A partition knows of a line that this chief does not.
  void ask_again() { wants_round_ = true; }

  /// Batches of a shard that are given up, ascending.
  std::vector<uint32_t> quarantined_batches(ShardId shard) const;
  void forget_below(uint32_t epoch);

 private:
  std::map<BatchId, Marker> markers_;
  bool known_ = true;
  bool wants_round_ = false;
};

}  // namespace downpour::chief
