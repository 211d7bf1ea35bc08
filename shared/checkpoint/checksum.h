// Checksum: XXH3-64 (Collet, xxHash 0.8), used by every durable file. It is part of the format and
// never changes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace downpour::checkpoint {

/// Returns the checksum of `bytes`.
uint64_t checksum_of(std::span<const uint8_t> bytes);

/// Computes the same checksum from consecutive pieces.
class Checksum {
 public:
  Checksum();
  void add(std::span<const uint8_t> bytes);
  uint64_t value() const;

 private:
  alignas(64) std::byte state_[576];
};

}  // namespace downpour::checkpoint
