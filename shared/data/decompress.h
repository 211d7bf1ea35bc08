// Decompression: what compressed bytes are recognized by, and a ByteSource over each kind of them.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "shared/base/result.h"
#include "shared/data/byte_source.h"

namespace downpour::data {

enum class Compression : uint8_t { kNone, kGzip, kZlib, kZstd };

constexpr size_t kCompressionHeadBytes = 64;

/// How a file whose first bytes (kCompressionHeadBytes of them, if it has so many) are `head` is
/// compressed. A zlib stream has no magic number, only a checked header of two bytes that could
/// begin a text ("x^"): it is one only where `head` is no plain text.
Compression compression_of(std::string_view head);

/// The bytes in a compressed file, from its start. Bounded however it was made: output in pieces, a
/// zstd window of at most 128 MiB, and an end once the file has grown to 200 times its size (or 64
/// MiB, the larger). `cuts`: ByteSource::marks().
Result<std::unique_ptr<ByteSource>> open_compressed(File file, Compression compression,
                                                    std::vector<uint64_t> cuts = {});

}  // namespace downpour::data
