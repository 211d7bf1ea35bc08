// Opens a file as a ByteSource, whether it is compressed or not.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "shared/base/result.h"
#include "shared/data/bytes/byte_source.h"
#include "shared/data/bytes/file.h"

namespace downpour::data {

/// Reads `file` from `offset` on. Content that is recognized as gzip, zlib or zstd is decompressed;
/// then `offset` must be 0. `cuts` are ascending offsets in a compressed file, see
/// ByteSource::marks().
Result<std::unique_ptr<ByteSource>> open_bytes(File file, uint64_t offset,
                                               std::vector<uint64_t> cuts = {});

}  // namespace downpour::data
