// RecordCuts: where a file may be cut whose records' ends show only to who comes from the start.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "shared/base/sizes.h"

namespace downpour::data {

struct RecordCuts {
  std::vector<uint64_t> cuts;  // ascending places where a record begins, without 0
  uint64_t records = 0;        // that were looked at
};

/// Finds them, so that each piece has about `target_bytes`; told where each record begins, in their
/// order. What lies behind `records_max` of them is a piece.
class CutFinder {
 public:
  CutFinder(uint64_t bytes, uint64_t target_bytes, uint64_t records_max)
      : pieces_(std::max<uint64_t>(divide_up(bytes, target_bytes), 1)),
        size_(std::max<uint64_t>(bytes / pieces_, 1)),
        records_max_(records_max) {}

  /// Of a piece, at least.
  uint64_t size() const { return size_; }
  /// `may_cut`: whether it may begin a piece. False: it needs no more.
  bool add(uint64_t place, bool may_cut = true) {
    std::vector<uint64_t>& cuts = found_.cuts;
    while (may_cut && place >= (cuts.size() + 1) * size_) cuts.push_back(place);
    if (found_.records < records_max_) {
      ++found_.records;
    } else if (may_cut) {
      if (place > 0) cuts.push_back(place);
      return false;
    }
    return true;
  }
  /// Found elsewhere: in an index.
  void set(std::vector<uint64_t> cuts) { found_.cuts = std::move(cuts); }
  RecordCuts finish() && {
    std::vector<uint64_t>& cuts = found_.cuts;
    cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
    while (cuts.size() >= pieces_) cuts.pop_back();
    return std::move(found_);
  }

 private:
  const uint64_t pieces_, size_, records_max_;
  RecordCuts found_;
};

}  // namespace downpour::data
