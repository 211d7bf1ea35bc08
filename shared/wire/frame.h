// Header frame: a fixed little-endian envelope, followed by a Cap'n Proto body.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "shared/base/result.h"
#include "shared/wire/messages.h"

namespace downpour::wire {

/// The type of a message on the wire. A number never changes its meaning. 0 is not a kind.
enum class Kind : uint16_t {
  kHello = 1,
  kWelcome = 2,
  kRefused = 3,
  kView = 4,
  kAdopt = 5,
  kAdopted = 6,
  kHeartbeat = 7,
  kLeaseRequest = 8,
  kLeaseGrant = 9,
  kShardProgress = 10,
  kShardFailed = 11,
  kLeaseRevoked = 12,
  kEvalReport = 13,
  kPredictReport = 14,
  kStatusRequest = 15,
  kStatusReply = 16,
  kSave = 17,
  kSaved = 18,
  kSealed = 19,
  kStop = 20,
  kGoodbye = 21,
  kPull = 22,
  kPullReply = 23,
  kPush = 24,
  kPushReply = 25,
  kReject = 26,
  kFreeze = 27,
  kFrozen = 28,
  kLeave = 29,
  kInputList = 30,
  kReadShard = 31,
  kReadMore = 32,
  kReadBatch = 33,
  kReadEnd = 34,
  kReadFailed = 35,
  kClock = 36,
  kFloor = 37,
  kStaged = 38,
  kCommit = 39,
  kCommitted = 40,
  kExpect = 41,
};
constexpr uint16_t kKindMax = 41;

/// The alternatives of Body are in the order of their kinds. Add a new one at the end of both.
inline Kind kind_of(const Body& body) { return Kind(uint16_t(body.index() + 1)); }
static_assert(std::variant_size_v<AnyBody> == kKindMax);
/// Returns the name, such as "Push", or "unknown".
std::string_view kind_name(Kind kind);

/// Size of the envelope. Layout: [0,4) magic "DPWF", [4,6) protocol version, [6,8) bytes of the
/// envelope, [8,12) bytes of the whole frame, [12,16) CRC-32C of all following bytes, [16,18) kind,
/// [18,20) flags, [20,24) view.term, [24,32) run, [32,40) request, [40,44) view.n, [44,48) bytes of
/// the keys frame, [48,52) bytes of the values frame, [52,56) zero. The body follows.
constexpr size_t kEnvelopeBytes = 56;

/// The content of an envelope.
struct FrameHeader {
  Kind kind{};
  Envelope envelope;
  uint32_t keys_bytes = 0;    // 0: no keys frame
  uint32_t values_bytes = 0;  // 0: no values frame
};

/// Fills the first kEnvelopeBytes of `frame`. The body must already follow them, because the
/// checksum covers it.
void seal_frame(const FrameHeader& header, std::span<uint8_t> frame);

/// Checks magic, version, lengths, CRC, kind and flags in this order, and returns the content of
/// the envelope. The body is frame.subspan(kEnvelopeBytes), a whole number of 8-byte words. Errors:
/// kMalformed, kUnsupported (version, kind).
Result<FrameHeader> open_frame(std::span<const uint8_t> frame);

}  // namespace downpour::wire
