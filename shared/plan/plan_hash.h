// PlanHash: the hash of everything that decides which records a batch id names. Manifests and
// leases carry it.
#pragma once

#include <cstdint>
#include <string_view>

#include "shared/base/hash.h"

namespace downpour::plan {

/// Collects named settings in order. Names are hashed too, so that a value cannot be mistaken for
/// that of another setting. Part of the checkpoint format: the same calls must give the same hash
/// forever.
class PlanHash {
 public:
  PlanHash& add(std::string_view name, uint64_t value) {
    state_ = hash_combine(hash_combine(state_, hash_string(name)), value);
    return *this;
  }
  PlanHash& add(std::string_view name, std::string_view text) {
    return add(name, hash_string(text, 1));
  }
  uint64_t value() const { return state_; }

 private:
  uint64_t state_ = 0;
};

}  // namespace downpour::plan
