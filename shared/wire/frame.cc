#include "shared/wire/frame.h"

#include <array>
#include <bit>
#include <cstring>

#include "shared/base/crc32c.h"
#include "shared/wire/malformed.h"

namespace downpour::wire {
namespace {

static_assert(std::endian::native == std::endian::little, "frames and payloads are little-endian");

constexpr uint32_t kFrameMagic = 0x46575044;  // "DPWF"
constexpr uint16_t kHasKeys = 1;
constexpr uint16_t kHasValues = 2;
constexpr size_t kCrcEnd = 16;

struct RawEnvelope {
  uint32_t magic = kFrameMagic;
  uint16_t version = kProtocolVersion;
  uint16_t envelope_bytes = kEnvelopeBytes;
  uint32_t frame_bytes = 0;
  uint32_t crc = 0;
  uint16_t kind = 0;
  uint16_t flags = 0;
  uint32_t view_term = 0;
  uint64_t run = 0;
  uint64_t request = 0;
  uint32_t view_n = 0;
  uint32_t keys_bytes = 0;
  uint32_t values_bytes = 0;
  uint32_t zero = 0;
};
static_assert(sizeof(RawEnvelope) == kEnvelopeBytes &&
              std::has_unique_object_representations_v<RawEnvelope>);

uint32_t crc32c(std::span<const uint8_t> bytes) {
  return downpour::crc32c(bytes.data(), bytes.size());
}

/// Checks that a payload frame is present exactly if its flag is set, and that it consists of whole
/// elements.
Result<void> check_payload(std::string_view name, bool present, uint32_t bytes,
                           uint32_t element_bytes) {
  if (present != (bytes > 0))
    return malformed(name, " frame of ", bytes, " bytes, which contradicts its flag");
  if (bytes > kFrameBytesMax)
    return malformed(name, " frame of ", bytes, " bytes; the maximum is ", kFrameBytesMax);
  if (bytes % element_bytes != 0)
    return malformed(name, " frame of ", bytes, " bytes, not a whole number of elements");
  return {};
}

}  // namespace

std::string_view kind_name(Kind kind) {
  static constexpr std::array<std::string_view, kKindMax + 1> kNames{
      "none",          "Hello",       "Welcome",      "Refused",      "View",
      "Adopt",         "Adopted",     "Heartbeat",    "LeaseRequest", "LeaseGrant",
      "ShardProgress", "ShardFailed", "LeaseRevoked", "EvalReport",   "PredictReport",
      "StatusRequest", "StatusReply", "Save",         "Saved",        "Sealed",
      "Stop",          "Goodbye",     "Pull",         "PullReply",    "Push",
      "PushReply",     "Reject",      "Freeze",       "Frozen",       "Leave",
      "InputList",     "ReadShard",   "ReadMore",     "ReadBatch",    "ReadEnd",
      "ReadFailed",    "Clock",       "Floor",        "Staged",       "Commit",
      "Committed",     "Expect"};
  return raw(kind) <= kKindMax ? kNames[raw(kind)] : "unknown";
}

void seal_frame(const FrameHeader& header, std::span<uint8_t> frame) {
  DP_CHECK(frame.size() >= kEnvelopeBytes && frame.size() <= kHeaderBytesMax, frame.size());
  DP_CHECK(header.keys_bytes % 8 == 0 && header.keys_bytes <= kFrameBytesMax, header.keys_bytes);
  DP_CHECK(header.values_bytes % 4 == 0 && header.values_bytes <= kFrameBytesMax,
           header.values_bytes);
  RawEnvelope raw_envelope{
      .frame_bytes = uint32_t(frame.size()),
      .kind = raw(header.kind),
      .flags = uint16_t((header.keys_bytes > 0 ? kHasKeys : 0) |
                        (header.values_bytes > 0 ? kHasValues : 0)),
      .view_term = header.envelope.view.term,
      .run = header.envelope.run,
      .request = raw(header.envelope.request),
      .view_n = header.envelope.view.n,
      .keys_bytes = header.keys_bytes,
      .values_bytes = header.values_bytes,
  };
  std::memcpy(frame.data(), &raw_envelope, kEnvelopeBytes);
  const uint32_t crc = crc32c(frame.subspan(kCrcEnd));
  std::memcpy(frame.data() + offsetof(RawEnvelope, crc), &crc, sizeof(crc));
}

Result<FrameHeader> open_frame(std::span<const uint8_t> frame) {
  if (frame.size() < kEnvelopeBytes)
    return malformed("header frame of ", frame.size(), " bytes is too short");
  if (frame.size() > kHeaderBytesMax)
    return malformed("header frame of ", frame.size(), " bytes is too long");
  RawEnvelope in;
  std::memcpy(&in, frame.data(), kEnvelopeBytes);
  if (in.magic != kFrameMagic)
    return malformed("not a Downpour message (magic ", hex(in.magic), ")");
  if (in.version != kProtocolVersion) {
    return Error{.code = ErrorCode::kUnsupported,
                 .what = str("the peer speaks protocol ", in.version,
                             ", but this build speaks protocol ", kProtocolVersion),
                 .hint = "run the same version of Downpour everywhere"};
  }
  if (in.envelope_bytes != kEnvelopeBytes)
    return malformed("envelope of ", in.envelope_bytes, " bytes");
  if (in.frame_bytes != frame.size()) {
    return malformed("header frame of ", frame.size(), " bytes declares a length of ",
                     in.frame_bytes);
  }
  if (crc32c(frame.subspan(kCrcEnd)) != in.crc)
    return malformed("header frame has a wrong checksum");
  if (in.kind == 0 || in.kind > kKindMax) {
    return Error{.code = ErrorCode::kUnsupported, .what = str("message of unknown kind ", in.kind)};
  }
  if ((in.flags & ~(kHasKeys | kHasValues)) != 0 || in.zero != 0)
    return malformed("unknown flags ", in.flags);
  DP_TRY_VOID(check_payload("keys", (in.flags & kHasKeys) != 0, in.keys_bytes, 8));
  DP_TRY_VOID(check_payload("values", (in.flags & kHasValues) != 0, in.values_bytes, 4));
  if (frame.size() % 8 != 0)
    return malformed("header frame of ", frame.size(), " bytes, not a multiple of the word size");
  return FrameHeader{
      .kind = Kind(in.kind),
      .envelope = {.run = in.run,
                   .view = {in.view_term, in.view_n},
                   .request = RequestId(in.request)},
      .keys_bytes = in.keys_bytes,
      .values_bytes = in.values_bytes,
  };
}

}  // namespace downpour::wire
