// KeptSends: a transport that records sent messages. Tests pass messages to the shell themselves.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "shared/transport/transport.h"
#include "shared/wire/messages.h"

namespace downpour::testing {

/// Every bind() returns the same port, and every connect() returns the same peer, the chief.
class KeptSends final : public transport::Transport {
 public:
  static constexpr transport::PortId kBound{1}, kConnected{2};
  static constexpr transport::PeerId kChief{1};

  Result<transport::PortId> bind(const std::string&) override { return kBound; }
  std::string endpoint(transport::PortId) const override { return "inproc://here"; }
  Result<transport::PeerId> connect(const std::string&) override { return kChief; }
  transport::PortId port_of(transport::PeerId) const override { return kConnected; }
  transport::SendStatus send(transport::PeerId peer, wire::Message&& message) override {
    sent.push_back({peer, std::move(message)});
    return transport::SendStatus::kSent;
  }
  void close(transport::PeerId) override {}
  void close(transport::PortId) override {}
  size_t poll(int64_t, size_t, const transport::Receiver&) override { return 0; }
  void wake() override {}
  transport::TransportStats stats() const override { return {}; }
  void shutdown(int64_t) override {}

  struct Sent {
    transport::PeerId to;
    wire::Message message;
  };
  std::vector<Sent> sent;
};

}  // namespace downpour::testing
