#include "shared/data/bytes/compression.h"

#include <algorithm>
#include <zlib.h>
#include <zstd.h>

namespace downpour::data {
namespace {

bool is_plain_text(std::string_view head) {
  return std::all_of(head.begin(), head.end(), [](char c) {
    return (uint8_t(c) >= 0x20 && uint8_t(c) < 0x7f) || c == '\n' || c == '\r' || c == '\t';
  });
}

}  // namespace

Compression compression_of(std::string_view head) {
  const auto byte = [&](size_t i) { return uint32_t(uint8_t(head[i])); };
  if (head.size() < 2) return Compression::kNone;
  if (byte(0) == 0x1f && byte(1) == 0x8b) return Compression::kGzip;
  if (head.size() >= 4) {
    const uint32_t magic = byte(0) | byte(1) << 8 | byte(2) << 16 | byte(3) << 24;
    if (magic == ZSTD_MAGICNUMBER || (magic & 0xfffffff0U) == ZSTD_MAGIC_SKIPPABLE_START)
      return Compression::kZstd;
  }
  const bool zlib = (byte(0) & 0x0f) == 8 && byte(0) >> 4 == 7 && (byte(1) & 0x20) == 0 &&
                    (byte(0) << 8 | byte(1)) % 31 == 0;
  return zlib && !is_plain_text(head) ? Compression::kZlib : Compression::kNone;
}

}  // namespace downpour::data
