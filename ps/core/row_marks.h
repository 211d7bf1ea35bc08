// RowMarks: one bit per row, set if the row was touched since it was last copied for a checkpoint.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "shared/optim/optimizer.h"

namespace downpour::ps {

/// Rows are numbered as in the table; for dense variables they are blocks, numbered by key. A row
/// that was never marked reads false.
class RowMarks {
 public:
  /// Makes room for rows [0, rows). mark() accepts only these.
  void ensure(uint64_t rows) {
    if (rows > words_.size() * 64) words_.resize((rows + rows / 2) / 64 + 1);
  }
  void mark(uint32_t row) { words_[row / 64] |= bit(row); }
  void mark(std::span<const optim::RowUpdate> updates) {
    uint64_t* const words = words_.data();  // a loop over words_ would load the pointer each time
    for (const optim::RowUpdate& update : updates) words[update.row / 64] |= bit(update.row);
  }
  /// Clears the mark of a row. Returns whether it was set.
  bool take(uint32_t row) {
    if (row / 64 >= words_.size()) return false;
    const bool marked = (words_[row / 64] & bit(row)) != 0;
    words_[row / 64] &= ~bit(row);
    return marked;
  }
  void clear() { words_.assign(words_.size(), 0); }
  /// Adds all marks of `other`.
  void merge(const RowMarks& other) {
    if (words_.size() < other.words_.size()) words_.resize(other.words_.size());
    for (size_t w = 0; w < other.words_.size(); ++w) words_[w] |= other.words_[w];
  }
  uint64_t bytes() const { return words_.capacity() * sizeof(uint64_t); }

 private:
  static uint64_t bit(uint32_t row) { return uint64_t{1} << (row % 64); }

  std::vector<uint64_t> words_;
};

}  // namespace downpour::ps
