// MemoryBudget: limits the memory of all tables of one ps core.
#pragma once

#include <algorithm>
#include <cstdint>

#include "shared/base/units.h"

namespace downpour::ps {

/// Grants most parts from a credit, so that the tables need not be measured for every part.
class MemoryBudget {
 public:
  /// `bytes_max`: limit of all tables from the job; 0: on_free() derives it from the free memory of
  /// the machine.
  explicit MemoryBudget(uint64_t bytes_max)
      : is_given_(bytes_max > 0), bytes_max_(bytes_max > 0 ? bytes_max : UINT64_MAX) {}

  /// Updates the limit: the tables hold `held_bytes`, and the machine has `free_bytes` more for
  /// them.
  void on_free(uint64_t held_bytes, uint64_t free_bytes) {
    if (is_given_) return;
    const uint64_t both = held_bytes + free_bytes;
    bytes_max_ = both - std::min(free_bytes, std::min(kLeftBytesMax, both / kLeftShare));
    credit_ = 0;
  }

  /// Takes `bytes` from the credit. Returns false if it is too small; then the tables must be
  /// measured.
  bool spend(uint64_t bytes) {
    if (bytes > credit_) [[unlikely]]
      return false;
    credit_ -= bytes;
    return true;
  }
  /// Whether tables that hold `held_bytes` may grow by `bytes`. If so and if `credited`, the
  /// remaining room becomes the credit, up to a limit.
  bool fits(uint64_t held_bytes, uint64_t bytes, bool credited) {
    credit_ = 0;
    if (held_bytes > bytes_max_ || bytes > bytes_max_ - held_bytes) return false;
    if (credited) credit_ = std::min(kCreditBytesMax, bytes_max_ - held_bytes - bytes);
    return true;
  }

  uint64_t bytes_max() const { return bytes_max_; }
  /// Whether the job gives the limit.
  bool is_given() const { return is_given_; }

 private:
  // Limit of the credit: the tables are measured again after parts that may have added this many
  // bytes of rows.
  static constexpr uint64_t kCreditBytesMax = 64 * kMiB;
  // The rest of the process (messages, buffers) keeps the smaller of these: a fixed amount, or a
  // share of the memory of tables and free memory together.
  static constexpr uint64_t kLeftBytesMax = 128 * kMiB;
  static constexpr uint64_t kLeftShare = 16;

  bool is_given_;
  uint64_t bytes_max_;
  uint64_t credit_ = 0;
};

}  // namespace downpour::ps
