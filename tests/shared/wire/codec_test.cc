#include "shared/wire/codec.h"

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <set>

#include <catch2/catch.hpp>

#include "tests/shared/wire/random_message.h"

namespace downpour::wire {
namespace {

std::vector<uint8_t> encoded(const Message& message) {
  Codec codec;
  const Result<std::span<const uint8_t>> frame = codec.encode(message);
  REQUIRE(frame);
  return {frame->begin(), frame->end()};
}

Result<Message> decoded(std::span<const uint8_t> frame, std::vector<Bytes> payloads = {}) {
  return Codec().decode(frame, payloads);
}

/// Returns the frame with a corrected checksum, so that the checks after the checksum are tested.
std::vector<uint8_t> resealed(std::vector<uint8_t> frame, const Message& message) {
  seal_frame({.kind = kind_of(message.body),
              .envelope = message.envelope,
              .keys_bytes = uint32_t(message.keys.size()),
              .values_bytes = uint32_t(message.values.size())},
             frame);
  return frame;
}

bool same_bytes(const Bytes& a, const Bytes& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size()) == 0);
}

std::string why_refused(const Message& message) {
  const Result<Message> out = decoded(encoded(message), payloads_of(message));
  REQUIRE_FALSE(out);
  CHECK(out.error().code == ErrorCode::kMalformed);
  return out.error().what;
}

Message sample_push() {
  Push push{.worker = Incarnation(5), .batch = {1, 2, 3}, .records = 512, .records_hash = 77};
  push.covered.insert(PartitionId(3));
  push.covered.insert(PartitionId(200));
  push.sections = {{TableId(0), 2}, {TableId(4), 1}};
  push.pulled_versions = {9, 10};
  push.metrics = {{.weight = 512, .loss = 100.5}};
  return {.envelope = {.run = 11, .view = {2, 7}, .request = RequestId(42)},
          .body = std::move(push),
          .keys = Bytes::of(std::vector<uint64_t>{1, 2, 3}),
          .values = Bytes::of(std::vector<float>{1.5F, 2.5F, 3.5F})};
}

TEST_CASE("every kind of message comes back field by field", "[wire]") {
  Codec codec;  // reused like in a transport: fields of one message must not leak into the next
  RandomMessages random(1);
  for (int round = 0; round < 200; ++round) {
    for (uint16_t kind = 1; kind <= kKindMax; ++kind) {
      const Message message = random.next(Kind(kind));
      REQUIRE(kind_of(message.body) == Kind(kind));
      CAPTURE(round, kind_name(Kind(kind)));
      const Result<std::span<const uint8_t>> frame = codec.encode(message);
      REQUIRE(frame);
      std::vector<Bytes> payloads = payloads_of(message);
      const Result<Message> out = codec.decode(*frame, payloads);
      if (!out) FAIL(out.error().what);
      REQUIRE(out->envelope == message.envelope);
      REQUIRE(out->body == message.body);
      REQUIRE(same_bytes(out->keys, message.keys));
      REQUIRE(same_bytes(out->values, message.values));
    }
  }
}

TEST_CASE("payloads are not copied, and unaligned memory is accepted", "[wire]") {
  const Message message = sample_push();
  std::vector<Bytes> payloads = payloads_of(message);
  const Result<Message> out = Codec().decode(encoded(message), payloads);
  REQUIRE(out);
  CHECK(out->keys.data() == message.keys.data());
  CHECK(out->values.data() == message.values.data());
  std::vector<uint8_t> shifted(1);
  const std::vector<uint8_t> frame = encoded(message);
  shifted.insert(shifted.end(), frame.begin(), frame.end());
  CHECK(decoded(std::span(shifted).subspan(1), payloads_of(message)));
}

TEST_CASE("a message larger than the scratch memory passes, one larger than a frame is refused",
          "[wire]") {
  Codec codec;
  View view{.id = {1, 2}, .owners = {{0, 0, Incarnation(1), "inproc://ps"}}};
  view.partitions.resize(65536, {0, {1, 1}});
  const Message large{.body = view};
  const Result<std::span<const uint8_t>> frame = codec.encode(large);
  REQUIRE(frame);
  CHECK(codec.decode(*frame, {})->body == large.body);
  const Message huge{.body = Welcome{.job = std::string(kHeaderBytesMax, 'x'),
                                     .shard_bytes = 1,
                                     .heartbeat_ns = 1,
                                     .lease_ns = 1}};
  const auto refused = codec.encode(huge);
  REQUIRE_FALSE(refused);
  CHECK_THAT(refused.error().what, Catch::StartsWith("Welcome of 10"));
}

TEST_CASE("a stream of unknown length must name exactly one piece", "[wire]") {
  const auto passes = [](std::vector<uint64_t> cuts, bool splittable) {
    Welcome welcome{.job = "x", .shard_bytes = 1, .heartbeat_ns = 1, .lease_ns = 1};
    welcome.train_files = {{.path = "exec: x",
                            .bytes = plan::kOpenEnd,
                            .splittable = splittable,
                            .cuts = std::move(cuts)}};
    return decoded(encoded({.body = welcome}), {});
  };
  CHECK(passes({640}, false));
  CHECK_FALSE(passes({}, false));
  CHECK_FALSE(passes({640, 1280}, false));
  CHECK_FALSE(passes({640}, true));
}

TEST_CASE("text for people arrives with a bounded length and is safe to show", "[wire]") {
  const auto arrives = [](std::string what) {
    const Message sent{.body = Reject{.what = std::move(what)}};
    return std::get<Reject>(decoded(encoded(sent), {})->body).what;
  };
  CHECK(arrives("plain, \xc3\xa4") == "plain, \xc3\xa4");
  CHECK(arrives("a\x1b[2Jb\n\tc\xff\xc2\x9b") == "a\\x1b[2Jb\n\tc\\xff\\xc2\\x9b");
  const std::string cut = arrives(std::string(900'000, '\x1b'));
  CHECK(cut.size() <= 4096);
  CHECK(cut.ends_with("\\x1b..."));
  CHECK(arrives(cut) == cut);
  Hello hello{.incarnation = Incarnation(1), .build = "1\r2", .host = "h\n\x1b[31m"};
  const Result<Message> out = decoded(encoded({.body = hello}), {});
  REQUIRE(out);
  CHECK(std::get<Hello>(out->body).host == "h\\x0a\\x1b[31m");
  CHECK(std::get<Hello>(out->body).build == "1\\x0d2");
}

TEST_CASE("payload frames must match the header", "[wire]") {
  const Message message = sample_push();
  const std::vector<uint8_t> frame = encoded(message);
  const Bytes keys = message.keys;
  const Bytes values = message.values;
  CHECK(decoded(frame, {keys, values}));
  CHECK_FALSE(decoded(frame, {}));
  CHECK_FALSE(decoded(frame, {keys}));
  CHECK_FALSE(decoded(frame, {values, keys}));
  CHECK_FALSE(decoded(frame, {keys, values, values}));
  CHECK_FALSE(decoded(frame, {keys.slice(0, 16), values}));
  CHECK_FALSE(decoded(frame, {keys, values.slice(0, 8)}));
}

TEST_CASE("a body that contradicts its payloads is refused", "[wire]") {
  Message message = sample_push();
  std::get<Push>(message.body).sections[0].keys = 3;
  CHECK(why_refused(message) == "Push: sections of 4 keys, keys frame of 3");
  std::get<Push>(message.body).sections = {{TableId(0), UINT32_MAX},
                                           {TableId(0), 4}};  // wraps to 3 in 32 bits
  CHECK(why_refused(message) == "Push: sections of 4294967299 keys, keys frame of 3");
  std::get<Push>(message.body).handle = RequestId(8);
  message.keys = {};
  CHECK_THAT(why_refused(message), Catch::Contains("keys frame of 0"));
  std::get<Push>(message.body).sections = {{TableId(0), 3}};
  // with a handle, the keys frame may be absent
  CHECK(decoded(encoded(message), payloads_of(message)));
  message.envelope.request = {};
  CHECK(why_refused(message) == "Push: the request id is missing");
  CHECK_THAT(why_refused({.body = Sealed{1}, .values = message.values}),
             Catch::Contains("an unexpected "));
  CHECK_THAT(why_refused({.body = Sealed{1}, .keys = sample_push().keys}),
             Catch::Contains("an unexpected "));
}

TEST_CASE("required fields and ranges are checked", "[wire]") {
  const auto push_with = [](auto&& change) {
    Message message = sample_push();
    change(std::get<Push>(message.body));
    return why_refused(message);
  };
  CHECK(push_with([](Push& push) { push.worker = {}; }) == "Push: worker is missing");
  CHECK(push_with([](Push& push) { push.covered = {}; }) == "Push: push that covers no partition");
  CHECK(push_with([](Push& push) { push.covered.words.resize(1025); }) ==
        "Push: too many partitions");
  CHECK(push_with([](Push& push) { push.fragment = 1; }) == "Push: fragment out of range");
  CHECK(push_with([](Push& push) { push.fragments = 0; }) == "Push: fragment out of range");
  CHECK(push_with([](Push& push) { push.end = true; }) == "Push: shard-end marker with keys");
  const auto welcome_with = [](auto&& change) {
    Welcome welcome{.job = "x", .shard_bytes = 64, .heartbeat_ns = 1, .lease_ns = 1};
    welcome.train_files = {{.path = "a.csv", .bytes = 1000}};
    change(welcome);
    const Result<Message> out = decoded(encoded({.body = welcome}), {});
    return out ? std::string() : out.error().what;
  };
  CHECK(welcome_with([](Welcome&) {}).empty());
  CHECK(welcome_with([](Welcome& w) { w.shard_bytes = 0; }) == "Welcome: shard size is 0 bytes");
  CHECK(welcome_with([](Welcome& w) { w.train_files[0].bytes = uint64_t{1} << 61; }) ==
        "Welcome: files of too many shards");
  CHECK(welcome_with([](Welcome& w) { w.lease_ns = -1; }) ==
        "Welcome: heartbeat or lease time not positive");
  CHECK(welcome_with([](Welcome& w) { w.heartbeat_ns = INT64_MAX; }) ==
        "Welcome: heartbeat or lease time above an hour");
  CHECK(why_refused({.body = Hello{}}) == "Hello: incarnation is missing");
  CHECK(why_refused({.body = Hello{.role = Role(4), .incarnation = Incarnation(1)}}) ==
        "Hello: role is unset or unknown");
  CHECK(why_refused({.body = Reject{.code = ErrorCode(13)}}) ==
        "Reject: error code is unset or unknown");
  CHECK(why_refused({.body = View{}}) == "View: view without partitions");
  CHECK(why_refused({.body = View{.partitions = {{.owner = 0}}}}) ==
        "View: partition of an owner that is not listed");
  CHECK(why_refused({.body = PushReply{.others = {{.partition = PartitionId(65536)}}}}) ==
        "PushReply: partition out of range");
  CHECK(why_refused({.body = StatusReply{.ended = {{4, 9}, {2, 3}}}}) ==
        "StatusReply: intervals of shards out of order");
  CHECK(why_refused({.body = InputList{{{0, Incarnation(1), ""}}}}) ==
        "InputList: an input process without incarnation or endpoint");
  CHECK(why_refused({.body = ReadMore{}}) == "ReadMore: shard read is missing");
  CHECK(why_refused({.body = ReadShard{.shard_read = 1, .window = 0}}) ==
        "ReadShard: number of batches in flight is 0");
  CHECK(why_refused({.body = ReadBatch{.shard_read = 1, .piece = 2, .pieces = 2}}) ==
        "ReadBatch: piece is out of range");
  CHECK(why_refused({.body = ReadBatch{.shard_read = 1, .pieces = 257}}) ==
        "ReadBatch: piece is out of range");
  CHECK(why_refused({.body = Clock{.batches = 3, .floor = 4}}) == "Clock: impossible clock");
  CHECK(why_refused({.body = Clock{.batches = UINT64_MAX}}) == "Clock: impossible clock");
  CHECK(why_refused({.body = Floor{UINT64_MAX}}) == "Floor: impossible floor");
}

TEST_CASE("a message of zeros is valid Cap'n Proto but never a harmful message", "[wire]") {
  const std::set<Kind> harmless{Kind::kAdopt,      Kind::kAdopted,       Kind::kLeaseRequest,
                                Kind::kLeaseGrant, Kind::kStatusRequest, Kind::kStatusReply,
                                Kind::kSaved,      Kind::kSealed,        Kind::kStop,
                                Kind::kPushReply,  Kind::kFrozen,        Kind::kInputList,
                                Kind::kClock,      Kind::kFloor};
  for (uint16_t number = 1; number <= kKindMax; ++number) {
    // one segment of one word: a null root, so that every field reads as its default
    std::vector<uint8_t> frame(kEnvelopeBytes + 16);
    frame[kEnvelopeBytes + 4] = 1;
    seal_frame({.kind = Kind(number), .envelope = {.request = RequestId(1)}}, frame);
    const Result<Message> out = decoded(frame);
    CAPTURE(kind_name(Kind(number)));
    REQUIRE(out.has_value() == harmless.contains(Kind(number)));
    if (Kind(number) == Kind::kStop) CHECK(std::get<Stop>(out->body).code != 0);
    if (Kind(number) == Kind::kSaved) CHECK_FALSE(std::get<Saved>(out->body).ok);
  }
}

TEST_CASE("every flipped bit and every truncation of a header is refused", "[wire]") {
  const Message message = sample_push();
  const std::vector<uint8_t> frame = encoded(message);
  for (size_t bit = 0; bit < frame.size() * 8; ++bit) {
    std::vector<uint8_t> bad = frame;
    bad[bit / 8] ^= uint8_t(1U << (bit % 8));
    REQUIRE_FALSE(decoded(bad, payloads_of(message)));
  }
  for (size_t size = 0; size < frame.size(); ++size) {
    REQUIRE_FALSE(decoded(std::span(frame).first(size), payloads_of(message)));
  }
}

TEST_CASE("a sealed envelope without a message is refused", "[wire]") {
  std::vector<uint8_t> frame(kEnvelopeBytes);
  for (uint16_t number = 1; number <= kKindMax; ++number) {
    seal_frame({.kind = Kind(number), .envelope = {.request = RequestId(1)}}, frame);
    const Result<Message> out = decoded(frame);
    REQUIRE_FALSE(out);
    CHECK(out.error().what.find("an envelope without a message") != std::string::npos);
  }
}

TEST_CASE("a hostile count allocates nothing", "[wire]") {
  // Cap'n Proto lists of zero-sized structs can claim 2^29 elements that take no bytes.
  std::vector<uint8_t> frame(kEnvelopeBytes + 8 * 4);
  frame[kEnvelopeBytes + 4] = 3;                       // one segment of three words
  const uint64_t root = uint64_t(1) << 48;             // a struct without data and with one pointer
  const uint64_t list = 1 | uint64_t(7) << 32;         // a composite list of zero words
  const uint64_t tag = uint64_t((1U << 29) - 1) << 2;  // 2^29 - 1 elements of size 0
  std::memcpy(&frame[kEnvelopeBytes + 8], &root, 8);
  std::memcpy(&frame[kEnvelopeBytes + 16], &list, 8);
  std::memcpy(&frame[kEnvelopeBytes + 24], &tag, 8);
  for (uint16_t number = 1; number <= kKindMax; ++number) {
    seal_frame({.kind = Kind(number), .envelope = {.request = RequestId(1)}}, frame);
    (void)decoded(frame);  // neither crashes nor allocates gigabytes
  }
  seal_frame({.kind = Kind::kLeaseGrant}, frame);
  CHECK_FALSE(decoded(frame));
}

TEST_CASE(
    "mutated bodies under a valid checksum never crash, and a decoded one can be encoded again",
    "[wire]") {
  RandomMessages random(2);
  Rng rng(3);
  Codec codec;
  size_t accepted = 0;
  for (int i = 0; i < 10'000; ++i) {
    const Message message = random.next(Kind(uint16_t(1 + rng.below(kKindMax))));
    const Result<std::span<const uint8_t>> original = codec.encode(message);
    REQUIRE(original);
    std::vector<uint8_t> frame(original->begin(), original->end());
    for (uint64_t n = 1 + rng.below(8); n > 0; --n) {
      uint8_t& byte = frame[kEnvelopeBytes + rng.below(frame.size() - kEnvelopeBytes)];
      byte = rng.below(2) == 0 ? uint8_t(byte ^ (1U << rng.below(8))) : uint8_t(rng.next());
    }
    if (rng.below(4) == 0)
      frame.resize(kEnvelopeBytes + 8 * rng.below((frame.size() - kEnvelopeBytes) / 8 + 1));
    std::vector<Bytes> payloads = payloads_of(message);
    Result<Message> out = codec.decode(resealed(std::move(frame), message), payloads);
    if (!out) continue;
    ++accepted;
    const Result<std::span<const uint8_t>> again = codec.encode(*out);
    REQUIRE(again);
    std::vector<Bytes> same = payloads_of(*out);
    REQUIRE(codec.decode(*again, same));
  }
  CHECK(accepted > 1000);  // otherwise only the first check was tested
}

TEST_CASE("random garbage is refused", "[wire]") {
  Rng rng(4);
  for (int i = 0; i < 10'000; ++i) {
    std::vector<uint8_t> frame(rng.below(400));
    for (uint8_t& byte : frame) byte = uint8_t(rng.next());
    REQUIRE_FALSE(decoded(frame));
  }
}

std::vector<uint8_t> read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  CAPTURE(path);
  REQUIRE(file);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// One frame of each kind as the first release wrote it, with every field filled. They must stay
/// readable forever. DP_REGENERATE_GOLDEN=1 writes missing files and never changes an existing one.
TEST_CASE("golden frames of protocol 1 stay readable", "[wire]") {
  for (uint16_t number = 1; number <= kKindMax; ++number) {
    const std::string path =
        str(DP_SOURCE_DIR, "/tests/golden/wire/v1_", kind_name(Kind(number)), ".bin");
    if (std::getenv("DP_REGENERATE_GOLDEN") != nullptr && !std::ifstream(path)) {
      const std::vector<uint8_t> ours = encoded(
          Kind(number) == Kind::kPush ? sample_push() : RandomMessages(2026).next(Kind(number)));
      std::ofstream(path, std::ios::binary)
          .write(reinterpret_cast<const char*>(ours.data()), std::streamsize(ours.size()));
    }
    const std::vector<uint8_t> golden = read_file(path);
    const Result<FrameHeader> header = open_frame(golden);
    REQUIRE(header);
    CHECK(header->kind == Kind(number));
    Message payloads;
    payloads.keys = Bytes::of(std::vector<uint8_t>(header->keys_bytes));
    payloads.values = Bytes::of(std::vector<uint8_t>(header->values_bytes));
    const Result<Message> out = decoded(golden, payloads_of(payloads));
    if (!out) FAIL(out.error().what);
    const Result<Message> again = decoded(encoded(*out), payloads_of(*out));
    REQUIRE(again);
    CHECK(again->body == out->body);
  }
}

TEST_CASE("a push of the first release is read, without the fields that it did not have",
          "[wire]") {
  const std::vector<uint8_t> golden =
      read_file(str(DP_SOURCE_DIR, "/tests/golden/wire/v1_Push.bin"));
  const Result<Message> out = decoded(golden, payloads_of(sample_push()));
  REQUIRE(out);
  CHECK(out->body == sample_push().body);
  CHECK(out->envelope == sample_push().envelope);
}

}  // namespace
}  // namespace downpour::wire
