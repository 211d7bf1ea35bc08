#include "shared/data/bytes/xxh3.h"

#define XXH_INLINE_ALL  // compiled here for our instruction set: the packaged library is built for
                        // SSE2
#include <xxhash.h>

namespace downpour::data {

uint64_t xxh3(const void* bytes, size_t size) { return XXH3_64bits(bytes, size); }

uint64_t xxh3_256(const void* bytes) { return XXH3_64bits(bytes, 256); }

}  // namespace downpour::data
