// Decompression: a ByteSource for each compressed format.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "shared/base/result.h"
#include "shared/data/bytes/byte_source.h"
#include "shared/data/bytes/compression.h"
#include "shared/data/bytes/file.h"

namespace downpour::data {

/// Yields the decompressed bytes of a file from its start. Memory and output are bounded for any
/// input. Output is produced in pieces, and a zstd window has at most 128 MiB. The output may have
/// at most 200 times the size of the file, or 64 MiB if that is more; more is an error. `cuts`: see
/// ByteSource::marks().
Result<std::unique_ptr<ByteSource>> open_compressed(File file, Compression compression,
                                                    std::vector<uint64_t> cuts = {});

}  // namespace downpour::data
