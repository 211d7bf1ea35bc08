// Ownership: the owner of each partition. Holds the published view, the partitions without an
// owner, and those assigned to a new one.
//
// A *view* is the table of the owners of all partitions, numbered (term, n). The *ownership
// generation* of a partition is the number (term, n) under which its owner received it, or kept it
// after a cancelled move; view and generation numbers come from one counter. To a new chief, a ps
// core *claims* the partitions that it holds, each with its generation. Of several claims to a
// partition, the one with the highest generation wins.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <vector>

#include "shared/base/ids.h"
#include "shared/wire/member_messages.h"

namespace downpour::chief {

/// Identifies a ps core: its process, and its number in that process.
struct PsKey {
  Incarnation incarnation{};
  uint32_t thread = 0;
  auto operator<=>(const PsKey&) const = default;
};
inline PsKey key_of(const wire::Owner& owner) { return {owner.incarnation, owner.thread}; }

/// The owners of all partitions, as one chief sees them. A new owner takes over in three steps:
/// - The chief assigns the partition to a core (give()).
/// - The core adopts the partition: it loads the image, or begins empty.
/// - The next view names the core as the owner. It is published when every core has adopted what it
///   was assigned. Until then the old owner keeps the partition, if it is alive.
class Ownership {
 public:
  /// Creates the state before the first view. Every view carries `plan_hash`.
  Ownership(uint32_t term, uint32_t partition_bits, uint64_t plan_hash = 0);

  /// Returns the newest published view. Before the first one: a view without owners, numbered
  /// {term, 0}.
  const wire::View& view() const { return view_; }
  bool published() const { return view_.id.n > 0; }
  uint32_t partition_count() const { return uint32_t(parts_.size()); }
  /// Returns true if a view is published, every partition has a live owner in it, and no assignment
  /// is pending.
  bool whole() const;
  /// Returns the core's index into `owners` of the published view; none if it owns nothing there.
  std::optional<uint32_t> owner_number(PsKey key) const;
  /// Returns true if the core owns a partition or was assigned one.
  bool concerns(PsKey key) const;
  /// Returns the number of partitions that are assigned to the core, or that it owns and that are
  /// assigned to no other core.
  uint32_t load(PsKey key) const;

  /// Records, before the first view, that the chief accepts the claim of a core to this partition.
  /// The generation must be of an earlier term.
  void claim(PartitionId partition, const wire::Owner& by, ViewId ownership_generation);

  /// Marks the core as lost and withdraws its assignments. The partitions that it owns are lost:
  /// they wait for a core. A partition that was only assigned to it stays with its owner if the
  /// owner is alive and its copy is not stale; otherwise it is lost, too. Returns the load() that
  /// the core had; 0 if it was lost already.
  uint32_t lose(PsKey key, int64_t now_ns);
  /// Undoes lose(), because the core has returned. It keeps its partitions, except those that are
  /// stale or were assigned to another core meanwhile. Returns the number of those that it keeps.
  uint32_t reinstate(PsKey key);
  /// Returns true after lose(), until reinstate().
  bool is_gone(PsKey key) const;

  /// Partitions of one former owner that wait for a core: their owner is not alive or its copies
  /// are stale (see invalidate()), and no core is assigned.
  struct Lost {
    wire::Owner was;  // former owner; incarnation 0: there was none
    int64_t lost_ns = 0;
    std::vector<PartitionId> partitions;  // ascending
  };
  /// Returns the lost partitions by former owner, ascending by (index, thread).
  std::vector<Lost> lost() const;

  /// Discards all claims and assignments, before the first view.
  void forget_claims();
  /// Withdraws all assignments of give() that no view has published yet. A partition stays with its
  /// owner if the owner is alive and its copy is not stale; otherwise it is lost again.
  void take_back();
  /// Marks the copy of every owner as stale, because all partitions must be restored from an older
  /// checkpoint. Each partition is lost until it is assigned anew, even if its owner is alive.
  void invalidate();

  /// Returns a new generation. It is higher than all published views and all earlier generations.
  ViewId next_ownership_generation() { return {view_.id.term, ++last_n_}; }
  /// Returns the newest generation or view, whichever is higher. A manifest contains it, so that a
  /// later chief recognizes claims that are newer than the checkpoint.
  ViewId last_given() const { return {view_.id.term, last_n_}; }
  /// Assigns the partitions to core `to` under this generation. Requires that the core is not lost
  /// and is not adopting others.
  void give(int64_t now_ns, const std::vector<PartitionId>& partitions, const wire::Owner& to,
            ViewId ownership_generation);
  /// Withdraws the assignments of these partitions, for example because a move was cancelled. The
  /// next view confirms each owner that is alive and whose copy is not stale.
  ///
  /// If `ownership_generation` is given, the next view names it; otherwise the owners keep theirs.
  /// - It must be given if another core may have adopted a copy. Otherwise the copy would have the
  ///   newer generation, and a later chief would prefer the claim of that core.
  /// - It must not be given if the owner may still serve the partitions, because the owner would
  ///   drop partitions whose generation changes.
  void keep(const std::vector<PartitionId>& partitions, std::optional<ViewId> ownership_generation);
  /// Returns the partitions of which the core is the owner, ascending. Leaves out stale ones, and
  /// those that the next view assigns (give()) or confirms (keep()).
  std::vector<PartitionId> owned(PsKey key) const;
  /// Returns true if the core was assigned partitions and has not adopted them yet; if a generation
  /// is given, only under that generation.
  bool adopting(PsKey key, std::optional<ViewId> ownership_generation = {}) const;
  /// Records that the core has adopted the partitions that it was assigned.
  void adopted(PsKey key);
  /// Returns a core that was assigned partitions at `then_ns` or earlier and has not adopted them
  /// yet.
  std::optional<wire::Owner> overdue_adopter(int64_t then_ns) const;
  /// Returns true if there is something to publish, and every core has adopted what it was
  /// assigned. For the first view, every partition must have an owner.
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
  uint32_t last_n_ = 0;      // of the newest generation or view
  std::vector<Core> cores_;  // every core that owns or was assigned a partition
  std::vector<Part> parts_;
  std::vector<Adoption> adoptions_;
  bool kept_ = false;  // keep() was called since the newest view
};

}  // namespace downpour::chief
