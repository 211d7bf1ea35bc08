// Outbox: messages that a full peer would not take yet, kept in order until it does.
#pragma once

#include <deque>
#include <unordered_map>
#include <utility>

#include "shared/transport/transport.h"

namespace downpour::transport {

class Outbox {
 public:
  explicit Outbox(Transport& transport) : transport_(transport) {}

  /// Sends, or keeps. Messages to a peer that is gone are dropped: requests are repeated, replies asked for again.
  void send(PeerId peer, wire::Message&& message) {
    auto& waiting = waiting_[peer];
    if (waiting.empty() && transport_.send(peer, std::move(message)) != SendStatus::kFull) return;
    if (waiting.size() < kWaitingMax) waiting.push_back(std::move(message));
  }
  /// Tries again. Called on every turn of the loop.
  void flush() {
    for (auto& [peer, waiting] : waiting_) {
      while (!waiting.empty() && transport_.send(peer, std::move(waiting.front())) != SendStatus::kFull) waiting.pop_front();
    }
  }
  bool empty() const {
    for (const auto& [peer, waiting] : waiting_) if (!waiting.empty()) return false;
    return true;
  }
  void forget(PeerId peer) { waiting_.erase(peer); }

 private:
  static constexpr size_t kWaitingMax = 4096;  // beyond it messages are dropped, as a network would
  Transport& transport_;
  std::unordered_map<PeerId, std::deque<wire::Message>> waiting_;
};

}  // namespace downpour::transport
