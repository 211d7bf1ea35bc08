// ZmtpWalker: follows the framing of what a tcp peer sends (ZMTP 3), and keeps nothing of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace downpour::transport {

/// Memory that libzmq takes for a frame besides its bytes (a msg_t in a queue).
constexpr uint64_t kFrameOverheadBytes = 64;

/// One direction of one connection, from its first byte on. One thread.
class ZmtpWalker {
 public:
  enum class Finding : uint8_t {
    kFine,
    kNotZmtp3,       // the greeting is of another protocol or of an older version
    kTooManyFrames,  // of one message
  };

  /// `frames_max`: of one message.
  explicit ZmtpWalker(uint32_t frames_max) : frames_max_(frames_max) {}

  /// The next bytes of the connection. After another answer than kFine the walker must not be used
  /// again. CURVE hides where a message ends, so that kTooManyFrames needs the NULL mechanism.
  Finding walk(std::span<const uint8_t> bytes);

  /// Memory that all data frames so far take: kFrameOverheadBytes each, and their bytes as the
  /// receiver sees them. Commands (handshake, heartbeats of the NULL mechanism) are not counted:
  /// libzmq queues none.
  uint64_t cost_bytes() const { return cost_bytes_; }
  /// Data frames begun. With CURVE, the first one proves that the handshake has ended.
  uint64_t frames() const { return frames_; }
  bool encrypted() const { return encrypted_; }
  /// The first data frame, once: when all of it has come, and where it has at most
  /// kFirstFrameBytesMax. Not with CURVE.
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
  uint32_t message_frames_ = 0;  // of the message under way
  uint64_t frames_ = 0;
  uint64_t cost_bytes_ = 0;
  enum class First : uint8_t { kComing, kHere, kGone };
  First first_ = First::kComing;
  std::vector<uint8_t> first_frame_;
};

}  // namespace downpour::transport
