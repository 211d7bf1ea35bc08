// Decompression: detects compressed formats, and provides a ByteSource for each of them.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "shared/base/result.h"
#include "shared/data/bytes/byte_source.h"

namespace downpour::data {

enum class Compression : uint8_t { kNone, kGzip, kZlib, kZstd };

constexpr size_t kCompressionHeadBytes = 64;

/// Returns how a file is compressed whose first kCompressionHeadBytes bytes (fewer if it is
/// shorter) are `head`. A zlib stream has no magic number, only a checked header of two bytes,
/// which can also begin a text ("x^"). It is therefore detected only if `head` is not plain text.
Compression compression_of(std::string_view head);

/// Yields the decompressed bytes of a file from its start. Memory and output are bounded for any
/// input. Output is produced in pieces, and a zstd window has at most 128 MiB. The output may have
/// at most 200 times the size of the file, or 64 MiB if that is more; more is an error. `cuts`: see
/// ByteSource::marks().
Result<std::unique_ptr<ByteSource>> open_compressed(File file, Compression compression,
                                                    std::vector<uint64_t> cuts = {});

}  // namespace downpour::data
