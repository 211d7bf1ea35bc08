#include "shared/transport/shared_memory.h"

#include <chrono>
#include <fcntl.h>
#include <filesystem>
#include <unistd.h>
#include <vector>

#include <catch2/catch.hpp>

#include "shared/base/units.h"
#include "shared/transport/transport.h"
#include "shared/wire/messages.h"

namespace downpour::transport {
namespace {

std::vector<uint8_t> pattern(size_t bytes, uint8_t seed) {
  std::vector<uint8_t> out(bytes);
  for (size_t i = 0; i < bytes; ++i) out[i] = uint8_t(seed + i * 31);
  return out;
}

std::unique_ptr<SharedArena> arena_or_skip() {
  std::unique_ptr<SharedArena> arena = SharedArena::create();
  if (arena == nullptr) WARN("SKIPPED: this system gives no sealable memory");
  return arena;
}

TEST_CASE("one side puts a payload, the other takes it in place, and the block returns",
          "[transport]") {
  const auto arena = arena_or_skip();
  if (arena == nullptr) return;
  const auto view = SharedView::open(arena->name());
  REQUIRE(view != nullptr);
  std::optional<uint32_t> first;
  for (uint8_t round = 0; round < 100; ++round) {
    const auto sent = pattern(100'000, round);
    const auto ref = arena->put(round, sent);
    REQUIRE(ref.has_value());
    if (!first) first = ref->granule;
    CHECK(ref->granule == *first);  // returned each time
    const auto bytes = view->take(*ref);
    REQUIRE(bytes.has_value());
    CHECK(std::equal(sent.begin(), sent.end(), bytes->data(), bytes->data() + bytes->size()));
  }
}

TEST_CASE("a payload outlives the view that it was taken from", "[transport]") {
  auto arena = arena_or_skip();
  if (arena == nullptr) return;
  auto view = SharedView::open(arena->name());
  const auto sent = pattern(20'000, 7);
  const auto bytes = view->take(*arena->put(0, sent));
  view.reset();
  arena.reset();
  REQUIRE(bytes.has_value());
  CHECK(std::equal(sent.begin(), sent.end(), bytes->data()));
}

TEST_CASE("a reference opens a block once, and only if it is correct", "[transport]") {
  const auto arena = arena_or_skip();
  if (arena == nullptr) return;
  const auto view = SharedView::open(arena->name());
  const BlockRef good = *arena->put(0, pattern(9000, 1));
  BlockRef wrong = good;
  wrong.ticket += 1;
  CHECK_FALSE(view->take(wrong).has_value());
  wrong = good;
  wrong.granule = 0;  // the head of the arena
  CHECK_FALSE(view->take(wrong).has_value());
  wrong = good;
  wrong.granule = kArenaGranules;
  CHECK_FALSE(view->take(wrong).has_value());
  wrong = good;
  wrong.bytes = kArenaBytes;
  CHECK_FALSE(view->take(wrong).has_value());
  const auto held = view->take(good);
  CHECK(held.has_value());
  CHECK_FALSE(view->take(good).has_value());
}

TEST_CASE("a block whose message was lost returns after a while, and one in use never does",
          "[transport]") {
  const auto arena = arena_or_skip();
  if (arena == nullptr) return;
  const auto view = SharedView::open(arena->name());
  const auto payload = pattern(kSharedBytesMin << (kArenaClasses - 1), 3);
  std::vector<BlockRef> refs;
  while (const auto ref = arena->put(0, payload)) refs.push_back(*ref);
  REQUIRE(refs.size() > 10);
  const auto held = view->take(refs[0]);
  CHECK_FALSE(arena->put(kSecond, payload).has_value());
  uint32_t again = 0;
  while (const auto ref = arena->put(31 * kSecond, payload)) {
    CHECK(ref->granule != refs[0].granule);
    ++again;
  }
  CHECK(again == refs.size() - 1);
  CHECK_FALSE(view->take(refs[1]).has_value());  // reused: the late message gets nothing
  CHECK(std::equal(payload.begin(), payload.end(), held->data()));
}

TEST_CASE("memory that is no arena is not opened", "[transport]") {
  const auto arena = arena_or_skip();
  if (arena == nullptr) return;
  ArenaName name = arena->name();
  name.token += 1;
  CHECK(SharedView::open(name) == nullptr);
  const std::string path = str("/tmp/downpour-test-", ::getpid(), "-plain");
  const int plain = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  // not sealed, so it could shrink while it is read
  REQUIRE(::ftruncate(plain, off_t(kArenaBytes)) == 0);
  CHECK(SharedView::open({uint32_t(::getpid()), plain, 0}) == nullptr);
  ::close(plain);
  std::filesystem::remove(path);
  CHECK(SharedView::open({uint32_t(::getpid()), 0, 0}) == nullptr);
  CHECK(SharedView::open({uint32_t(::getpid()), -1, 0}) == nullptr);
  CHECK(SharedView::open({UINT32_MAX, 3, 0}) == nullptr);
}

TEST_CASE("notes are decoded as encoded, and other bytes are refused", "[transport]") {
  const SharedNote note{SharedNote::Kind::kPayload, {5, 6, 7}, {8, 9, 10}};
  auto bytes = encode_note(note);
  const auto read = decode_note(bytes);
  REQUIRE(read.has_value());
  CHECK(read->arena == note.arena);
  CHECK(read->block.granule == 8);
  CHECK(read->block.bytes == 10);
  bytes[4] = 6;
  CHECK_FALSE(decode_note(bytes).has_value());
  CHECK_FALSE(decode_note(std::span(bytes).first(20)).has_value());
}

// ---- through the transport

struct Side {
  explicit Side(bool shared_memory = true)
      : transport(make_zmq_transport({.shared_memory = shared_memory})) {}
  template <typename Condition>
  bool wait_until(Condition&& condition, Side* other = nullptr) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (!condition()) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      poll();
      if (other != nullptr) other->poll();
    }
    return true;
  }
  void poll() {
    transport->poll(kMillisecond, 100,
                    {.on_message =
                         [this](PortId, PeerId peer, wire::Message&& message) {
                           from = peer;
                           received.push_back(std::move(message));
                         },
                     .on_malformed = [](PortId, PeerId, const Error& e) { FAIL(e.what); }});
  }
  void send(PeerId peer, uint32_t batch, size_t floats) {
    wire::Message message{.envelope = {.run = 1, .view = {1, 2}, .request = RequestId(batch + 1)},
                          .body = wire::PredictReport{.batch = batch},
                          .values = Bytes::of(std::vector<float>(floats, float(batch)))};
    REQUIRE(
        wait_until([&] { return transport->send(peer, std::move(message)) == SendStatus::kSent; }));
  }
  std::unique_ptr<Transport> transport;
  std::vector<wire::Message> received;
  PeerId from{};
};

void check_values(const wire::Message& message) {
  const auto batch = std::get<wire::PredictReport>(message.body).batch;
  for (size_t i = 0; i < message.values.count<float>(); i += 997)
    REQUIRE(message.values.load<float>(i) == float(batch));
}

std::string memory_endpoint(const char* name) {
  return str("ipc:///tmp/downpour-test-", ::getpid(), "-", name);
}

/// Returns `to` as a peer of `from`.
PeerId connect(Side& from, Side& to, const std::string& endpoint) {
  REQUIRE(to.transport->bind(endpoint).has_value());
  return *from.transport->connect(endpoint);
}

TEST_CASE("large values go through shared memory over ipc, both ways, in order", "[transport]") {
  if (arena_or_skip() == nullptr) return;
  Side ps, worker;
  const PeerId peer = connect(worker, ps, memory_endpoint("shared"));
  constexpr uint32_t kCount = 200;
  for (uint32_t i = 0; i < kCount; ++i) {
    worker.send(peer, i, 10 + 1000 * i);  // the first ones are small, the last ones have 800 KB
    REQUIRE(ps.wait_until([&] { return ps.received.size() == 1; }, &worker));
    check_values(ps.received[0]);
    CHECK(ps.transport->send(ps.from, std::move(ps.received[0])) == SendStatus::kSent);
    ps.received.clear();
    REQUIRE(worker.wait_until([&] { return worker.received.size() == i + 1; }, &ps));
    check_values(worker.received.back());
    CHECK(std::get<wire::PredictReport>(worker.received.back().body).batch == i);
    if (i >= 30) worker.received[i].values = {};
  }
  CHECK(worker.transport->stats().shared_bytes > 10'000'000);
  CHECK(ps.transport->stats().shared_bytes > 10'000'000);
}

TEST_CASE("if the receiver holds all blocks, the socket carries the rest", "[transport]") {
  if (arena_or_skip() == nullptr) return;
  Side ps, worker;
  const PeerId peer = connect(worker, ps, memory_endpoint("held"));
  constexpr uint32_t kCount = 120;  // of 1 MB each, more than an arena holds
  for (uint32_t i = 0; i < kCount; ++i) {
    worker.send(peer, i, 250'000);
    REQUIRE(ps.wait_until([&] { return ps.received.size() == i + 1; }, &worker));
  }
  for (const wire::Message& message : ps.received) check_values(message);
  const uint64_t shared = worker.transport->stats().shared_bytes;
  CHECK(shared > 30'000'000);
  CHECK(shared < kArenaBytes);
}

TEST_CASE("a peer that returns as another process is offered shared memory again", "[transport]") {
  if (arena_or_skip() == nullptr) return;
  const std::string endpoint = memory_endpoint("back");
  Side worker;
  auto ps = std::make_unique<Side>();
  REQUIRE(ps->transport->bind(endpoint).has_value());
  const PeerId peer = *worker.transport->connect(endpoint);
  const auto until_shared = [&] {
    const uint64_t before = worker.transport->stats().shared_bytes;
    for (uint32_t i = 0; i < 50; ++i) {
      worker.send(peer, i, 10'000);
      for (int n = 0; n < 20; ++n) ps->poll(), worker.poll();
      if (worker.transport->stats().shared_bytes > before && !ps->received.empty()) return true;
    }
    return false;
  };
  REQUIRE(until_shared());
  ps = std::make_unique<Side>();
  REQUIRE(ps->transport->bind(endpoint).has_value());
  REQUIRE(until_shared());  // at most one message was lost
  for (const wire::Message& message : ps->received) check_values(message);
}

TEST_CASE("shared memory can be disabled on one side only", "[transport]") {
  const std::string endpoint = memory_endpoint("without");
  Side ps(false), worker;
  REQUIRE(ps.transport->bind(endpoint).has_value());
  const PeerId peer = *worker.transport->connect(endpoint);
  for (uint32_t i = 0; i < 10; ++i) {
    worker.send(peer, i, 100'000);
    REQUIRE(ps.wait_until([&] { return ps.received.size() == i + 1; }, &worker));
    check_values(ps.received.back());
  }
  CHECK(worker.transport->stats().shared_bytes == 0);
}

}  // namespace
}  // namespace downpour::transport
