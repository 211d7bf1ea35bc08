// The ps cores among the members: how other tables name them, and which may own partitions.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "chief/core/cluster/ownership.h"
#include "chief/core/membership.h"

namespace downpour::chief {

inline PsKey ps_key(const Member& member) { return {member.incarnation(), member.hello.thread}; }

inline wire::Owner owner_from(const Member& m) {
  return {m.hello.index, m.hello.thread, m.incarnation(), m.hello.endpoint};
}

/// Returns the ps cores that are live and not leaving, by index and core number.
inline std::vector<Member*> ps_cores(Membership& members) {
  std::vector<Member*> cores;
  for (Member& m : members) {
    if (m.is_ps() && m.live() && !m.leaving) cores.push_back(&m);
  }
  std::sort(cores.begin(), cores.end(), [](const Member* a, const Member* b) {
    return std::pair(a->hello.index, a->hello.thread) < std::pair(b->hello.index, b->hello.thread);
  });
  return cores;
}

/// Calls visit(owner number, member) for the owners of the view that have not left, in the order of
/// their numbers.
template <typename Visit>
void for_each_owner(Membership& members, const wire::View& view, Visit&& visit) {
  for (uint32_t owner = 0; owner < view.owners.size(); ++owner) {
    Member* member =
        members.find(wire::Role::kPs, view.owners[owner].incarnation, view.owners[owner].thread);
    if (member != nullptr && !member->left) visit(owner, *member);
  }
}

}  // namespace downpour::chief
