#include "shared/transport/reactor.h"

#include <algorithm>

#include "shared/wire/messages.h"

namespace downpour::transport {

int64_t Reactor::now_ns() {
  constexpr int64_t kLongestTurnNs = 1'000'000'000;
  const int64_t t = clock_.now_ns();
  if (last_ns_ != 0 && t - last_ns_ > kLongestTurnNs) skipped_ns_ += t - last_ns_;
  last_ns_ = t;
  return t - skipped_ns_;
}

void Reactor::run() {
  while (turn()) {
  }
}

bool Reactor::turn() {
  constexpr size_t kMessagesPerTurn = 64;
  const Receiver receiver{.on_message =
                              [this](PortId port, PeerId peer, wire::Message&& message) {
                                for (Node* node : nodes_) {
                                  if (node->owns(port))
                                    return node->on_message(now_ns(), port, peer,
                                                            std::move(message));
                                }
                              },
                          .on_malformed =
                              [this](PortId port, PeerId peer, const Error& error) {
                                for (Node* node : nodes_) {
                                  if (node->owns(port))
                                    return node->on_malformed(now_ns(), port, peer, error);
                                }
                              }};
  if (std::all_of(nodes_.begin(), nodes_.end(), [](const Node* node) { return node->finished(); }))
    return false;
  bool busy = false;
  int64_t deadline_ns = INT64_MAX;
  const int64_t turn_ns = now_ns();
  for (Node* node : nodes_) {
    if (node->finished()) continue;
    busy = node->pump(turn_ns) || busy;
    deadline_ns = std::min(deadline_ns, node->next_deadline_ns());
  }
  const int64_t wait_ns = busy ? 0 : std::clamp<int64_t>(deadline_ns - turn_ns, 0, 100'000'000);
  transport_.poll(wait_ns, kMessagesPerTurn, receiver);
  return true;
}

}  // namespace downpour::transport
