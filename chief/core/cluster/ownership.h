// Ownership: which ps core owns each partition: the published view, the partitions that have lost
// their owner, and those that were assigned to a new one.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <vector>

#include "shared/base/ids.h"
#include "shared/wire/messages.h"

namespace downpour::chief {

/// Identifies a ps core: its process, and its number in that process.
struct PsKey {
  Incarnation incarnation{};
  uint32_t thread = 0;
  auto operator<=>(const PsKey&) const = default;
};
inline PsKey key_of(const wire::Owner& owner) { return {owner.incarnation, owner.thread}; }

/// The owners of all partitions, as one chief sees them. A partition is assigned to a core, which
/// must then adopt it. The core becomes the owner with the next published view. A view is published
/// when every core holds what it was assigned. Until then the old owner keeps the partition, if it
/// is alive.
class Ownership {
 public:
  /// Every view carries `plan_hash`.
  Ownership(uint32_t term, uint32_t partition_bits, uint64_t plan_hash = 0);

  /// Returns the newest published view; {term, 0} and empty before the first one.
  const wire::View& view() const { return view_; }
  bool published() const { return view_.id.n > 0; }
  uint32_t partition_count() const { return uint32_t(parts_.size()); }
  /// Returns true if a view is published, every partition has a live owner in it, and no assignment
  /// is pending.
  bool whole() const;
  /// Returns the core's owner number in the published view; none if it owns nothing there.
  std::optional<uint32_t> owner_number(PsKey key) const;
  /// Returns true if the core owns a partition or was assigned one.
  bool concerns(PsKey key) const;
  /// Returns the number of partitions that the core owns or was assigned.
  uint32_t load(PsKey key) const;

  /// Records, before the first view, that the core holds this partition under a generation of an
  /// earlier term.
  void claim(PartitionId partition, const wire::Owner& by, ViewId ownership_generation);

  /// Marks the core as lost. Its partitions wait for another core, and what it was assigned goes to
  /// another one. Returns their number; 0 if the core was lost already.
  uint32_t lose(PsKey key, int64_t now_ns);
  /// Takes back lose(). The core keeps its partitions, except those that are stale or were assigned
  /// to another core meanwhile. Returns the number of those that it keeps.
  uint32_t reinstate(PsKey key);
  /// Returns true after lose(), until reinstate().
  bool is_gone(PsKey key) const;

  /// Partitions without a live owner, or with stale copies, that are not assigned to a core.
  struct Lost {
    wire::Owner was;  // former owner; incarnation 0: there was none
    int64_t lost_ns = 0;
    std::vector<PartitionId> partitions;  // ascending
  };
  /// Returns the lost partitions by former owner, ascending by (index, thread).
  std::vector<Lost> lost() const;

  /// Discards all claims and assignments, before the first view.
  void forget_claims();
  /// Withdraws all assignments that are in no view yet. A partition stays with its owner if that
  /// one is alive; otherwise it is lost again.
  void take_back();
  /// Marks every copy of every partition as stale. Each partition is lost until it is assigned
  /// anew, even if its owner is alive, silent or leaving.
  void invalidate();

  /// Returns a new generation: higher than all published views, and never used before.
  ViewId next_ownership_generation() { return {view_.id.term, ++last_n_}; }
  /// Returns the highest number assigned so far: the newest generation or the published view.
  ViewId last_given() const { return {view_.id.term, last_n_}; }
  /// Assigns the partitions to this core. A core that is still adopting must not be assigned more.
  void give(int64_t now_ns, const std::vector<PartitionId>& partitions, const wire::Owner& to,
            ViewId ownership_generation);
  /// Withdraws the assignments of these partitions. The next view confirms their owners, if those
  /// are alive. Their generation changes only if `ownership_generation` is given. It must be given
  /// if another core may already hold a copy, because otherwise that core's claim would be newer.
  void keep(const std::vector<PartitionId>& partitions, std::optional<ViewId> ownership_generation);
  /// Returns the partitions that the core owns in the published view and that are not assigned to
  /// another core, ascending.
  std::vector<PartitionId> owned(PsKey key) const;
  /// Returns true if the core was assigned partitions, under this generation if one is given, and
  /// does not hold them yet.
  bool adopting(PsKey key, std::optional<ViewId> ownership_generation = {}) const;
  /// Records that the core holds what it was assigned.
  void adopted(PsKey key);
  /// Returns the owner data of a core that was assigned partitions at `then_ns` or earlier and does
  /// not hold them yet.
  std::optional<wire::Owner> overdue_adopter(int64_t then_ns) const;
  /// Returns true if a view must be published and every core holds what it was assigned.
  bool ready() const;
  /// Publishes the next view, in which each assigned partition belongs to its successor.
  const wire::View& publish();

 private:
  struct Core {
    wire::Owner owner;
    bool gone = false;
    int64_t gone_ns = 0;
  };
  struct Part {
    uint32_t owner = UINT32_MAX;  // index into cores_
    ViewId ownership_generation;
    uint32_t successor = UINT32_MAX;  // the core that it is assigned to
    ViewId successor_generation;
    bool stale = false;  // the owner's copy is outdated
  };
  struct Adoption {
    uint32_t core = 0;
    ViewId ownership_generation;
    int64_t begun_ns = 0;
    bool done = false;
  };
  uint32_t number_of(PsKey key) const;
  uint32_t enlist(const wire::Owner& owner);
  bool is_lost(const Part& part) const {
    return part.successor == UINT32_MAX &&
           (part.owner == UINT32_MAX || part.stale || cores_[part.owner].gone);
  }

  wire::View view_;
  uint32_t last_n_ = 0;
  std::vector<Core> cores_;  // every core that owns or was assigned a partition
  std::vector<Part> parts_;
  std::vector<Adoption> adoptions_;
  bool kept_ = false;  // keep() was called since the newest view
};

}  // namespace downpour::chief
