// Compression: recognizes compressed files by their first bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace downpour::data {

enum class Compression : uint8_t { kNone, kGzip, kZlib, kZstd };

constexpr size_t kCompressionHeadBytes = 64;

/// Returns how a file is compressed whose first kCompressionHeadBytes bytes (fewer if it is
/// shorter) are `head`. A zlib stream has no magic number, only a checked header of two bytes,
/// which can also begin a text ("x^"). It is therefore detected only if `head` is not plain text.
Compression compression_of(std::string_view head);

}  // namespace downpour::data
