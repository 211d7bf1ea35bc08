#include "shared/transport/zmtp_walker.h"

#include <algorithm>
#include <utility>

namespace downpour::transport {
namespace {

// Greeting in RFC 37/ZMTP 3.1: signature (FF, 8 bytes, 7F), version (2), mechanism (20), as-server,
// filler.
constexpr uint8_t kGreetingBytes = 64;
constexpr uint8_t kMechanismAt = 12;
constexpr uint8_t kMore = 1;
constexpr uint8_t kLong = 2;
constexpr uint8_t kCommand = 4;
// A CURVE frame consists of "\7MESSAGE", a nonce of 8 bytes, and a box of 16 bytes, flags and the
// frame.
constexpr uint64_t kCurveBytes = 8 + 8 + 16 + 1;
static_assert(kCurveBytes < kFrameOverheadBytes);

}  // namespace

ZmtpWalker::Finding ZmtpWalker::walk(std::span<const uint8_t> bytes) {
  while (!bytes.empty()) {
    if (at_ == At::kBody) {
      const uint64_t taken = std::min<uint64_t>(bytes.size(), body_bytes_left_);
      if ((flags_ & kCommand) == 0) {
        cost_bytes_ += taken;
        if (first_ == First::kComing) keep(bytes.first(taken));
      }
      body_bytes_left_ -= taken;
      bytes = bytes.subspan(taken);
      if (body_bytes_left_ == 0) end_frame();
      continue;
    }
    const uint8_t byte = bytes.front();
    bytes = bytes.subspan(1);
    Finding finding = Finding::kFine;
    switch (at_) {
      case At::kGreeting:
        finding = greet(byte);
        break;
      case At::kFlags:
        flags_ = byte;
        size_bytes_left_ = (flags_ & kLong) != 0 ? 8 : 1;
        body_bytes_left_ = 0;
        at_ = At::kSize;
        break;
      case At::kSize:
        body_bytes_left_ = body_bytes_left_ << 8 | byte;
        if (--size_bytes_left_ == 0) finding = begin_frame();
        break;
      case At::kBody:
        break;
    }
    if (finding != Finding::kFine) return finding;
  }
  return Finding::kFine;
}

/// libzmq falls back to ZMTP 1 or 2 for a peer that requests it. No Downpour process does.
ZmtpWalker::Finding ZmtpWalker::greet(uint8_t byte) {
  const uint8_t at = greeting_bytes_++;
  const bool foreign =
      (at == 0 && byte != 0xff) || (at == 9 && (byte & 1) == 0) || (at == 10 && byte < 3);
  if (foreign) return Finding::kNotZmtp3;
  if (at == kMechanismAt) encrypted_ = byte == 'C';
  if (greeting_bytes_ == kGreetingBytes) at_ = At::kFlags;
  return Finding::kFine;
}

ZmtpWalker::Finding ZmtpWalker::begin_frame() {
  at_ = At::kBody;
  if ((flags_ & kCommand) == 0) {
    ++frames_;
    cost_bytes_ += kFrameOverheadBytes - (encrypted_ ? kCurveBytes : 0);
    if (!encrypted_ && ++message_frames_ > frames_max_) return Finding::kTooManyFrames;
  }
  if (body_bytes_left_ == 0) end_frame();
  return Finding::kFine;
}

void ZmtpWalker::keep(std::span<const uint8_t> bytes) {
  if (!encrypted_ && first_frame_.size() + bytes.size() <= kFirstFrameBytesMax) {
    first_frame_.insert(first_frame_.end(), bytes.begin(), bytes.end());
  } else {
    first_ = First::kGone;
    first_frame_ = {};
  }
}

std::optional<std::vector<uint8_t>> ZmtpWalker::take_first_frame() {
  if (first_ != First::kHere) return std::nullopt;
  first_ = First::kGone;
  return std::exchange(first_frame_, {});
}

void ZmtpWalker::end_frame() {
  at_ = At::kFlags;
  if ((flags_ & kCommand) == 0 && first_ == First::kComing) first_ = First::kHere;
  if ((flags_ & (kCommand | kMore)) == 0) message_frames_ = 0;
}

}  // namespace downpour::transport
