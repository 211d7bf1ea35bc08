#include "chief/core/cluster/ownership.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "shared/base/check.h"
#include "shared/base/defence.h"

namespace downpour::chief {
namespace {

constexpr uint32_t kNobody = UINT32_MAX;

auto place_of(const wire::Owner& owner) {
  return std::tuple(owner.index, owner.thread, owner.incarnation);
}

}  // namespace

Ownership::Ownership(uint32_t term, uint32_t partition_bits, uint64_t plan_hash)
    : parts_(size_t{1} << partition_bits) {
  view_.id = {term, 0};
  view_.plan_hash = plan_hash;
}

bool Ownership::whole() const {
  return published() && adoptions_.empty() && !kept_ &&
         std::none_of(parts_.begin(), parts_.end(), [&](const Part& p) { return is_lost(p); });
}

std::optional<uint32_t> Ownership::owner_number(PsKey key) const {
  const auto it = std::find_if(view_.owners.begin(), view_.owners.end(),
                               [&](const wire::Owner& owner) { return key_of(owner) == key; });
  if (it == view_.owners.end()) return std::nullopt;
  return uint32_t(it - view_.owners.begin());
}

uint32_t Ownership::number_of(PsKey key) const {
  for (uint32_t i = 0; i < cores_.size(); ++i) {
    if (key_of(cores_[i].owner) == key) return i;
  }
  return kNobody;
}

uint32_t Ownership::enlist(const wire::Owner& owner) {
  const uint32_t known = number_of(key_of(owner));
  if (known != kNobody) return known;
  cores_.push_back({.owner = owner});
  return uint32_t(cores_.size() - 1);
}

uint32_t Ownership::load(PsKey key) const {
  const uint32_t core = number_of(key);
  if (core == kNobody) return 0;
  return uint32_t(std::count_if(parts_.begin(), parts_.end(), [&](const Part& part) {
    return (part.successor == kNobody ? part.owner : part.successor) == core;
  }));
}

bool Ownership::concerns(PsKey key) const {
  const uint32_t core = number_of(key);
  return core != kNobody && std::any_of(parts_.begin(), parts_.end(), [&](const Part& part) {
           return part.owner == core || part.successor == core;
         });
}

void Ownership::claim(PartitionId partition, const wire::Owner& by, ViewId ownership_generation) {
  DP_CHECK(!published() && raw(partition) < parts_.size(), partition);
  DP_CHECK(ownership_generation < view_.id, ownership_generation, view_.id);
  parts_[raw(partition)].owner = enlist(by);
  parts_[raw(partition)].ownership_generation = ownership_generation;
}

uint32_t Ownership::lose(PsKey key, int64_t now_ns) {
  const uint32_t core = number_of(key);
  if (core == kNobody || cores_[core].gone) return 0;
  cores_[core].gone = true;
  cores_[core].gone_ns = now_ns;
  std::erase_if(adoptions_, [&](const Adoption& a) { return a.core == core; });
  uint32_t lost = 0;
  for (Part& part : parts_) {
    lost += part.successor == core || (part.successor == kNobody && part.owner == core) ? 1 : 0;
    if (part.successor == core) part.successor = kNobody;
  }
  return lost;
}

uint32_t Ownership::reinstate(PsKey key) {
  const uint32_t core = number_of(key);
  if (core == kNobody || !cores_[core].gone) return 0;
  cores_[core].gone = false;
  const bool stale = std::any_of(parts_.begin(), parts_.end(), [&](const Part& part) {
    return part.owner == core && (part.stale || part.successor != kNobody);
  });
  if (stale) defended(Defence::kChiefStaleCopy);
  return uint32_t(std::count_if(parts_.begin(), parts_.end(), [&](const Part& part) {
    return part.owner == core && part.successor == kNobody && !part.stale;
  }));
}

bool Ownership::is_gone(PsKey key) const {
  const uint32_t core = number_of(key);
  return core != kNobody && cores_[core].gone;
}

std::vector<Ownership::Lost> Ownership::lost() const {
  std::map<uint32_t, Lost> by_owner;
  for (uint32_t p = 0; p < parts_.size(); ++p) {
    const Part& part = parts_[p];
    if (!is_lost(part)) continue;
    Lost& lost = by_owner[part.owner];
    if (part.owner != kNobody) {
      lost.was = cores_[part.owner].owner;
      lost.lost_ns = cores_[part.owner].gone_ns;
    }
    lost.partitions.push_back(PartitionId(p));
  }
  std::vector<Lost> all;
  for (auto& [owner, lost] : by_owner) all.push_back(std::move(lost));
  std::sort(all.begin(), all.end(),
            [](const Lost& a, const Lost& b) { return place_of(a.was) < place_of(b.was); });
  return all;
}

void Ownership::give(int64_t now_ns, const std::vector<PartitionId>& partitions,
                     const wire::Owner& to, ViewId ownership_generation) {
  const uint32_t core = enlist(to);
  DP_CHECK(!cores_[core].gone && !adopting(key_of(to)), to.index, to.thread);
  DP_CHECK(ownership_generation > view_.id, ownership_generation, view_.id);
  for (const PartitionId p : partitions) {
    parts_[raw(p)].successor = core;
    parts_[raw(p)].successor_generation = ownership_generation;
  }
  // A core may be assigned partitions again before a view names it.
  std::erase_if(adoptions_, [&](const Adoption& a) { return a.core == core; });
  adoptions_.push_back(
      {.core = core, .ownership_generation = ownership_generation, .begun_ns = now_ns});
}

void Ownership::forget_claims() {
  DP_CHECK(!published());
  parts_.assign(parts_.size(), {});
  cores_.clear();
  adoptions_.clear();
}

void Ownership::take_back() {
  for (Part& part : parts_) {
    // keep() confirms an owner and is no assignment.
    if (part.successor != part.owner || part.stale) part.successor = kNobody;
  }
  adoptions_.clear();
}

void Ownership::invalidate() {
  for (Part& part : parts_) {
    part.successor = kNobody;
    part.stale = part.owner != kNobody;
  }
  adoptions_.clear();
  kept_ = false;
}

bool Ownership::adopting(PsKey key, std::optional<ViewId> ownership_generation) const {
  const uint32_t core = number_of(key);
  return std::any_of(adoptions_.begin(), adoptions_.end(), [&](const Adoption& a) {
    return a.core == core && !a.done &&
           (!ownership_generation || a.ownership_generation == *ownership_generation);
  });
}

void Ownership::adopted(PsKey key) {
  const uint32_t core = number_of(key);
  for (Adoption& adoption : adoptions_) adoption.done |= adoption.core == core;
}

std::optional<wire::Owner> Ownership::overdue_adopter(int64_t then_ns) const {
  for (const Adoption& adoption : adoptions_) {
    if (!adoption.done && adoption.begun_ns <= then_ns) return cores_[adoption.core].owner;
  }
  return std::nullopt;
}

void Ownership::keep(const std::vector<PartitionId>& partitions,
                     std::optional<ViewId> ownership_generation) {
  for (const PartitionId p : partitions) {
    Part& part = parts_[raw(p)];
    if (part.successor != kNobody) {
      std::erase_if(adoptions_, [&](const Adoption& a) {
        return a.core == part.successor && a.ownership_generation == part.successor_generation;
      });
      part.successor = kNobody;
    }
    if (part.owner == kNobody || part.stale || cores_[part.owner].gone) continue;
    part.successor = part.owner;
    part.successor_generation = ownership_generation.value_or(part.ownership_generation);
    kept_ = true;
  }
}

std::vector<PartitionId> Ownership::owned(PsKey key) const {
  std::vector<PartitionId> owned;
  const uint32_t core = number_of(key);
  for (uint32_t p = 0; core != kNobody && p < parts_.size(); ++p) {
    const Part& part = parts_[p];
    if (part.owner == core && part.successor == kNobody && !part.stale)
      owned.push_back(PartitionId(p));
  }
  return owned;
}

bool Ownership::ready() const {
  // The first view must name an owner of every partition. Later ones change something.
  const bool wanted = published() ? !adoptions_.empty() || kept_
                                  : std::none_of(parts_.begin(), parts_.end(),
                                                 [&](const Part& p) { return is_lost(p); });
  return wanted && std::all_of(adoptions_.begin(), adoptions_.end(),
                               [](const Adoption& a) { return a.done; });
}

const wire::View& Ownership::publish() {
  DP_CHECK(ready());
  adoptions_.clear();
  kept_ = false;
  for (Part& part : parts_) {
    if (part.successor == kNobody) continue;
    part.owner = part.successor;
    part.ownership_generation = part.successor_generation;
    part.successor = kNobody;
    part.stale = false;
  }
  std::vector<uint32_t> named;
  for (const Part& part : parts_) named.push_back(part.owner);
  std::sort(named.begin(), named.end(), [&](uint32_t a, uint32_t b) {
    return place_of(cores_[a].owner) < place_of(cores_[b].owner);
  });
  named.erase(std::unique(named.begin(), named.end()), named.end());
  std::vector<Core> cores;
  std::vector<uint32_t> number(cores_.size(), kNobody);
  for (const uint32_t core : named) {
    number[core] = uint32_t(cores.size());
    cores.push_back(cores_[core]);
  }
  cores_ = std::move(cores);
  last_n_ = std::max(last_n_, view_.id.n + 1);
  view_ = {
      .id = {view_.id.term, last_n_}, .owners = {}, .partitions = {}, .plan_hash = view_.plan_hash};
  for (const Core& core : cores_) view_.owners.push_back(core.owner);
  for (Part& part : parts_) {
    part.owner = number[part.owner];
    view_.partitions.push_back(
        {.owner = part.owner, .ownership_generation = part.ownership_generation});
  }
  return view_;
}

}  // namespace downpour::chief
