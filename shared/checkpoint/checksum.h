// XXH3-64 (Collet, xxHash 0.8): the checksum of every durable file. Part of the format; its bits
// never change.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace downpour::checkpoint {

uint64_t checksum_of(std::span<const uint8_t> bytes);

/// The same piece by piece.
class Checksum {
 public:
  Checksum();
  void add(std::span<const uint8_t> bytes);
  uint64_t value() const;

 private:
  alignas(64) std::byte state_[576];
};

}  // namespace downpour::checkpoint
