// Recovery: assigns partitions to ps cores: at the start of the job, and after a ps is lost.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "chief/core/cluster/moves.h"
#include "chief/core/cluster/ownership.h"
#include "chief/core/cluster/ps_cores.h"
#include "chief/core/cluster/restore_point.h"
#include "chief/core/turn.h"

namespace downpour::chief {

/// Decides which core holds which partitions. A core restores partitions from a RestorePoint, or
/// creates them empty if the point has no images. The parameter `common` of several functions is an
/// Adopt without partitions. It has the fields that are the same for every core: sealed epochs,
/// quarantine markers and plan hash.
class Recovery {
 public:
  struct Claim {
    const Member* by = nullptr;
    ViewId ownership_generation;
  };
  /// The first placement.
  struct Plan {
    bool ready = false;  // false: more ps may still come
    // The data have changed within an epoch, and a core holds batches of the old ones. This chief
    // must end, but not stop ps and workers, because a chief with the right data can continue with
    // what they hold.
    std::optional<Error> refused;
    std::vector<Claim> claims;  // by partition, the best one; without `by` if there is none
    bool claimed() const;
  };
  /// What an Adopted means.
  enum class AdoptEvent : uint8_t { kNone, kAdopted, kMoveFailed, kDamaged };
  struct Loss {
    uint32_t partitions = 0;  // lost; 0: the core owned nothing, or was lost already
    bool ends_move = false;   // the current move cannot continue without the core
  };
  /// A core that takes too long to adopt its partitions.
  struct Overdue {
    // The core, which now counts as lost. Null: no other core answers, and the job fails with
    // `error`.
    Member* member = nullptr;
    std::string why;  // reason of the loss
    Error error;
  };

  Recovery(const ChiefConfig& config, Membership& members, Ownership& ownership, Moves& moves)
      : config_(config), members_(members), ownership_(ownership), moves_(moves) {}

  /// Decides whether every partition can get an owner now: the core with the best claim, or else a
  /// core that restores the partition from the newest checkpoint, which holds `sealed_epochs`
  /// sealed epochs.
  Plan plan(const Turn& turn, uint32_t sealed_epochs);
  /// Carries out a plan that is ready and not refused.
  void place(Turn& turn, const Plan& plan, const RestorePoint& point, const wire::Adopt& common);
  /// Places all partitions anew, before the first view. Returns false if there is no ps.
  bool place_anew(Turn& turn, const RestorePoint& point, const wire::Adopt& common);
  /// Sends the next view to all members. Requires Ownership::ready().
  void publish_view(Turn& turn);
  AdoptEvent on_adopted(Turn& turn, Member& member, const wire::Adopted& adopted);
  /// Marks a ps core as lost. Its partitions wait for a ps of the same index. This call rolls
  /// back no other partition.
  Loss lose(Turn& turn, const Member& member, const std::string& why);
  /// Handles the return of a ps core that was silent or replaced. It keeps the partitions that were
  /// not assigned to another core meanwhile. Returns their number.
  uint32_t reinstate(const Member& member);
  /// Assigns lost partitions to the core with the same index and number. If there is none, assigns
  /// them after `ps_wait_ns` to all cores.
  void restore(Turn& turn, const RestorePoint& point, const wire::Adopt& common);
  /// Returns a core that exceeds ChiefConfig::adopt_timeout_ns; nothing if there is none.
  std::optional<Overdue> overdue(const Turn& turn);
  /// Returns the error that fails the job if there has been no live ps for too long.
  std::optional<Error> check_none(const Turn& turn);
  /// Returns true if some partition was restored or began empty since the last call.
  bool take_rolled_back() { return std::exchange(rolled_back_, false); }
  /// Returns the error of a job whose ps do not come.
  Error missing_ps() const;

 private:
  std::vector<Claim> best_claims(const std::vector<Member*>& cores, uint32_t sealed_epochs) const;
  Error other_data(const Member& holder, uint32_t sealed_epochs) const;
  const Member* drop_claims_of_other_plans(std::vector<Claim>& claims) const;
  void give_ranges(Turn& turn, const std::vector<Member*>& cores, const RestorePoint& point,
                   const wire::Adopt& common);
  void adopt(Turn& turn, Member& member, std::vector<PartitionId> partitions,
             ViewId ownership_generation, const RestorePoint& point, wire::Adopt adopt);
  void spread(Turn& turn, const std::vector<PartitionId>& partitions,
              const std::vector<Member*>& cores, ViewId ownership_generation,
              const RestorePoint& point, const wire::Adopt& common);
  Member* successor_of(const wire::Owner& was);

  const ChiefConfig& config_;
  Membership& members_;
  Ownership& ownership_;
  Moves& moves_;
  bool rolled_back_ = false;
  int64_t claims_ns_ = -1;  // when the wait for the remaining claims began; -1: not yet
  int64_t no_ps_ns_ = -1;   // since when there is no live ps; -1: there is one
};

}  // namespace downpour::chief
