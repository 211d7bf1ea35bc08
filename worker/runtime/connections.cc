#include "worker/runtime/connections.h"

#include <algorithm>
#include <utility>

#include "shared/transport/endpoint.h"
#include "worker/core/pull_plan.h"

namespace downpour::worker {

void Connections::add(Incarnation address, transport::PeerId peer) {
  peers_[raw(address)] = peer;
  incarnations_[raw(peer)] = address;
  ports_.insert(raw(transport_.port_of(peer)));
}

Result<void> Connections::connect_chief() {
  DP_TRY(const transport::PeerId chief, transport_.connect(chief_));
  add(Incarnation{0}, chief);
  return {};
}

void Connections::connect_owners(const wire::View& view) {
  for (auto peer = peers_.begin(); peer != peers_.end();) {
    const auto is_it = [&](const wire::Owner& o) { return raw(address_of(o)) == peer->first; };
    if (peer->first == 0 || std::any_of(view.owners.begin(), view.owners.end(), is_it)) {
      ++peer;
      continue;
    }
    incarnations_.erase(raw(peer->second));
    ports_.erase(raw(transport_.port_of(peer->second)));
    transport_.close(peer->second);
    peer = peers_.erase(peer);
  }
  for (const wire::Owner& owner : view.owners) {
    const Incarnation address = address_of(owner);
    if (peers_.contains(raw(address)) || !may_connect(owner.endpoint)) continue;
    auto peer = transport_.connect(endpoint_of(owner));
    if (!peer) continue;  // tried again with the next view
    add(address, *peer);
  }
}

/// Returns where to connect to the owner. Messages to a ps of this process do not use a socket.
std::string Connections::endpoint_of(const wire::Owner& owner) const {
  const bool own = own_ps_ != Incarnation{} && owner.incarnation == own_ps_;
  return own ? transport::thread_endpoint(own_ps_, owner.thread) : owner.endpoint;
}

bool Connections::may_connect(const std::string& endpoint) {
  const Result<void> checked = transport::check_peer_endpoint(endpoint, chief_);
  if (checked) return true;
  if (say_ && std::exchange(refused_endpoint_, endpoint) != endpoint) say_(checked.error().what);
  return false;
}

const transport::PeerId* Connections::find_peer(Incarnation address) const {
  const auto found = peers_.find(raw(address));
  return found == peers_.end() ? nullptr : &found->second;
}

const Incarnation* Connections::find_address(transport::PeerId peer) const {
  const auto found = incarnations_.find(raw(peer));
  return found == incarnations_.end() ? nullptr : &found->second;
}

}  // namespace downpour::worker
