#include "shared/base/crc32c.h"

#include <algorithm>

#include <isa-l/crc.h>

namespace downpour {

uint32_t crc32c_extend(uint32_t crc, const void* bytes, size_t size) {
  constexpr size_t kOnce = size_t{1} << 30;  // ISA-L takes the size as int
  // ISA-L takes a mutable pointer but does not write through it.
  auto* at = static_cast<unsigned char*>(const_cast<void*>(bytes));
  crc = ~crc;
  while (size > 0) {
    const size_t now = std::min(size, kOnce);
    crc = crc32_iscsi(at, int(now), crc);
    at += now;
    size -= now;
  }
  return ~crc;
}

uint32_t crc32c(const void* bytes, size_t size) { return crc32c_extend(0, bytes, size); }

}  // namespace downpour
