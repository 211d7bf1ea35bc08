// Outbox: messages that a full peer would not take yet, kept in order until it does.
#pragma once

#include <cstdint>
#include <deque>
#include <iterator>
#include <unordered_map>
#include <utility>

#include "shared/base/units.h"
#include "shared/transport/transport.h"

namespace downpour::transport {

class Outbox {
 public:
  explicit Outbox(Transport& transport) : transport_(transport) {}

  /// Sends, or keeps (kFull). Messages to a peer that is gone are dropped (kGone): requests are repeated, replies asked
  /// for again.
  SendStatus send(PeerId peer, wire::Message&& message) {
    const auto waiting = waiting_.find(peer);
    if (waiting == waiting_.end()) {
      const SendStatus status = transport_.send(peer, std::move(message));
      if (status == SendStatus::kFull) waiting_[peer].push_back(std::move(message));
      return status;
    }
    if (waiting->second.size() < kWaitingMax) waiting->second.push_back(std::move(message));
    return SendStatus::kFull;
  }
  /// Tries again. Called on every turn of the loop.
  void flush() {
    for (auto entry = waiting_.begin(); entry != waiting_.end();) {
      auto& waiting = entry->second;
      while (!waiting.empty() && transport_.send(entry->first, std::move(waiting.front())) != SendStatus::kFull) waiting.pop_front();
      entry = waiting.empty() ? waiting_.erase(entry) : std::next(entry);
    }
  }
  bool empty() const { return waiting_.empty(); }
  /// At the end, on every turn: what a peer has not taken within kDrainNs from the first call on is given up.
  void drain(int64_t now_ns) {
    flush();
    if (give_up_ns_ == 0) give_up_ns_ = now_ns + kDrainNs;
    if (now_ns >= give_up_ns_) waiting_.clear();
  }

 private:
  static constexpr int64_t kDrainNs = 2 * kSecond;
  static constexpr size_t kWaitingMax = 4096;  // beyond it messages are dropped, as a network would
  Transport& transport_;
  std::unordered_map<PeerId, std::deque<wire::Message>> waiting_;
  int64_t give_up_ns_ = 0;
};

}  // namespace downpour::transport
