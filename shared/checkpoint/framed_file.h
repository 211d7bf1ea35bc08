// Framed files: magic, format, length and checksum around the body of a small file (manifest, run).
// FORMAT.md specifies the bytes.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "shared/base/result.h"

namespace downpour::checkpoint {

constexpr size_t kFrameHeaderBytes = 32;

/// Returns a framed file with this body. `magic` has at most 8 characters and is padded with zeros.
std::vector<uint8_t> frame(std::string_view magic, uint32_t format, std::span<const uint8_t> body);

/// Returns the body, a view into `bytes`, and stores its format in `format` unless that is null.
/// Errors name `path` and the offset: kBadData, or kUnsupported for an intact file of a format
/// above `format_max`.
Result<std::span<const uint8_t>> unframe(std::span<const uint8_t> bytes, std::string_view magic,
                                         uint32_t format_max, const std::string& path,
                                         uint32_t* format = nullptr);

}  // namespace downpour::checkpoint
