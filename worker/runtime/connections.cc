#include "worker/runtime/connections.h"

#include <algorithm>
#include <utility>

#include "shared/transport/endpoint.h"
#include "shared/transport/keys.h"
#include "worker/core/pull_plan.h"

namespace downpour::worker {

void Connections::add(Incarnation address, Link link) {
  incarnations_[raw(link.peer)] = address;
  ports_.insert(raw(transport_.port_of(link.peer)));
  links_[raw(address)] = std::move(link);
}

Result<void> Connections::connect_chief() {
  DP_TRY(const transport::PeerId chief, transport_.connect(chief_));
  add(Incarnation{0}, {.peer = chief});
  return {};
}

void Connections::connect_owners(const wire::View& view) {
  for (auto link = links_.begin(); link != links_.end();) {
    const auto is_it = [&](const wire::Owner& o) { return raw(address_of(o)) == link->first; };
    if (link->first == 0 || std::any_of(view.owners.begin(), view.owners.end(), is_it)) {
      ++link;
      continue;
    }
    const transport::PeerId peer = link->second.peer;
    incarnations_.erase(raw(peer));
    ports_.erase(raw(transport_.port_of(peer)));
    transport_.close(peer);
    link = links_.erase(link);
  }
  for (const wire::Owner& owner : view.owners) {
    const Incarnation address = address_of(owner);
    if (links_.contains(raw(address)) || !may_connect(owner.endpoint)) continue;
    auto peer = transport_.connect(endpoint_of(owner));
    if (!peer) continue;  // tried again with the next view
    const auto bare = transport::split_key(owner.endpoint);
    add(address,
        {.peer = *peer,
         .owner = str("ps ", owner.index, " at ", bare ? bare->endpoint : owner.endpoint)});
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

void Connections::on_sent(int64_t now_ns, Incarnation address) {
  const auto found = links_.find(raw(address));
  if (found != links_.end() && found->second.asked_ns < 0) found->second.asked_ns = now_ns;
}

void Connections::on_received(Incarnation address) {
  const auto found = links_.find(raw(address));
  if (found != links_.end()) found->second.has_answered = true;
}

void Connections::report_silent(int64_t now_ns) {
  for (auto& [address, link] : links_) {
    const bool silent = !link.has_answered && link.asked_ns >= 0 && !link.owner.empty() &&
                        now_ns - link.asked_ns >= kSilentNs;
    if (!silent || std::exchange(link.reported, true) || !say_) continue;
    say_(str(link.owner, " has not answered for ", kSilentNs / kSecond,
             " s: can this machine reach that address? (--bind and --advertise of the ps)"));
  }
}

const transport::PeerId* Connections::find_peer(Incarnation address) const {
  const auto found = links_.find(raw(address));
  return found == links_.end() ? nullptr : &found->second.peer;
}

const Incarnation* Connections::find_address(transport::PeerId peer) const {
  const auto found = incarnations_.find(raw(peer));
  return found == incarnations_.end() ? nullptr : &found->second;
}

}  // namespace downpour::worker
