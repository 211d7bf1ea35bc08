// Quarantine: the batches that the job leaves out. The chief decides about each proposed batch
// once, for all partitions.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "shared/wire/messages.h"

namespace downpour::chief {

/// The quarantine markers of all unsealed epochs. A proposed marker is sent to every partition in
/// one round, and their answers decide. If no partition has applied the batch, it is quarantined;
/// otherwise the marker is withdrawn. Both decisions are final. A marker that a partition reports,
/// because an earlier chief proposed it, is proposed again; the decision is the same.
class Quarantine {
 public:
  enum class State : uint8_t { kProposed, kQuarantined, kWithdrawn };
  struct Marker {
    State state = State::kProposed;
    bool sent = false;  // a round that sends it has begun
    std::string why;    // empty: reported by a partition
  };

  /// Records that partitions may hold markers that this chief does not know.
  void forget_what_others_know() { known_ = false; }
  bool known() const { return known_; }

  /// Proposes a batch. Returns false if it has a marker already.
  bool propose(BatchId batch, std::string why);
  const Marker* find(BatchId batch) const;
  size_t size() const { return markers_.size(); }

  /// Returns the markers, as StatusRequest and Adopt carry them.
  std::vector<wire::QuarantineMarker> markers() const;
  /// Records the beginning of a round that sends all markers to all partitions.
  void begin_round();
  struct Decision {
    BatchId batch;
    State state{};
    std::string why;
  };
  /// Takes the answers of a valid round, merged over all partitions. Returns the decisions.
  std::vector<Decision> end_round(const std::vector<wire::QuarantineMarker>& answers);
  /// Returns true if markers must be sent, or some are still undecided. Then no shard of
  /// the current epoch may be leased before another round has ended.
  bool wants_round() const { return wants_round_; }
  /// Requests another round, because a partition knows a marker that this chief does not know.
  void ask_again() { wants_round_ = true; }

  /// Returns the quarantined batches of a shard, ascending.
  std::vector<uint32_t> quarantined_batches(ShardId shard) const;
  void forget_below(uint32_t epoch);

 private:
  std::map<BatchId, Marker> markers_;
  bool known_ = true;
  bool wants_round_ = false;
};

}  // namespace downpour::chief
