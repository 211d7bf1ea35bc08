// IntervalSet: the ended shards of an epoch. Shards end nearly in order, so the set usually has
// only a few intervals.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <vector>

#include "shared/wire/control_messages.h"

namespace downpour::ps {

/// A set of uint32 as ascending, disjoint intervals [begin, end) that do not touch.
class IntervalSet {
 public:
  const std::vector<wire::Interval>& intervals() const { return intervals_; }

  bool contains(uint32_t x) const {
    const auto after = first_beyond(x);
    return after != intervals_.begin() && x < std::prev(after)->end;
  }

  uint64_t size() const {
    uint64_t n = 0;
    for (const wire::Interval& i : intervals_) n += i.end - i.begin;
    return n;
  }

  /// Adds x; x < UINT32_MAX.
  void insert(uint32_t x) {
    const auto after = first_beyond(x);
    const bool has_before = after != intervals_.begin();
    if (has_before && x < std::prev(after)->end) return;
    const bool joins_before = has_before && std::prev(after)->end == x;
    const bool joins_after = after != intervals_.end() && after->begin == x + 1;
    if (joins_before && joins_after) {
      std::prev(after)->end = after->end;
      intervals_.erase(after);
    } else if (joins_before) {
      std::prev(after)->end = x + 1;
    } else if (joins_after) {
      after->begin = x;
    } else {
      intervals_.insert(after, {x, x + 1});
    }
  }

  /// Replaces the set. Returns false and changes nothing if intervals are empty, touch or do not
  /// ascend.
  bool assign(const std::vector<wire::Interval>& intervals) {
    for (size_t i = 0; i < intervals.size(); ++i) {
      if (intervals[i].begin >= intervals[i].end) return false;
      if (i > 0 && intervals[i].begin <= intervals[i - 1].end) return false;
    }
    intervals_ = intervals;
    return true;
  }

  /// Adds the members of `other`.
  void unite(const IntervalSet& other) {
    if (intervals_ == other.intervals_) return;
    std::vector<wire::Interval> sorted, all;
    sorted.reserve(intervals_.size() + other.intervals_.size());
    std::merge(intervals_.begin(), intervals_.end(), other.intervals_.begin(),
               other.intervals_.end(), std::back_inserter(sorted),
               [](const wire::Interval& a, const wire::Interval& b) { return a.begin < b.begin; });
    for (const wire::Interval& i : sorted) {
      if (!all.empty() && i.begin <= all.back().end) {
        all.back().end = std::max(all.back().end, i.end);
      } else {
        all.push_back(i);
      }
    }
    intervals_ = std::move(all);
  }

  /// Keeps only the members that `other` has too.
  void intersect(const IntervalSet& other) {
    if (intervals_ == other.intervals_) return;
    std::vector<wire::Interval> both;
    for (size_t a = 0, b = 0; a < intervals_.size() && b < other.intervals_.size();) {
      const wire::Interval& x = intervals_[a];
      const wire::Interval& y = other.intervals_[b];
      const uint32_t begin = std::max(x.begin, y.begin);
      const uint32_t end = std::min(x.end, y.end);
      if (begin < end) both.push_back({begin, end});
      ++(x.end < y.end ? a : b);
    }
    intervals_ = std::move(both);
  }

 private:
  using Iterator = std::vector<wire::Interval>::iterator;
  using ConstIterator = std::vector<wire::Interval>::const_iterator;
  static bool before(uint32_t x, const wire::Interval& i) { return x < i.begin; }
  Iterator first_beyond(uint32_t x) {
    return std::upper_bound(intervals_.begin(), intervals_.end(), x, before);
  }
  ConstIterator first_beyond(uint32_t x) const {
    return std::upper_bound(intervals_.begin(), intervals_.end(), x, before);
  }

  std::vector<wire::Interval> intervals_;
};

}  // namespace downpour::ps
