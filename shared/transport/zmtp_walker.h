// ZmtpWalker: follows the framing of the bytes that a tcp peer sends (ZMTP 3), without storing the
// bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace downpour::transport {

/// Memory that libzmq uses for a frame in addition to its bytes (a msg_t in a queue).
constexpr uint64_t kFrameOverheadBytes = 64;

/// Follows one direction of one connection from its first byte. Used by one thread.
class ZmtpWalker {
 public:
  enum class Finding : uint8_t {
    kFine,
    kNotZmtp3,       // the greeting is of another protocol or an older version
    kTooManyFrames,  // in one message
  };

  /// `frames_max` is the limit for one message.
  explicit ZmtpWalker(uint32_t frames_max) : frames_max_(frames_max) {}

  /// Processes the next bytes of the connection. After a result other than kFine the walker must
  /// not be used again. CURVE hides the ends of messages, so kTooManyFrames requires the NULL
  /// mechanism.
  Finding walk(std::span<const uint8_t> bytes);

  /// Returns the memory of all data frames so far: kFrameOverheadBytes each, and their bytes as the
  /// receiver sees them. Commands (handshake, heartbeats of the NULL mechanism) are not counted,
  /// because libzmq does not queue them.
  uint64_t cost_bytes() const { return cost_bytes_; }
  /// Returns the number of data frames begun. With CURVE, the first one proves that the handshake
  /// has ended.
  uint64_t frames() const { return frames_; }
  bool encrypted() const { return encrypted_; }
  /// Returns the first data frame once, when it is complete, if it has at most kFirstFrameBytesMax.
  /// Never with CURVE.
  std::optional<std::vector<uint8_t>> take_first_frame();
  static constexpr size_t kFirstFrameBytesMax = 256 << 10;

 private:
  enum class At : uint8_t { kGreeting, kFlags, kSize, kBody };
  Finding greet(uint8_t byte);
  Finding begin_frame();
  void end_frame();
  void keep(std::span<const uint8_t> bytes);

  uint32_t frames_max_;
  At at_ = At::kGreeting;
  uint8_t greeting_bytes_ = 0;
  bool encrypted_ = false;
  uint8_t flags_ = 0;
  uint8_t size_bytes_left_ = 0;
  uint64_t body_bytes_left_ = 0;
  uint32_t message_frames_ = 0;  // of the current message
  uint64_t frames_ = 0;
  uint64_t cost_bytes_ = 0;
  enum class First : uint8_t { kComing, kHere, kGone };
  First first_ = First::kComing;
  std::vector<uint8_t> first_frame_;
};

}  // namespace downpour::transport
