// Ownership: who owns which partition: the view that is published, what has lost its owner, and
// what is on its way to a new one.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <vector>

#include "shared/base/ids.h"
#include "shared/wire/messages.h"

namespace downpour::chief {

/// A ps core: which process, and which of its cores.
struct PsKey {
  Incarnation incarnation{};
  uint32_t thread = 0;
  auto operator<=>(const PsKey&) const = default;
};
inline PsKey key_of(const wire::Owner& owner) { return {owner.incarnation, owner.thread}; }

/// All partitions of a job as one chief sees them. A partition is given to a core (which is told to
/// adopt it), and is that core's with the next view that is published, once every core has what it
/// was given. Until then it is the old owner's, if that one lives.
class Ownership {
 public:
  /// `plan_hash` is what every view says.
  Ownership(uint32_t term, uint32_t partition_bits, uint64_t plan_hash = 0);

  /// The newest published view; {term, 0} and empty before the first.
  const wire::View& view() const { return view_; }
  bool published() const { return view_.id.n > 0; }
  uint32_t partition_count() const { return uint32_t(parts_.size()); }
  /// A view is published under which every partition has an owner that lives, and nothing is on its
  /// way.
  bool whole() const;
  /// The core's number in the published view.
  std::optional<uint32_t> owner_number(PsKey key) const;
  /// Whether the core owns a partition, or was given one.
  bool concerns(PsKey key) const;
  /// Partitions that it owns or was given.
  uint32_t load(PsKey key) const;

  /// Before the first view: the core holds this partition, since a view of an earlier term.
  void claim(PartitionId partition, const wire::Owner& by, ViewId ownership_generation);

  /// The core is gone: what it owns waits for another, and what it was given goes to another.
  /// Returns how many partitions that are; 0 where it was known to be gone.
  uint32_t lose(PsKey key, int64_t now_ns);
  /// It was not gone after all: what was not given to others meanwhile, and is not stale, is its
  /// own again. Returns how many partitions that are.
  uint32_t reinstate(PsKey key);
  /// Whether lose() was called for the core, and find() not since then.
  bool is_gone(PsKey key) const;

  /// Partitions without a living owner, or whose copies are stale, that were not given to anyone.
  struct Lost {
    wire::Owner was;  // incarnation 0: nobody's ever
    int64_t lost_ns = 0;
    std::vector<PartitionId> partitions;  // ascending
  };
  /// By former owner, ascending by (index, thread).
  std::vector<Lost> lost() const;

  /// Before the first view: all claims are void, and whatever was given goes to nobody.
  void forget_claims();
  /// Withdraws every gift that is not published yet: the partition stays its owner's, if that one
  /// lives, else it is lost again.
  void take_back();
  /// Every copy of every partition is stale, wherever it is: a partition is lost until it is given
  /// anew, also where its owner lives, is silent, or is about to leave.
  void invalidate();

  /// A number for giving: never used before in any view, and above all that are published.
  ViewId next_ownership_generation() { return {view_.id.term, ++last_n_}; }
  /// The last of these, or the view, if that is later.
  ViewId last_given() const { return {view_.id.term, last_n_}; }
  /// The partitions go to this core. One thing at a time: a core that adopts is given no more.
  void give(int64_t now_ns, const std::vector<PartitionId>& partitions, const wire::Owner& to,
            ViewId ownership_generation);
  /// Whether the core was given something and does not hold it yet; with `since`, that very thing.
  /// What was given of these partitions is taken back: the next view says that their owners keep
  /// them, as before, or since a number of its own where another core may hold them in vain: that
  /// one can never claim to be newer then.
  void keep(const std::vector<PartitionId>& partitions, std::optional<ViewId> ownership_generation);
  /// Partitions that it owns in the published view and that are on nobody's way, ascending.
  std::vector<PartitionId> owned(PsKey key) const;
  bool adopting(PsKey key, std::optional<ViewId> ownership_generation = {}) const;
  /// The core holds what it was given.
  void adopted(PsKey key);
  /// A core that was given something at `then_ns` or before and does not hold it yet.
  std::optional<wire::Owner> adopting_generation(int64_t then_ns) const;
  /// There is a view to publish, and every core that was given something holds it.
  bool ready() const;
  /// What was given is its new owner's from now on.
  const wire::View& publish();

 private:
  struct Core {
    wire::Owner owner;
    bool gone = false;
    int64_t gone_ns = 0;
  };
  struct Part {
    uint32_t owner = UINT32_MAX;  // into cores_
    ViewId ownership_generation;
    uint32_t successor = UINT32_MAX;  // given to
    ViewId successor_generation;
    bool stale = false;  // the owner's copy counts no more
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
  std::vector<Core> cores_;  // every core that owns, or was given, something
  std::vector<Part> parts_;
  std::vector<Adoption> adoptions_;
  bool kept_ = false;  // the next view says so
};

}  // namespace downpour::chief
