// CRC-32C (Castagnoli), as in iSCSI, ext4 and TFRecord: of headers on the wire and of records.
#pragma once

#include <cstddef>
#include <cstdint>

namespace downpour {

/// crc32c("123456789", 9) == 0xe3069283. Any number of bytes.
uint32_t crc32c(const void* bytes, size_t size);

/// The same of a whole from that of its beginning and the bytes that follow it.
uint32_t crc32c_extend(uint32_t crc, const void* bytes, size_t size);

}  // namespace downpour
