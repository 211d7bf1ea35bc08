#include "shared/checkpoint/checksum.h"

// compiled here for the target's instruction set, because the packaged library uses SSE2
#define XXH_INLINE_ALL
#include <xxhash.h>

namespace downpour::checkpoint {

static_assert(sizeof(XXH3_state_t) == 576 && alignof(XXH3_state_t) <= 64);

uint64_t checksum_of(std::span<const uint8_t> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

Checksum::Checksum() { XXH3_64bits_reset(reinterpret_cast<XXH3_state_t*>(state_)); }

void Checksum::add(std::span<const uint8_t> bytes) {
  XXH3_64bits_update(reinterpret_cast<XXH3_state_t*>(state_), bytes.data(), bytes.size());
}

uint64_t Checksum::value() const {
  return XXH3_64bits_digest(reinterpret_cast<const XXH3_state_t*>(state_));
}

}  // namespace downpour::checkpoint
