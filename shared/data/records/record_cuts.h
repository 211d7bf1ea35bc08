// RecordCuts: where to cut a file whose record boundaries can only be found by scanning from its
// start.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "shared/base/sizes.h"

namespace downpour::data {

struct RecordCuts {
  std::vector<uint64_t> cuts;  // offsets where a record begins, ascending, without 0
  uint64_t records = 0;        // number of records scanned
};

/// Chooses cuts so that each piece has about `target_bytes`. add() must be called with the start of
/// each record, in order. After `records_max` records the rest of the file is one piece.
class CutFinder {
 public:
  CutFinder(uint64_t bytes, uint64_t target_bytes, uint64_t records_max)
      : pieces_(std::max<uint64_t>(divide_up(bytes, target_bytes), 1)),
        size_(std::max<uint64_t>(bytes / pieces_, 1)),
        records_max_(records_max) {}

  /// Returns the wanted distance between cuts, in bytes. Cut i is at the first suitable record at
  /// or after i * size().
  uint64_t size() const { return size_; }
  /// Adds the start of a record. `may_cut` says whether a piece may begin there. Returns false if
  /// no more records are needed.
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
  /// Sets the cuts that an index file lists.
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
