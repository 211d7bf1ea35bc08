#include "worker/runtime/input_link.h"

#include <algorithm>
#include <deque>
#include <map>
#include <utility>

namespace downpour::worker {
namespace {

constexpr size_t kAtOnce = 8;  // messages received per poll

class TransportLink final : public InputLink {
 public:
  TransportLink(std::unique_ptr<transport::Transport> transport, const Clock& clock)
      : clock_(clock), transport_(std::move(transport)) {}
  void send(const std::string& endpoint, wire::Message&& message) override {
    auto peer = peers_.find(endpoint);
    if (peer == peers_.end()) {
      const auto connected = transport_->connect(endpoint);
      if (!connected) return;
      peer = peers_.emplace(endpoint, *connected).first;
    }
    (void)transport_->send(peer->second, std::move(message));
  }
  std::optional<wire::Message> receive(int64_t timeout_ns) override {
    if (inbox_.empty()) transport_->poll(timeout_ns, kAtOnce, receiver_);
    if (inbox_.empty()) return std::nullopt;
    wire::Message message = std::move(inbox_.front());
    inbox_.pop_front();
    return message;
  }
  void close(const std::string& endpoint) override {
    const auto peer = peers_.find(endpoint);
    if (peer == peers_.end()) return;
    transport_->close(peer->second);
    peers_.erase(peer);
  }
  void keep_only(const std::vector<std::string>& endpoints) override {
    std::erase_if(peers_, [&](const auto& peer) {
      if (std::count(endpoints.begin(), endpoints.end(), peer.first) > 0) return false;
      transport_->close(peer.second);
      return true;
    });
  }
  int64_t now_ns() const override { return clock_.now_ns(); }

 private:
  const Clock& clock_;
  std::unique_ptr<transport::Transport> transport_;
  std::map<std::string, transport::PeerId> peers_;
  std::deque<wire::Message> inbox_;
  transport::Receiver receiver_{
      .on_message = [this](transport::PortId, transport::PeerId,
                           wire::Message&& message) { inbox_.push_back(std::move(message)); },
      .on_malformed = [](transport::PortId, transport::PeerId, const Error&) {}};  // noticed soon
};

}  // namespace

std::unique_ptr<InputLink> make_input_link(std::shared_ptr<transport::Keyring> keyring) {
  static const PosixClock clock;
  return make_input_link(transport::make_zmq_transport({.keyring = std::move(keyring)}), clock);
}

std::unique_ptr<InputLink> make_input_link(std::unique_ptr<transport::Transport> transport,
                                           const Clock& clock) {
  return std::make_unique<TransportLink>(std::move(transport), clock);
}

}  // namespace downpour::worker
