// Scanner for Protobuf's wire format (protobuf.dev, "Encoding"): tags, varints and lengths, read in
// place.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

#if defined(__BMI2__)
#include <immintrin.h>
#endif

namespace downpour::data {

enum class WireType : uint32_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

constexpr uint32_t tag_of(uint32_t field, WireType type) { return field << 3 | uint32_t(type); }

/// Reads a varint byte by byte. parse_varint() calls it for varints of 9 and 10 bytes and for those
/// that reach `end`.
inline const char* parse_varint_slow(const char* p, const char* end, uint64_t& value) {
  value = 0;
  for (uint32_t shift = 0; shift < 70 && p < end; shift += 7) {
    const auto byte = uint8_t(*p++);
    value |= shift < 64 ? uint64_t(byte & 0x7f) << shift : 0;
    if (byte < 0x80) return p;
  }
  return nullptr;
}

/// Reads a varint at `p`. For p < end, 8 bytes from `p` on are readable. Returns the first byte
/// after it, or null if the varint does not end before `end`.
inline const char* parse_varint(const char* p, const char* end, uint64_t& value) {
  if (p < end && uint8_t(*p) < 0x80) [[likely]] {
    value = uint8_t(*p);
    return p + 1;
  }
  if (p >= end) return nullptr;
#if defined(__BMI2__)
  // No branch on the length, because it is unpredictable.
  uint64_t word;
  std::memcpy(&word, p, 8);
  const uint64_t stops = ~word & 0x8080808080808080;
  if (stops == 0) [[unlikely]]
    return parse_varint_slow(p, end, value);
  const uint64_t kept = stops ^ (stops - 1);  // up to the first byte without a continuation bit
  value = _pext_u64(word & kept, 0x7f7f7f7f7f7f7f7f);
  p += (__builtin_ctzll(stops) + 1) / 8;
  return p <= end ? p : nullptr;
#else
  return parse_varint_slow(p, end, value);
#endif
}

/// Reads a varint of exactly `size` bytes. 8 bytes from `p` on are readable. Returns false if these
/// bytes are not one whole varint.
inline bool parse_whole_varint(const char* p, size_t size, uint64_t& value) {
#if defined(__BMI2__)
  if (size <= 8) [[likely]] {
    uint64_t word;
    std::memcpy(&word, p, 8);
    const uint64_t stops = ~word & 0x8080808080808080;
    value = _pext_u64(_bzhi_u64(word, uint32_t(size * 8)), 0x7f7f7f7f7f7f7f7f);
    return _tzcnt_u64(stops) + 1 == size * 8;
  }
#endif
  return parse_varint(p, p + size, value) == p + size;
}

/// One field of a message: its tag, and its number or bytes.
struct WireField {
  uint32_t tag = 0;
  uint64_t number = 0;     // kVarint, kFixed64, kFixed32
  std::string_view bytes;  // kBytes
};

/// Reads the field at `p`. Returns the first byte after it, or null if the bytes are not valid
/// Protobuf.
inline const char* parse_wire_field(const char* p, const char* end, WireField& field) {
  uint64_t tag = 0;
  p = parse_varint(p, end, tag);
  if (p == nullptr || tag > UINT32_MAX || tag < 8) return nullptr;
  field.tag = uint32_t(tag);
  switch (WireType(tag & 7)) {
    case WireType::kVarint:
      return parse_varint(p, end, field.number);
    case WireType::kBytes: {
      uint64_t size = 0;
      p = parse_varint(p, end, size);
      if (p == nullptr || size > uint64_t(end - p)) return nullptr;
      field.bytes = {p, size_t(size)};
      return p + size;
    }
    case WireType::kFixed64:
      if (end - p < 8) return nullptr;
      std::memcpy(&field.number, p, 8);
      return p + 8;
    case WireType::kFixed32: {
      if (end - p < 4) return nullptr;
      uint32_t number;
      std::memcpy(&number, p, 4);
      field.number = number;
      return p + 4;
    }
  }
  return nullptr;  // groups do not exist in proto3
}

}  // namespace downpour::data
