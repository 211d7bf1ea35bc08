// The fake workers of World (simulation_world.h).
#pragma once

#include "tests/chief/core/simulation_world.h"

namespace downpour::chief {

inline void World::start_worker(uint32_t i) {
  Worker& w = workers_[i];
  w = Worker{.incarnation = Incarnation(5000 + ++incarnations_),
             .peer = PeerKey(200 + incarnations_),
             .alive = true};
  beat(i, w.incarnation);
  step(i, w.incarnation);
}

inline bool World::is(uint32_t i, Incarnation incarnation) const {
  return workers_[i].alive && workers_[i].incarnation == incarnation;
}

inline void World::beat(uint32_t i, Incarnation incarnation) {
  if (!is(i, incarnation)) return;
  Worker& w = workers_[i];
  if (now_ >= w.paused_until) {
    if (!w.welcomed) {
      hello_worker(i);
    } else {
      to_chief(w.peer, wire::Heartbeat{.incarnation = incarnation}, 0, w.view.id);
      for (const Work& work : w.work) {
        to_chief(w.peer, wire::ShardProgress{.lease = work.lease, .batches_acked = work.batch});
      }
    }
  }
  after(500 * kMillisecond, [this, i, incarnation] { beat(i, incarnation); });
}

inline void World::hello_worker(uint32_t i) {
  wire::Hello hello = worker_hello(i);
  hello.incarnation = workers_[i].incarnation;
  hello.index = UINT32_MAX;
  to_chief(workers_[i].peer, hello);
}

inline void World::step(uint32_t i, Incarnation incarnation) {
  if (!is(i, incarnation)) return;
  Worker& w = workers_[i];
  after(20 * kMillisecond, [this, i, incarnation] { step(i, incarnation); });
  if (now_ < w.paused_until || !w.welcomed) return;
  if (w.work.size() < 2 && (w.asked_ns < 0 || now_ - w.asked_ns > kSecond)) {
    if (w.asked_ns < 0) ++w.request;  // otherwise repeat the request
    w.asked_ns = now_;
    to_chief(w.peer, wire::LeaseRequest{2}, w.request);
  }
  if (w.work.empty()) return;
  Work& work = w.work.front();
  if (work.lease.purpose == wire::Purpose::kEval) {
    const double weight = double(1U << work.lease.shard.shard);
    // One record: its group in two halves, its score and its label. The middle one is positive.
    const auto shard = float(work.lease.shard.shard);
    to_chief(w.peer, wire::PredictReport{.lease = work.lease, .records = 1}, 0, {},
             Bytes::of(std::vector<float>{1, 1, shard, shard == 1 ? 1.0F : 0.0F}));
    to_chief(w.peer, wire::EvalReport{.lease = work.lease,
                                      .counts = {.read = 1, .applied = 1},
                                      .outputs = {{.sums = {.weight = weight}}}});
    w.work.erase(w.work.begin());
    return;
  }
  if (faults_ && rng_.below(300) == 0) {  // a wrong report that the completion round must detect
    to_chief(w.peer,
             wire::ShardProgress{
                 .lease = work.lease, .ended = true, .counts = counts_of(work.lease.shard)});
    w.work.erase(w.work.begin());
    return;
  }
  if (!work.begun) {
    work.begun = true;
    work.waiting.clear();
    for (uint32_t p = 0; p < kPartitions; ++p) work.waiting.insert(p);
  }
  if (w.view.partitions.empty()) return;
  for (const uint32_t p : work.waiting) {
    const bool end = work.batch >= batches_in(work.lease.shard);
    const Incarnation to = w.view.owners[w.view.partitions[p].owner].incarnation;
    for (uint32_t n = copies(); n > 0; --n) {
      after(delay(),
            [this, i, incarnation, p, to, view = w.view.id, id = work.lease.shard,
             batch = work.batch, end] { push(i, incarnation, p, to, view, id, batch, end); });
    }
  }
}

inline void World::push(uint32_t i, Incarnation incarnation, uint32_t p, Incarnation to,
                        ViewId view, ShardId id, uint32_t batch, bool end) {
  const auto ps =
      std::find_if(ps_.begin(), ps_.end(), [&](const FakePs& x) { return x.incarnation == to; });
  if (ps == ps_.end() || ps->stopped || !ps->owns(p, view)) return;  // repeated under the next view
  if (now_ < ps->paused_until) return;
  HeldPart& part = ps->parts.at(p);
  uint32_t watermark = kEnd;
  if (id.epoch >= part.sealed) {
    HeldShard& state = part.shards[id];
    if (!state.ended && state.watermark == batch) {
      if (!end) ++part.applied[{id.epoch, id.shard, batch}];
      state.ended = end;
      ++state.watermark;
    } else {
      ++duplicate_parts_;
    }
    watermark = state.ended ? kEnd : state.watermark;
  }
  after(delay(),
        [this, i, incarnation, p, id, watermark] { pushed(i, incarnation, p, id, watermark); });
}

inline void World::pushed(uint32_t i, Incarnation incarnation, uint32_t p, ShardId id,
                          uint32_t watermark) {
  if (!is(i, incarnation)) return;
  Worker& w = workers_[i];
  if (w.work.empty() || w.work.front().lease.shard != id || !w.work.front().begun) return;
  Work& work = w.work.front();
  if (watermark < work.batch) {  // a gap, or an old reply: return to this watermark
    work.batch = watermark;
    work.begun = false;
    return;
  }
  if (watermark == work.batch) return;
  work.waiting.erase(p);
  if (!work.waiting.empty()) return;
  work.begun = false;
  if (work.batch++ < batches_in(id)) return;
  to_chief(w.peer, wire::ShardProgress{.lease = work.lease,
                                       .batches_acked = work.batch - 1,
                                       .ended = true,
                                       .counts = counts_of(id)});
  w.work.erase(w.work.begin());
}

inline void World::worker_message(uint32_t i, const wire::Message& m) {
  Worker& w = workers_[i];
  if (now_ < w.paused_until) {  // handled after the pause
    after(w.paused_until - now_, [this, i, m, incarnation = w.incarnation] {
      if (is(i, incarnation)) worker_message(i, m);
    });
    return;
  }
  if (m.envelope.view.term < w.term) return;
  w.term = m.envelope.view.term;
  if (std::holds_alternative<wire::Welcome>(m.body)) w.welcomed = true;
  if (std::holds_alternative<wire::Reject>(m.body)) hello_worker(i);
  if (const auto* view = std::get_if<wire::View>(&m.body)) {
    if (view->id > w.view.id) w.view = *view;
  }
  if (const auto* grant = std::get_if<wire::LeaseGrant>(&m.body)) {
    if (raw(m.envelope.request) != w.request) return;
    w.asked_ns = -1;
    for (const wire::Lease& lease : grant->leases) {
      const auto same = [&](const Work& x) {
        return x.lease.shard == lease.shard && x.lease.purpose == lease.purpose;
      };
      if (std::none_of(w.work.begin(), w.work.end(), same))
        w.work.push_back({.lease = lease, .batch = lease.first_batch});
    }
  } else if (const auto* revoked = std::get_if<wire::LeaseRevoked>(&m.body)) {
    ++revoked_;
    std::erase_if(w.work, [&](const Work& x) {
      return x.lease.shard == revoked->lease.shard && x.lease.purpose == revoked->lease.purpose;
    });
  } else if (std::holds_alternative<wire::Stop>(m.body)) {
    to_chief(w.peer, wire::Goodbye{.last = {.incarnation = w.incarnation}}, 0, w.view.id);
    w.alive = false;
  }
}

inline void World::strike() {
  const auto i = uint32_t(rng_.below(worker_count_));
  if (!workers_[i].alive) return;
  if (rng_.below(2) == 0) {
    workers_[i].paused_until = now_ + int64_t(rng_.below(uint64_t(8 * kSecond)));
    return;
  }
  workers_[i].alive = false;
  after(int64_t(rng_.below(uint64_t(5 * kSecond))), [this, i] { start_worker(i); });
}

}  // namespace downpour::chief
