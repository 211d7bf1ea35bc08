// MemoryBudget: how much the tables of one ps core may hold.
#pragma once

#include <algorithm>
#include <cstdint>

#include "shared/base/units.h"

namespace downpour::ps {

/// Most parts are granted from a credit, so that the tables are measured once in many parts.
class MemoryBudget {
 public:
  /// `bytes_max`: of all tables, as the job says; 0: what the machine has free, by on_free().
  explicit MemoryBudget(uint64_t bytes_max)
      : is_given_(bytes_max > 0), bytes_max_(bytes_max > 0 ? bytes_max : UINT64_MAX) {}

  /// The tables hold `held_bytes`, and the machine has `free_bytes` more for them.
  void on_free(uint64_t held_bytes, uint64_t free_bytes) {
    if (is_given_) return;
    const uint64_t both = held_bytes + free_bytes;
    bytes_max_ = both - std::min(free_bytes, std::min(kLeftBytesMax, both / kLeftShare));
    credit_ = 0;
  }

  /// Takes `bytes` from the credit; false: it is too small, and the tables must be measured.
  bool spend(uint64_t bytes) {
    if (bytes > credit_) [[unlikely]]
      return false;
    credit_ -= bytes;
    return true;
  }
  /// Whether tables that hold `held_bytes` may grow by `bytes`. If so, and if they may run on
  /// `credited`, what is left becomes the credit.
  bool fits(uint64_t held_bytes, uint64_t bytes, bool credited) {
    credit_ = 0;
    if (held_bytes > bytes_max_ || bytes > bytes_max_ - held_bytes) return false;
    if (credited) credit_ = std::min(kCreditBytesMax, bytes_max_ - held_bytes - bytes);
    return true;
  }

  uint64_t bytes_max() const { return bytes_max_; }
  /// By the job.
  bool is_given() const { return is_given_; }

 private:
  // Tables are measured at least once in so many bytes of rows that parts might have added.
  static constexpr uint64_t kCreditBytesMax = 64 * kMiB;
  // Of what the machine has, so much is left to all else in this process: messages, buffers.
  static constexpr uint64_t kLeftBytesMax = 128 * kMiB;
  static constexpr uint64_t kLeftShare = 16;

  bool is_given_;
  uint64_t bytes_max_;
  uint64_t credit_ = 0;
};

}  // namespace downpour::ps
