// XXH3-64 (Collet, xxHash 0.8) of records, words and the ends of files.
#pragma once

#include <cstddef>
#include <cstdint>

namespace downpour::data {

uint64_t xxh3(const void* bytes, size_t size);

/// The same of 256 bytes, in half the time: their number is known here.
uint64_t xxh3_256(const void* bytes);

}  // namespace downpour::data
