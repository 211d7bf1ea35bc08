// CRC-32C (Castagnoli), as in iSCSI, ext4 and TFRecord: for message headers and TFRecord records.
#pragma once

#include <cstddef>
#include <cstdint>

namespace downpour {

/// Returns the CRC-32C of `size` bytes. Any size is allowed. crc32c("123456789", 9) == 0xe3069283.
uint32_t crc32c(const void* bytes, size_t size);

/// Returns the CRC-32C of a concatenation: `crc` is that of the first piece, `bytes` are the
/// second.
uint32_t crc32c_extend(uint32_t crc, const void* bytes, size_t size);

}  // namespace downpour
