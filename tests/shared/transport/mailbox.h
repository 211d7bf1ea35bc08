// Mailbox: a transport and the messages that it has received.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "shared/base/units.h"
#include "shared/transport/transport.h"
#include "shared/wire/messages.h"

namespace downpour::transport {

struct Received {
  PortId port{};
  PeerId peer{};
  wire::Message message;
};

/// A transport, and the messages received by it.
struct Mailbox {
  explicit Mailbox(const ZmqOptions& options = {}) : transport(make_zmq_transport(options)) {}

  /// Polls until `count` messages have arrived, or 10 s have passed.
  bool wait(size_t count) {
    return wait_until([&] { return received.size() >= count; });
  }
  template <typename Condition>
  bool wait_until(Condition&& condition) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (!condition()) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      poll(20 * kMillisecond);
    }
    return true;
  }
  size_t poll(int64_t timeout_ns, size_t messages_max = 1000) {
    return transport->poll(
        timeout_ns, messages_max,
        {.on_message =
             [&](PortId port, PeerId peer, wire::Message&& message) {
               received.push_back({port, peer, std::move(message)});
             },
         .on_malformed = [&](PortId, PeerId, const Error& error) { errors.push_back(error); }});
  }

  std::unique_ptr<Transport> transport;
  std::vector<Received> received;
  std::vector<Error> errors;
};

/// Binds an endpoint, and returns it with wildcards resolved.
inline std::string bound(Mailbox& node, const std::string& endpoint) {
  const Result<PortId> port = node.transport->bind(endpoint);
  if (!port) FAIL(port.error().what);
  return node.transport->endpoint(*port);
}
inline PeerId connected(Mailbox& node, const std::string& endpoint) {
  const Result<PeerId> peer = node.transport->connect(endpoint);
  if (!peer) FAIL(peer.error().what);
  return *peer;
}

}  // namespace downpour::transport
