// Outbox: keeps messages, in order, that a peer with a full queue could not accept yet.
#pragma once

#include <cstdint>
#include <deque>
#include <iterator>
#include <unordered_map>
#include <utility>

#include "shared/base/units.h"
#include "shared/transport/transport.h"
#include "shared/wire/messages.h"

namespace downpour::transport {

class Outbox {
 public:
  explicit Outbox(Transport& transport) : transport_(transport) {}

  /// Sends the message, or keeps it (kFull) if at most `bytes_max` then wait for this peer.
  /// Messages to a peer that is gone are dropped (kGone), because requests are repeated and lost
  /// replies requested again. `bytes_max`: the same for all messages to a peer.
  SendStatus send(PeerId peer, wire::Message&& message, uint64_t bytes_max = kBytesMax) {
    if (!waiting_.contains(peer)) {
      const SendStatus status = transport_.send(peer, std::move(message));
      if (status != SendStatus::kFull) return status;
    }
    keep(peer, std::move(message), bytes_max);
    return SendStatus::kFull;
  }
  /// Tries to send the kept messages. Called on every turn of the loop.
  void flush() {
    for (auto entry = waiting_.begin(); entry != waiting_.end();) {
      Waiting& waiting = entry->second;
      while (!waiting.messages.empty()) {
        const uint64_t bytes = bytes_of(waiting.messages.front());
        if (transport_.send(entry->first, std::move(waiting.messages.front())) == SendStatus::kFull)
          break;
        waiting.messages.pop_front();
        waiting.bytes -= bytes;
        bytes_ -= bytes;
      }
      entry = waiting.messages.empty() ? waiting_.erase(entry) : std::next(entry);
    }
  }
  bool empty() const { return waiting_.empty(); }
  /// Returns whether messages wait for this peer.
  bool waits(PeerId peer) const { return waiting_.contains(peer); }
  uint64_t bytes() const { return bytes_; }
  /// Flushes at the end, on every turn. Discards everything that peers have not accepted within
  /// kDrainNs of the first call.
  void drain(int64_t now_ns) {
    flush();
    if (give_up_ns_ == 0) give_up_ns_ = now_ns + kDrainNs;
    if (now_ns < give_up_ns_) return;
    waiting_.clear();
    bytes_ = 0;
  }

  // Further messages are dropped, like on a network, because a peer may request much and accept
  // nothing. The first waiting message of a peer is always kept.
  static constexpr size_t kWaitingMax = 4096;       // of one peer
  static constexpr uint64_t kBytesMax = 64 * kMiB;  // of one peer
  static constexpr uint64_t kBytesOfAllMax = 256 * kMiB;
  // Of one peer that gets only requests, whose payloads stay in memory until they are answered.
  // Waiting then takes no more memory, and does not count towards kBytesOfAllMax. A request that
  // waits too long is sent once more while its copy still waits; kWaitingMax bounds these copies.
  static constexpr uint64_t kRequestBytesMax = kWaitingMax * kMiB;

 private:
  static constexpr int64_t kDrainNs = 2 * kSecond;
  struct Waiting {
    std::deque<wire::Message> messages;
    uint64_t bytes = 0;
    uint64_t bytes_max = kBytesMax;
  };
  static uint64_t bytes_of(const wire::Message& message) {
    return message.keys.size() + message.values.size();
  }
  uint64_t counted_bytes() const {
    uint64_t sum = 0;
    for (const auto& [peer, waiting] : waiting_)
      if (waiting.bytes_max < kRequestBytesMax) sum += waiting.bytes;
    return sum;
  }
  void keep(PeerId peer, wire::Message&& message, uint64_t bytes_max) {
    Waiting& waiting = waiting_[peer];
    waiting.bytes_max = bytes_max;
    const uint64_t bytes = bytes_of(message);
    const bool fits = waiting.messages.size() < kWaitingMax && waiting.bytes + bytes <= bytes_max &&
                      (bytes_max >= kRequestBytesMax || counted_bytes() + bytes <= kBytesOfAllMax);
    if (!waiting.messages.empty() && !fits) return;
    bytes_ += bytes;
    waiting.bytes += bytes;
    waiting.messages.push_back(std::move(message));
  }

  Transport& transport_;
  std::unordered_map<PeerId, Waiting> waiting_;
  uint64_t bytes_ = 0;  // of the payloads for all peers
  int64_t give_up_ns_ = 0;
};

}  // namespace downpour::transport
