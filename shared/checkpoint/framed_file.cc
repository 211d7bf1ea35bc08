#include "shared/checkpoint/framed_file.h"

#include <bit>
#include <cstring>

#include "shared/base/check.h"
#include "shared/checkpoint/checksum.h"

namespace downpour::checkpoint {
namespace {

static_assert(std::endian::native == std::endian::little,
              "files are little-endian and read in place");

struct FrameHeader {
  char magic[8];
  uint32_t format;
  uint32_t reserved;  // always 0
  uint64_t body_bytes;
  uint64_t checksum;  // of the 24 bytes before and of the body
};
static_assert(sizeof(FrameHeader) == kFrameHeaderBytes);
constexpr size_t kSummedHeaderBytes = 24;

uint64_t frame_checksum(const FrameHeader& header, std::span<const uint8_t> body) {
  Checksum sum;
  sum.add({reinterpret_cast<const uint8_t*>(&header), kSummedHeaderBytes});
  sum.add(body);
  return sum.value();
}

}  // namespace

std::vector<uint8_t> frame(std::string_view magic, uint32_t format, std::span<const uint8_t> body) {
  FrameHeader header{};
  DP_CHECK(magic.size() <= sizeof(header.magic), magic);
  std::memcpy(header.magic, magic.data(), magic.size());
  header.format = format;
  header.body_bytes = body.size();
  header.checksum = frame_checksum(header, body);
  std::vector<uint8_t> bytes(sizeof(header) + body.size());
  std::memcpy(bytes.data(), &header, sizeof(header));
  if (!body.empty()) std::memcpy(bytes.data() + sizeof(header), body.data(), body.size());
  return bytes;
}

Result<std::span<const uint8_t>> unframe(std::span<const uint8_t> bytes, std::string_view magic,
                                         uint32_t format_max, const std::string& path,
                                         uint32_t* format) {
  FrameHeader header{};
  if (bytes.size() < sizeof(header)) {
    return Error{ErrorCode::kBadData,
                 str("cut off: ", bytes.size(), " bytes, which is shorter than a header"), path};
  }
  std::memcpy(&header, bytes.data(), sizeof(header));
  char expected[8] = {};
  std::memcpy(expected, magic.data(), magic.size());
  if (std::memcmp(header.magic, expected, sizeof(expected)) != 0) {
    return Error{ErrorCode::kBadData, str("does not begin with ", magic), path + ":0"};
  }
  const std::span<const uint8_t> body = bytes.subspan(sizeof(header));
  if (header.body_bytes != body.size()) {
    return Error{ErrorCode::kBadData,
                 str("cut off or damaged: ", body.size(),
                     " bytes after the header, which declares ", header.body_bytes),
                 path + ":16"};
  }
  if (header.checksum != frame_checksum(header, body)) {
    return Error{ErrorCode::kBadData, "damaged: the checksum does not match", path + ":24"};
  }
  if (header.format == 0 || header.format > format_max || header.reserved != 0) {
    return Error{ErrorCode::kUnsupported,
                 str("format ", header.format, ", this build reads up to ", format_max),
                 path + ":8", "use the build that wrote it, or a later one"};
  }
  if (format != nullptr) *format = header.format;
  return body;
}

}  // namespace downpour::checkpoint
