#include "worker/core/input_shard_reads.h"

#include <algorithm>

namespace downpour::worker {

void InputShardReads::send(InputPeer to, wire::Body body, InputEffects& fx) const {
  wire::Message message;
  message.envelope.run = config_.run;
  message.body = std::move(body);
  fx.sends.push_back({to, std::move(message)});
}

void InputShardReads::refuse(const Name& name, ErrorCode code, std::string what,
                             InputEffects& fx) const {
  send(name.first,
       wire::ReadFailed{.shard_read = name.second, .code = code, .what = std::move(what)}, fx);
}

void InputShardReads::on_read_shard(int64_t now_ns, InputPeer peer, const wire::ReadShard& request,
                                    InputEffects& fx, const wire::PeerIdentity& identity) {
  const Name name{peer, request.shard_read};
  if (!identity.may_be(wire::Role::kWorker)) {
    const Error error = wire::wrong_role(identity, wire::Role::kWorker);
    return refuse(name, error.code, str(error.what, " (", error.id, ")"), fx);
  }
  if (ids_.contains(name)) return;  // a repeated request: it is in progress
  if (request.lease.plan_hash != config_.plan_hash) {
    return refuse(name, ErrorCode::kConfig,
                  "the shard read belongs to another plan than this input process uses", fx);
  }
  if (!make_room(now_ns, fx)) {
    return refuse(name, ErrorCode::kUnavailable,
                  str("this input process already has ", config_.shard_reads_max,
                      " open shard reads, which is the maximum"),
                  fx);
  }
  const uint64_t id = ++last_id_;
  ids_[name] = id;
  ShardRead& shard_read = shard_reads_[id];
  shard_read.name = name;
  shard_read.request = request;
  shard_read.request.window = std::clamp(request.window, 1U, config_.window_max);
  shard_read.next = request.first_batch;
  shard_read.heard_ns = now_ns;
  advance(fx);
}

bool InputShardReads::make_room(int64_t now_ns, InputEffects& fx) {
  if (shard_reads_.size() < config_.shard_reads_max) return true;
  const auto oldest = std::min_element(
      shard_reads_.begin(), shard_reads_.end(),
      [](const auto& a, const auto& b) { return a.second.heard_ns < b.second.heard_ns; });
  if (now_ns - oldest->second.heard_ns <= config_.spare_ns) return false;
  drop(oldest, true, fx);
  return true;
}

void InputShardReads::on_read_more(int64_t now_ns, InputPeer peer, const wire::ReadMore& more,
                                   InputEffects& fx) {
  const Name name{peer, more.shard_read};
  const auto id = ids_.find(name);
  if (id == ids_.end()) {
    if (!more.stop)
      refuse(name, ErrorCode::kPeersLost, "this input process does not know the shard read", fx);
    return;
  }
  const auto at = shard_reads_.find(id->second);
  if (more.stop) {
    drop(at, false, fx);
  } else {
    at->second.heard_ns = now_ns;
    take(at->second, more.next);
    send(peer, more, fx);
  }
  advance(fx);
}

/// The worker acknowledges all batches below `next`.
void InputShardReads::take(ShardRead& shard_read, uint32_t next) {
  while (!shard_read.sent.empty() && shard_read.next - uint32_t(shard_read.sent.size()) < next) {
    shard_read.bytes -= shard_read.sent.front();
    bytes_ -= shard_read.sent.front();
    shard_read.sent.pop_front();
  }
}

bool InputShardReads::may_read(const ShardRead& shard_read) const {
  if (shard_read.sent.empty()) return true;
  return shard_read.sent.size() < shard_read.request.window &&
         shard_read.bytes < config_.window_bytes && bytes_ < config_.bytes_max;
}

void InputShardReads::advance(InputEffects& fx) {
  for (auto& [id, shard_read] : shard_reads_) {
    if (shard_read.busy) continue;
    if (!shard_read.open) {
      if (open_ == config_.open_max) continue;
      ++open_;
      shard_read.open = shard_read.busy = true;
      fx.reads.push_back({id, shard_read.request});
    } else if (may_read(shard_read)) {
      shard_read.busy = true;
      fx.reads.push_back({id, std::nullopt});
    }
  }
}

void InputShardReads::on_item(InputItem&& item, InputEffects& fx) {
  const auto at = shard_reads_.find(item.id);
  if (at == shard_reads_.end()) return;  // dropped in the meantime
  ShardRead& shard_read = at->second;
  for (wire::Message& message : item.messages) {
    message.envelope.run = config_.run;
    fx.sends.push_back({shard_read.name.first, std::move(message)});
  }
  if (item.last) {
    drop(at, false, fx);
  } else {
    shard_read.busy = false;
    ++shard_read.next;
    shard_read.sent.push_back(item.bytes);
    shard_read.bytes += item.bytes;
    bytes_ += item.bytes;
  }
  advance(fx);
}

InputShardReads::ShardReads::iterator InputShardReads::drop(ShardReads::iterator at, bool tell,
                                                            InputEffects& fx) {
  ShardRead& shard_read = at->second;
  if (tell)
    refuse(shard_read.name, ErrorCode::kPeersLost, "the input process dropped the shard read", fx);
  bytes_ -= shard_read.bytes;
  if (shard_read.open) {
    --open_;
    fx.closes.push_back(at->first);
  }
  ids_.erase(shard_read.name);
  return shard_reads_.erase(at);
}

void InputShardReads::on_peer_gone(InputPeer peer, InputEffects& fx) {
  for (auto at = shard_reads_.begin(); at != shard_reads_.end();)
    at = at->second.name.first == peer ? drop(at, false, fx) : std::next(at);
  advance(fx);
}

void InputShardReads::on_tick(int64_t now_ns, InputEffects& fx) {
  for (auto at = shard_reads_.begin(); at != shard_reads_.end();)
    at = now_ns - at->second.heard_ns > config_.idle_ns ? drop(at, true, fx) : std::next(at);
  advance(fx);
}

}  // namespace downpour::worker
