#include "worker/core/input_readings.h"

#include <algorithm>

namespace downpour::worker {

void InputReadings::send(InputPeer to, wire::Body body, InputEffects& fx) const {
  wire::Message message;
  message.envelope.run = config_.run;
  message.body = std::move(body);
  fx.sends.push_back({to, std::move(message)});
}

void InputReadings::refuse(const Name& name, ErrorCode code, std::string what,
                           InputEffects& fx) const {
  send(name.first, wire::ReadFailed{.reading = name.second, .code = code, .what = std::move(what)},
       fx);
}

void InputReadings::on_read_shard(int64_t now_ns, InputPeer peer, const wire::ReadShard& request,
                                  InputEffects& fx, const wire::PeerIdentity& identity) {
  const Name name{peer, request.reading};
  if (!identity.may_be(wire::Role::kWorker)) {
    const Error error = wire::wrong_role(identity, wire::Role::kWorker);
    return refuse(name, error.code, str(error.what, " (", error.id, ")"), fx);
  }
  if (ids_.contains(name)) return;  // asked for again: it is under way
  if (request.lease.plan_hash != config_.plan_hash) {
    return refuse(name, ErrorCode::kConfig,
                  "the reading was asked for under another plan than this input process's", fx);
  }
  if (!make_room(now_ns, fx)) {
    return refuse(name, ErrorCode::kUnavailable,
                  str("this input process has ", config_.readings_max, " readings already"), fx);
  }
  const uint64_t id = ++last_id_;
  ids_[name] = id;
  Reading& reading = readings_[id];
  reading.name = name;
  reading.request = request;
  reading.request.window = std::clamp(request.window, 1U, config_.window_max);
  reading.next = request.first_batch;
  reading.heard_ns = now_ns;
  advance(fx);
}

bool InputReadings::make_room(int64_t now_ns, InputEffects& fx) {
  if (readings_.size() < config_.readings_max) return true;
  const auto oldest = std::min_element(
      readings_.begin(), readings_.end(),
      [](const auto& a, const auto& b) { return a.second.heard_ns < b.second.heard_ns; });
  if (now_ns - oldest->second.heard_ns <= config_.spare_ns) return false;
  drop(oldest, true, fx);
  return true;
}

void InputReadings::on_read_more(int64_t now_ns, InputPeer peer, const wire::ReadMore& more,
                                 InputEffects& fx) {
  const Name name{peer, more.reading};
  const auto id = ids_.find(name);
  if (id == ids_.end()) {
    if (!more.stop) refuse(name, ErrorCode::kPeersLost, "a reading that is not known here", fx);
    return;
  }
  const auto at = readings_.find(id->second);
  if (more.stop) {
    drop(at, false, fx);
  } else {
    at->second.heard_ns = now_ns;
    take(at->second, more.next);
    send(peer, more, fx);
  }
  advance(fx);
}

/// The worker has every batch below `next`.
void InputReadings::take(Reading& reading, uint32_t next) {
  while (!reading.sent.empty() && reading.next - uint32_t(reading.sent.size()) < next) {
    reading.bytes -= reading.sent.front();
    bytes_ -= reading.sent.front();
    reading.sent.pop_front();
  }
}

bool InputReadings::may_read(const Reading& reading) const {
  if (reading.sent.empty()) return true;
  return reading.sent.size() < reading.request.window && reading.bytes < config_.window_bytes &&
         bytes_ < config_.bytes_max;
}

void InputReadings::advance(InputEffects& fx) {
  for (auto& [id, reading] : readings_) {
    if (reading.busy) continue;
    if (!reading.open) {
      if (open_ == config_.open_max) continue;
      ++open_;
      reading.open = reading.busy = true;
      fx.reads.push_back({id, reading.request});
    } else if (may_read(reading)) {
      reading.busy = true;
      fx.reads.push_back({id, std::nullopt});
    }
  }
}

void InputReadings::on_item(InputItem&& item, InputEffects& fx) {
  const auto at = readings_.find(item.id);
  if (at == readings_.end()) return;  // nobody wants it any more
  Reading& reading = at->second;
  for (wire::Message& message : item.messages) {
    message.envelope.run = config_.run;
    fx.sends.push_back({reading.name.first, std::move(message)});
  }
  if (item.last) {
    drop(at, false, fx);
  } else {
    reading.busy = false;
    ++reading.next;
    reading.sent.push_back(item.bytes);
    reading.bytes += item.bytes;
    bytes_ += item.bytes;
  }
  advance(fx);
}

InputReadings::Readings::iterator InputReadings::drop(Readings::iterator at, bool tell,
                                                      InputEffects& fx) {
  Reading& reading = at->second;
  if (tell) refuse(reading.name, ErrorCode::kPeersLost, "the reading was dropped", fx);
  bytes_ -= reading.bytes;
  if (reading.open) {
    --open_;
    fx.closes.push_back(at->first);
  }
  ids_.erase(reading.name);
  return readings_.erase(at);
}

void InputReadings::on_peer_gone(InputPeer peer, InputEffects& fx) {
  for (auto at = readings_.begin(); at != readings_.end();)
    at = at->second.name.first == peer ? drop(at, false, fx) : std::next(at);
  advance(fx);
}

void InputReadings::on_tick(int64_t now_ns, InputEffects& fx) {
  for (auto at = readings_.begin(); at != readings_.end();)
    at = now_ns - at->second.heard_ns > config_.idle_ns ? drop(at, true, fx) : std::next(at);
  advance(fx);
}

}  // namespace downpour::worker
