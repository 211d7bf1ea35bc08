// XXH3-64 (Collet, xxHash 0.8) of records, words and the ends of files.
#pragma once

#include <cstddef>
#include <cstdint>

namespace downpour::data {

uint64_t xxh3(const void* bytes, size_t size);

}  // namespace downpour::data
