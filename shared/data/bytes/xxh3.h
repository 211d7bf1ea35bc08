// XXH3-64 (Collet, xxHash 0.8), for records, words and the ends of files.
#pragma once

#include <cstddef>
#include <cstdint>

namespace downpour::data {

uint64_t xxh3(const void* bytes, size_t size);

/// Returns the same hash of exactly 256 bytes in half the time, because the size is a constant.
uint64_t xxh3_256(const void* bytes);

}  // namespace downpour::data
