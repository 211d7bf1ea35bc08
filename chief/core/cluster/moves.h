// Moves: moves partitions between live ps, a few at a time, while training continues.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "chief/core/cluster/balance.h"
#include "chief/core/cluster/ownership.h"
#include "chief/core/cluster/ps_cores.h"
#include "chief/core/turn.h"

namespace downpour::chief {

/// Moves bundles of partitions from one core to another: to give all cores equal numbers of
/// partitions, away from a ps that leaves, or away from a busy core. At most one bundle moves at a
/// time. The source freezes and writes the partitions, the target adopts them, and the next view
/// makes the target their owner.
class Moves {
 public:
  struct Counts {
    uint32_t partitions = 0;   // moved
    uint32_t offloaded = 0;    // of those, moved because their core was busy
    int64_t pause_ns_max = 0;  // longest time in which no ps served a moving bundle
  };

  Moves(const ChiefConfig& config, Membership& members, Ownership& ownership)
      : config_(config), members_(members), ownership_(ownership) {}

  bool under_way() const { return move_.has_value(); }
  /// Returns true if this is the ownership generation of the current move.
  bool is_current(ViewId ownership_generation) const {
    return move_ && move_->ownership_generation == ownership_generation;
  }
  const Counts& counts() const { return counts_; }

  /// Marks the cores of a ps process as leaving, so that their partitions move away. Marks nothing
  /// if the process holds partitions that cannot move. Returns true if the job must stop, because
  /// no other ps can take the partitions. Returns false if the departure has begun, or if it cannot
  /// be decided yet because a silent ps may return or some partition has no live owner; the ps then
  /// repeats its request.
  [[nodiscard]] bool begin_leaving(Turn& turn, const Member& member);
  /// Withdraws all departures if no live ps stays, because no ps could then receive the partitions.
  void check_leaving();
  /// Returns true if the current move takes too long.
  bool overdue(const Turn& turn) const;
  /// Stops each leaving ps that no longer owns partitions.
  void dismiss_drained_ps(Turn& turn);
  /// Returns true if the wait after the last move is over and no request is pending.
  bool may_begin(const Turn& turn) const;
  /// Begins the next move if one is wanted. Requires may_begin().
  void begin_next(Turn& turn);
  /// Sends a probe (an Adopt without partitions, which changes nothing) to each ps core that has
  /// not answered an Adopt yet. Only a core that has answered one receives partitions.
  void probe_ps(Turn& turn);

  /// Sends the images of the source to the target. `adopt` has the epochs and markers that the
  /// target must know. Returns the reason if the move must be cancelled.
  std::optional<std::string> on_frozen(Turn& turn, const Member& member, wire::Frozen&& frozen,
                                       Bytes&& inlined, wire::Adopt&& adopt);
  /// Cancels the current move. Then a view that names the source as owner must follow as soon as
  /// ownership is ready. Only such a view lets the source serve the partitions again.
  void cancel(Turn& turn, const std::string& why);
  /// Delays the next move to the target by 30 s, doubling with each failure, because the target did
  /// not take over the partitions that it was sent.
  void blame_target(Turn& turn);

  /// Takes the load that a core reports.
  void take_report(PsKey ps, const wire::Heartbeat& heartbeat) { work_.take(ps, heartbeat); }
  /// Completes the current move, because a view was published.
  void on_view_published(Turn& turn);
  /// Forgets the load of a core that is lost. Returns true if the current move cannot continue
  /// without it.
  bool forget_ps(PsKey ps);
  /// Call when a core that was lost has returned and still owns `found` partitions. If a move from
  /// this core was cancelled while the core was lost, the next view confirms the core as the owner
  /// of the frozen partitions, so that it serves them again.
  void on_ps_returned(PsKey ps, uint32_t found);

 private:
  /// A bundle of partitions that moves between two live cores.
  struct Move {
    PsKey source, target;
    ViewId ownership_generation;
    std::vector<PartitionId> partitions;
    int64_t begun_ns = 0;
    int64_t frozen_ns = 0;  // when Frozen arrived
    Bytes inlined;          // small images that came with Frozen
    bool given = false;     // Adopt was sent to the target
    bool offloads = false;  // the move offloads a busy core
  };
  /// Partitions move only to a core that has answered an Adopt. A core that joins a running job
  /// first answers an Adopt without partitions (a probe), then gets one partition. Each failure
  /// after Adopt was sent doubles the pause before the next move to it.
  struct Target {
    uint32_t failures = 0;
    int64_t move_at_ns = 0;  // earliest time of the next move to it
    uint32_t probes = 0;
    int64_t probe_at_ns = 0;  // earliest time of the next probe
  };
  struct Offloading {
    PsKey source, target;
    std::vector<PartitionId> partitions;  // not moved yet
  };

  Member* find(PsKey ps) const { return members_.find(wire::Role::kPs, ps.incarnation, ps.thread); }
  bool takes_partitions(const Turn& turn, const Member& member) {
    return member.answers && !member.leaving &&
           turn.now_ns() >= targets_[ps_key(member)].move_at_ns;
  }
  bool rebalance(Turn& turn);
  void offload(Turn& turn);
  bool continue_offloading(Turn& turn);
  void begin_move(Turn& turn, Member& source, Member& target, std::vector<PartitionId> partitions);
  void settle(Turn& turn);
  int64_t timeout_ns() const;

  const ChiefConfig& config_;
  Membership& members_;
  Ownership& ownership_;
  std::optional<Move> move_;
  // Moves that were cancelled while the source was lost. The source may still have the partitions
  // frozen.
  std::map<PsKey, Move> unresolved_;
  std::map<PsKey, Target> targets_;
  uint32_t move_size_ = 4;
  int64_t move_at_ns_ = 0;     // earliest time of the next move
  uint32_t moves_failed_ = 0;  // recent failures; a success halves the number
  bool rebalancing_ = false;   // the numbers of partitions are being evened out
  WorkReports work_;
  std::optional<Offloading> offloading_;
  int64_t offload_at_ns_ = 0;  // earliest time of the next decision to offload
  Counts counts_;
};

}  // namespace downpour::chief
