#include "tools/sim/network.h"

#include <catch2/catch.hpp>

namespace downpour::sim {
namespace {

wire::Message message(uint32_t epochs) {
  wire::Message m;
  m.body = wire::Sealed{epochs};
  return m;
}

/// A server and a client, and the messages that each received.
struct Pair {
  explicit Pair(uint64_t seed) : network(scheduler, seed) {
    network.speed.jitter_ns = 10 * kMillisecond;
    server = network.make_transport(1, [] {});
    client = network.make_transport(2, [] {});
    REQUIRE(server->bind("tcp://server:1"));
    peer = *client->connect("tcp://server:1");
  }
  void run(int64_t for_ns) {
    const int64_t until = scheduler.now_ns() + for_ns;
    scheduler.at(until, [] {});
    while (scheduler.now_ns() < until) {
      scheduler.step();
      const auto take = [](auto& into) {
        return transport::Receiver{
            .on_message =
                [&into](transport::PortId, transport::PeerId from, wire::Message&& m) {
                  into.emplace_back(from, std::get<wire::Sealed>(m.body).epochs);
                },
            .on_malformed = {}};
      };
      server->poll(0, 64, take(at_server));
      client->poll(0, 64, take(at_client));
    }
  }
  std::vector<uint32_t> numbers() const {
    std::vector<uint32_t> out;
    for (const auto& [from, number] : at_server) out.push_back(number);
    return out;
  }

  Scheduler scheduler;
  SimNetwork network;
  std::unique_ptr<SimTransport> server, client;
  transport::PeerId peer{};
  std::vector<std::pair<transport::PeerId, uint32_t>> at_server, at_client;
};

TEST_CASE(
    "a connection keeps the order of its messages, including those sent before it was established",
    "[sim]") {
  Pair pair(1);
  std::vector<uint32_t> sent;
  for (uint32_t i = 0; i < 50; ++i) {
    REQUIRE(pair.client->send(pair.peer, message(i)) == transport::SendStatus::kSent);
    sent.push_back(i);
    if (i == 20) pair.run(kMillisecond);
  }
  pair.run(kSecond);
  CHECK(pair.numbers() == sent);
}

TEST_CASE("a broken connection returns as another peer, and the messages in flight are lost",
          "[sim]") {
  Pair pair(2);
  pair.run(kSecond);
  REQUIRE(pair.client->send(pair.peer, message(1)) == transport::SendStatus::kSent);
  pair.run(kSecond);
  REQUIRE(pair.at_server.size() == 1);
  const transport::PeerId first = pair.at_server[0].first;
  REQUIRE(pair.client->send(pair.peer, message(2)) == transport::SendStatus::kSent);
  pair.network.reset(1, 2);
  CHECK(pair.server->send(first, message(9)) == transport::SendStatus::kGone);
  REQUIRE(pair.client->send(pair.peer, message(3)) == transport::SendStatus::kSent);
  pair.run(kSecond);
  REQUIRE(pair.numbers() == std::vector<uint32_t>{1, 3});
  CHECK(pair.at_server[1].first != first);
}

TEST_CASE(
    "with late_mail about half of the messages of a broken connection arrive from the former peer",
    "[sim]") {
  Pair pair(5);
  pair.network.faults.late_mail = true;
  pair.run(kSecond);
  for (uint32_t i = 0; i < 40; ++i)
    REQUIRE(pair.client->send(pair.peer, message(i)) == transport::SendStatus::kSent);
  pair.network.reset(1, 2);
  REQUIRE(pair.client->send(pair.peer, message(99)) == transport::SendStatus::kSent);
  pair.run(10 * kSecond);
  CHECK(pair.at_server.size() > 10);
  CHECK(pair.at_server.size() < 35);
  transport::PeerId now{};
  for (const auto& [from, number] : pair.at_server) now = number == 99 ? from : now;
  for (const auto& [from, number] : pair.at_server) CHECK((from == now) == (number == 99));
}

TEST_CASE("held messages arrive after let_go(), in order, and only that direction is held",
          "[sim]") {
  Pair pair(3);
  pair.run(kSecond);
  REQUIRE(pair.client->send(pair.peer, message(1)) == transport::SendStatus::kSent);
  pair.run(kSecond);
  pair.network.hold(2, 1);
  for (const uint32_t i : {2U, 3U})
    REQUIRE(pair.client->send(pair.peer, message(i)) == transport::SendStatus::kSent);
  REQUIRE(pair.server->send(pair.at_server[0].first, message(7)) == transport::SendStatus::kSent);
  pair.run(kSecond);
  CHECK(pair.numbers() == std::vector<uint32_t>{1});
  CHECK(pair.at_client.size() == 1);
  pair.network.let_go(2, 1, false);
  pair.run(kSecond);
  CHECK(pair.numbers() == std::vector<uint32_t>{1, 2, 3});
}

TEST_CASE(
    "an address leads to the process that bound it last, to another on request, and to the "
    "remaining one after a shutdown",
    "[sim]") {
  Pair pair(6);
  pair.run(kSecond);
  auto second = pair.network.make_transport(3, [] {});
  REQUIRE(second->bind("tcp://server:1"));
  std::vector<uint32_t> at_second;
  const auto drain = [&] {
    pair.run(kSecond);
    second->poll(0, 64,
                 {.on_message =
                      [&](transport::PortId, transport::PeerId, wire::Message&& m) {
                        at_second.push_back(std::get<wire::Sealed>(m.body).epochs);
                      },
                  .on_malformed = {}});
  };
  const auto say = [&](uint32_t n) {
    REQUIRE(pair.client->send(pair.peer, message(n)) == transport::SendStatus::kSent);
    drain();
  };
  say(1);  // an existing connection stays
  CHECK(pair.numbers() == std::vector<uint32_t>{1});
  pair.network.reset(1, 2);
  drain();
  say(2);
  CHECK(at_second == std::vector<uint32_t>{2});
  pair.network.lead_to(1);
  drain();
  say(3);
  CHECK(pair.numbers() == std::vector<uint32_t>{1, 3});
  pair.server->shutdown(0);
  drain();
  say(4);
  CHECK(at_second == std::vector<uint32_t>{2, 4});
}

TEST_CASE("messages are lost and repeated at the configured rates", "[sim]") {
  Pair pair(4);
  pair.run(kSecond);
  pair.network.faults.drop = 0.2;
  pair.network.faults.duplicate = 0.2;
  for (uint32_t i = 0; i < 500; ++i) {
    REQUIRE(pair.client->send(pair.peer, message(i)) == transport::SendStatus::kSent);
    pair.run(20 * kMillisecond);
  }
  pair.run(5 * kSecond);
  const NetworkCounts& counts = pair.network.counts();
  CHECK(counts.dropped > 60);
  CHECK(counts.duplicated > 60);
  CHECK(pair.at_server.size() == 500 - counts.dropped + counts.duplicated);
}

TEST_CASE("a full queue accepts no message until the receiver has read it", "[sim]") {
  Pair pair(5);
  pair.run(kSecond);
  pair.network.faults.queue_messages_max = 8;
  for (uint32_t i = 0; i < 8; ++i)
    REQUIRE(pair.client->send(pair.peer, message(i)) == transport::SendStatus::kSent);
  CHECK(pair.client->send(pair.peer, message(8)) == transport::SendStatus::kFull);
  pair.run(kSecond);
  CHECK(pair.client->send(pair.peer, message(8)) == transport::SendStatus::kSent);
}

}  // namespace
}  // namespace downpour::sim
