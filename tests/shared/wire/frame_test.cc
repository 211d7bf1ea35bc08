#include "shared/wire/frame.h"

#include <vector>

#include <catch2/catch.hpp>

namespace downpour::wire {
namespace {

std::vector<uint8_t> sealed(size_t body_bytes = 16) {
  std::vector<uint8_t> frame(kEnvelopeBytes + body_bytes, 7);
  seal_frame({.kind = Kind::kPush,
              .envelope = {.run = 0x1122334455667788, .view = {3, 4}, .request = RequestId(99)},
              .keys_bytes = 64,
              .values_bytes = 32},
             frame);
  return frame;
}

ErrorCode code_of(std::span<const uint8_t> frame) {
  const Result<FrameHeader> header = open_frame(frame);
  REQUIRE_FALSE(header);
  return header.error().code;
}

TEST_CASE("an opened envelope has the fields that were sealed", "[wire]") {
  const Result<FrameHeader> header = open_frame(sealed());
  REQUIRE(header);
  CHECK(header->kind == Kind::kPush);
  CHECK(header->envelope ==
        Envelope{.run = 0x1122334455667788, .view = {3, 4}, .request = RequestId(99)});
  CHECK(header->keys_bytes == 64);
  CHECK(header->values_bytes == 32);
}

TEST_CASE("every flipped bit of a frame is detected", "[wire]") {
  const std::vector<uint8_t> frame = sealed();
  for (size_t bit = 0; bit < frame.size() * 8; ++bit) {
    std::vector<uint8_t> bad = frame;
    bad[bit / 8] ^= uint8_t(1U << (bit % 8));
    CAPTURE(bit);
    REQUIRE_FALSE(open_frame(bad));
  }
}

TEST_CASE("every truncation and every extension is detected", "[wire]") {
  std::vector<uint8_t> frame = sealed();
  for (size_t size = 0; size < frame.size(); ++size) {
    CAPTURE(size);
    REQUIRE(code_of(std::span(frame).first(size)) == ErrorCode::kMalformed);
  }
  frame.push_back(0);
  CHECK(code_of(frame) == ErrorCode::kMalformed);
  CHECK(code_of(std::vector<uint8_t>(kHeaderBytesMax + 8)) == ErrorCode::kMalformed);
}

TEST_CASE("another protocol version is refused by its number, before the checksum is compared",
          "[wire]") {
  std::vector<uint8_t> frame = sealed();
  frame[4] = 2;
  const Result<FrameHeader> header = open_frame(frame);
  REQUIRE_FALSE(header);
  CHECK(header.error().code == ErrorCode::kUnsupported);
  CHECK(header.error().what == "the peer speaks protocol 2, but this build speaks protocol 1");
}

TEST_CASE("kinds have names and unknown ones are refused", "[wire]") {
  CHECK(kind_name(Kind::kHello) == "Hello");
  CHECK(kind_name(Kind::kReject) == "Reject");
  CHECK(kind_name(Kind(999)) == "unknown");
  std::vector<uint8_t> frame(kEnvelopeBytes);
  seal_frame({.kind = Kind(kKindMax + 1)}, frame);
  CHECK(code_of(frame) == ErrorCode::kUnsupported);
  seal_frame({.kind = Kind(0)}, frame);
  CHECK(code_of(frame) == ErrorCode::kUnsupported);
}

}  // namespace
}  // namespace downpour::wire
