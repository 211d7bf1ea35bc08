#include "shared/transport/reactor.h"

#include <algorithm>

namespace downpour::transport {

void Reactor::run() {
  constexpr size_t kMessagesPerTurn = 64;
  const Receiver receiver{
      .on_message =
          [this](PortId port, PeerId peer, wire::Message&& message) {
            for (Node* node : nodes_) {
              if (node->owns(port)) return node->on_message(clock_.now_ns(), port, peer, std::move(message));
            }
          },
      .on_malformed =
          [this](PortId port, PeerId peer, const Error& error) {
            for (Node* node : nodes_) {
              if (node->owns(port)) return node->on_malformed(clock_.now_ns(), port, peer, error);
            }
          }};
  while (std::any_of(nodes_.begin(), nodes_.end(), [](const Node* node) { return !node->finished(); })) {
    bool busy = false;
    int64_t deadline_ns = INT64_MAX;
    const int64_t now_ns = clock_.now_ns();
    for (Node* node : nodes_) {
      if (node->finished()) continue;
      busy = node->pump(now_ns) || busy;
      deadline_ns = std::min(deadline_ns, node->next_deadline_ns());
    }
    const int64_t wait_ns = busy ? 0 : std::clamp<int64_t>(deadline_ns - now_ns, 0, 100'000'000);
    transport_.poll(wait_ns, kMessagesPerTurn, receiver);
  }
}

}  // namespace downpour::transport
