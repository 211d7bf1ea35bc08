#include "shared/transport/zmtp_walker.h"

#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "shared/base/rng.h"

namespace downpour::transport {
namespace {

using Finding = ZmtpWalker::Finding;
constexpr uint8_t kMore = 1;
constexpr uint8_t kCommand = 4;

std::string greeting(const std::string& mechanism, char version = '\3') {
  std::string out("\xff\0\0\0\0\0\0\0\1\x7f", 10);
  out += version;
  out += '\0';
  out += mechanism;
  out.resize(64, '\0');
  return out;
}
std::string frame(uint8_t flags, size_t bytes) {
  std::string out;
  if (bytes < 256) {
    out = {char(flags), char(bytes)};
  } else {
    out = std::string{char(flags | 2)};
    for (int shift = 56; shift >= 0; shift -= 8) out += char(bytes >> shift);
  }
  return out + std::string(bytes, 'x');
}
Finding walk(ZmtpWalker& walker, const std::string& bytes) {
  return walker.walk({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()});
}

TEST_CASE("frames are counted with their overhead, commands are not", "[transport]") {
  ZmtpWalker walker(3);
  CHECK(walk(walker, greeting("NULL") + frame(kCommand, 25)) == Finding::kFine);
  CHECK(walker.cost_bytes() == 0);
  CHECK(walk(walker, frame(kMore, 0) + frame(0, 1000)) == Finding::kFine);
  CHECK(walker.frames() == 2);
  CHECK(walker.cost_bytes() == 2 * kFrameOverheadBytes + 1000);
  CHECK_FALSE(walker.encrypted());
}

TEST_CASE("a message of too many frames is detected at the start of the first excess frame",
          "[transport]") {
  ZmtpWalker walker(3);
  CHECK(walk(walker, greeting("NULL")) == Finding::kFine);
  for (int i = 0; i < 5; ++i) {
    CHECK(walk(walker, frame(kMore, 300) + frame(kMore, 8) + frame(0, 0)) == Finding::kFine);
  }
  CHECK(walk(walker, frame(kMore, 0) + frame(kMore, 0) + frame(kMore, 0)) == Finding::kFine);
  CHECK(walk(walker, frame(kCommand, 9)) == Finding::kFine);  // a heartbeat between frames
  CHECK(walk(walker, std::string("\1\0", 2)) == Finding::kTooManyFrames);
}

TEST_CASE("the division of bytes into pieces makes no difference", "[transport]") {
  const std::string bytes = greeting("NULL") + frame(kCommand, 30) + frame(kMore, 70'000) +
                            frame(kMore, 8) + frame(0, 0) + frame(0, 255) + frame(0, 256);
  ZmtpWalker whole(3);
  CHECK(walk(whole, bytes) == Finding::kFine);
  Rng rng(7);
  for (int round = 0; round < 50; ++round) {
    ZmtpWalker walker(3);
    for (size_t at = 0; at < bytes.size();) {
      const size_t piece =
          std::min<size_t>(1 + rng.below(round % 2 == 0 ? 3 : 9000), bytes.size() - at);
      REQUIRE(walk(walker, bytes.substr(at, piece)) == Finding::kFine);
      at += piece;
    }
    REQUIRE(walker.cost_bytes() == whole.cost_bytes());
    REQUIRE(walker.frames() == whole.frames());
  }
}

TEST_CASE("the first frame is kept until it is taken, but a large one is not", "[transport]") {
  ZmtpWalker walker(3);
  CHECK(walk(walker, greeting("NULL") + frame(kCommand, 10) + frame(kMore, 5).substr(0, 4)) ==
        Finding::kFine);
  CHECK_FALSE(walker.take_first_frame());
  CHECK(walk(walker, "xxx" + frame(0, 7)) == Finding::kFine);
  const auto first = walker.take_first_frame();
  REQUIRE(first);
  CHECK(first->size() == 5);
  CHECK_FALSE(walker.take_first_frame());
  ZmtpWalker large(3);
  CHECK(walk(large, greeting("NULL") + frame(0, ZmtpWalker::kFirstFrameBytesMax + 1)) ==
        Finding::kFine);
  CHECK_FALSE(large.take_first_frame());
}

TEST_CASE("older versions and other protocols are detected in the greeting", "[transport]") {
  const std::vector<std::string> foreign = {"GET / HTTP/1.1\r\n",
                                            std::string("\1\0", 2),  // ZMTP 1.0
                                            greeting("NULL", '\0'), greeting("NULL", '\1'),
                                            std::string("\xff\0\0\0\0\0\0\0\5\0abcd", 14)};
  for (const std::string& bytes : foreign) {
    ZmtpWalker walker(3);
    CHECK(walk(walker, bytes) == Finding::kNotZmtp3);
  }
}

TEST_CASE("with CURVE a frame costs its bytes, and the end of a message is not known",
          "[transport]") {
  ZmtpWalker walker(3);
  CHECK(walk(walker, greeting("CURVE") + frame(kCommand, 200) + frame(kCommand, 300)) ==
        Finding::kFine);
  CHECK(walker.encrypted());
  CHECK(walker.frames() == 0);
  constexpr size_t kCurveBytes = 33;
  for (int i = 0; i < 10; ++i) CHECK(walk(walker, frame(0, 1000 + kCurveBytes)) == Finding::kFine);
  CHECK(walker.cost_bytes() == 10 * (kFrameOverheadBytes + 1000));
}

TEST_CASE("a claimed size of 2^64 - 1 and random bytes have no effect", "[transport]") {
  ZmtpWalker claim(3);
  CHECK(walk(claim, greeting("NULL") + std::string("\2\xff\xff\xff\xff\xff\xff\xff\xff", 9) +
                        std::string(100, 'y')) == Finding::kFine);
  CHECK(claim.cost_bytes() == kFrameOverheadBytes + 100);
  Rng rng(3);
  for (int round = 0; round < 200; ++round) {
    ZmtpWalker walker(3);
    std::string bytes = greeting("NULL");
    for (int i = 0; i < 2000; ++i) bytes += char(rng.next());
    (void)walk(walker, bytes);
    CHECK(walker.cost_bytes() <= 2000 * kFrameOverheadBytes);
  }
}

}  // namespace
}  // namespace downpour::transport
