// The steps of a batch in a worker: pull, compute, push, and the handling of every possible answer.
#include <algorithm>
#include <cstring>
#include <utility>

#include "shared/base/defence.h"
#include "shared/base/hash.h"
#include "shared/base/mutate.h"
#include "worker/core/worker_core.h"

namespace downpour::worker {
namespace {

constexpr size_t kFramesHeldMax = 128;
constexpr int64_t kRegroupDelayNs = 50 * kMillisecond;

bool empty(const wire::PartitionSet& set) {
  return std::all_of(set.words.begin(), set.words.end(), [](uint64_t w) { return w == 0; });
}
void subtract(wire::PartitionSet& set, const wire::PartitionSet& minus) {
  for (size_t w = 0; w < std::min(set.words.size(), minus.words.size()); ++w)
    set.words[w] &= ~minus.words[w];
}
void remove(wire::PartitionSet& set, PartitionId p) {
  if (raw(p) / 64 < set.words.size()) set.words[raw(p) / 64] &= ~(uint64_t{1} << (raw(p) % 64));
}

// Keys and gradients of selected partitions, collected again from the frames of the first push.
struct Regrouped {
  std::vector<wire::Section> sections;
  std::vector<uint64_t> keys;
  std::vector<float> values;
};

Regrouped regroup(const std::vector<TableSpec>& tables, const PullPlan& plan,
                  const std::vector<Bytes>& gradients, const wire::PartitionSet& wanted) {
  Regrouped out;
  const uint32_t bits = plan.placements->partition_bits;
  for (uint32_t t = 0; t < tables.size(); ++t) {
    const TableSpec& table = tables[t];
    // One selected key: its message, and the float offset of its gradient for each variable of the
    // table.
    struct Chosen {
      size_t message;
      uint64_t key;
      std::vector<uint64_t> floats_at;
    };
    std::vector<Chosen> chosen;
    for (size_t m = 0; m < plan.messages.size(); ++m) {
      const PartMessage& message = plan.messages[m];
      uint64_t keys_at = 0;
      uint64_t floats_at = 0;
      for (const SectionRange& section : message.sections) {
        std::vector<uint64_t> table_variable_at(tables[raw(section.table)].table_variables.size());
        uint64_t size = 0;
        for (uint32_t i = 0; i < section.count; ++i) {
          const uint64_t key = message.keys.load<uint64_t>(keys_at + i);
          for (size_t k = 0; k < table_variable_at.size(); ++k)
            size += tables[raw(section.table)].row_floats(k, key);
        }
        if (raw(section.table) == t) {
          uint64_t at = floats_at;
          for (size_t k = 0; k < table_variable_at.size(); ++k) {
            table_variable_at[k] = at;
            for (uint32_t i = 0; i < section.count; ++i)
              at += table.row_floats(k, message.keys.load<uint64_t>(keys_at + i));
          }
          for (uint32_t i = 0; i < section.count; ++i) {
            const uint64_t key = message.keys.load<uint64_t>(keys_at + i);
            if (wanted.contains(partition_of(row_hash(section.table, key), bits)))
              chosen.push_back({m, key, table_variable_at});
            for (size_t k = 0; k < table_variable_at.size(); ++k)
              table_variable_at[k] += table.row_floats(k, key);
          }
        }
        keys_at += section.count;
        floats_at += size;
      }
    }
    if (chosen.empty()) continue;
    out.sections.push_back({TableId{t}, uint32_t(chosen.size())});
    for (const Chosen& c : chosen) out.keys.push_back(c.key);
    for (size_t k = 0; k < table.table_variables.size(); ++k) {
      for (const Chosen& c : chosen) {
        for (uint32_t f = 0; f < table.row_floats(k, c.key); ++f) {
          out.values.push_back(gradients[c.message].load<float>(c.floats_at[k] + f));
        }
      }
    }
  }
  return out;
}

}  // namespace

WorkerCore::Slot* WorkerCore::find_slot(uint64_t id) {
  for (auto& slot : slots_)
    if (slot->id == id) return slot.get();
  for (auto& slot : end_slots_)
    if (slot->id == id) return slot.get();
  return nullptr;
}

void WorkerCore::forget_requests(const Slot& slot) {
  for (const PullPart& part : slot.pulls) requests_.erase(raw(part.request));
  for (const PushPart& part : slot.pushes) requests_.erase(raw(part.request));
}

void WorkerCore::on_batch(int64_t now_ns, PreparedBatchPtr batch, WorkerEffects& fx) {
  Shard* shard = find_shard(batch->lease);
  if (shard == nullptr || shard->shard_read != batch->shard_read)
    return;  // the shard was dropped, or is read again
  const BatchId id = batch->batch.id;
  shard->bytes_done = batch->batch.end_offset;
  if (shard->lease.purpose == wire::Purpose::kTrain && id.batch < shard->floor) {
    // Every partition has applied this batch already: skip it.
    ++shard->done;
    shard->next_push = std::max(shard->next_push, id.batch + 1);
    read_on(now_ns, *shard, fx);
    return finish_shard_if_done(now_ns, shard->lease.shard, shard->lease.purpose, fx);
  }
  auto slot = std::make_unique<Slot>();
  slot->id = ++last_slot_;
  slot->lease = shard->lease;
  slot->batch_id = id;
  slot->batch = std::move(batch);
  slots_.push_back(std::move(slot));
  if (!slots_.back()->quarantined()) return plan_and_pull(now_ns, *slots_.back(), fx);
  slots_.back()->state = State::kComputed;  // nothing to pull, nothing to compute
  push_ready(now_ns, *shard, fx);
}

void WorkerCore::plan_and_pull(int64_t now_ns, Slot& slot, WorkerEffects& fx) {
  PreparedBatch& batch = *slot.batch;
  if (!batch.plan.placements || batch.plan.placements->view.id != placements_->view.id) {
    batch.plan = make_pull_plan(tables_, placements_, config_.message_bytes_max, batch.batch);
  }
  slot.state = State::kPulling;
  forget_requests(slot);
  slot.pulls.assign(batch.plan.messages.size(), {});
  for (size_t m = 0; m < slot.pulls.size(); ++m) {
    if (batch.plan.messages[m].sections.empty()) {
      slot.pulls[m].done = true;
    } else {
      send_pull(now_ns, slot, m, fx);
    }
  }
  compute_if_pulled(slot, fx);
}

void WorkerCore::send_pull(int64_t now_ns, Slot& slot, size_t index, WorkerEffects& fx) {
  const PartMessage& message = slot.batch->plan.messages[index];
  PullPart& part = slot.pulls[index];
  if (part.request != RequestId{}) requests_.erase(raw(part.request));
  part.request = next_request();
  part.deadline_ns = now_ns + backoff_ns(part.attempt++);
  requests_[raw(part.request)] = {slot.id, false};
  send(owner(message.owner),
       wire::Pull{.worker = config_.incarnation,
                  .purpose = slot.lease.purpose,
                  .keep_handle = slot.lease.purpose == wire::Purpose::kTrain,
                  .sections = message.wire_sections()},
       part.request, fx, message.keys);
}

void WorkerCore::on_pull_reply(int64_t now_ns, wire::Message&& message, WorkerEffects& fx) {
  const auto asked = requests_.find(raw(message.envelope.request));
  if (asked == requests_.end() || asked->second.push) return defended(Defence::kWorkerReplyLate);
  Slot* slot = find_slot(asked->second.slot);
  const RequestId request = message.envelope.request;
  if (slot == nullptr || slot->state != State::kPulling) {
    requests_.erase(asked);
    return;
  }
  const auto part = std::find_if(slot->pulls.begin(), slot->pulls.end(), [&](const PullPart& p) {
    return p.request == request && !p.done;
  });
  if (part == slot->pulls.end()) return;
  const auto& reply = std::get<wire::PullReply>(message.body);
  if (reply.status !=
      wire::PullStatus::kOk) {  // a newer view is coming, or the ps is busy: ask again
    if (reply.status == wire::PullStatus::kOverloaded) copy_pulled_values();
    part->deadline_ns = std::min(part->deadline_ns, now_ns + kRegroupDelayNs);
    return;
  }
  const PartMessage& wanted = slot->batch->plan.messages[size_t(part - slot->pulls.begin())];
  requests_.erase(asked);
  if (message.values.size() != wanted.value_bytes) {
    return fail_shard(
        slot->lease, slot->batch_id.batch,
        Error{ErrorCode::kMalformed, str("a pull of ", wanted.value_bytes,
                                         " bytes was answered with ", message.values.size())},
        fx);
  }
  part->done = true;
  // In a one-process run the frame is the ps's own buffer, and it has few of them.
  part->copied = slot->pulls.size() * in_flight_ > kFramesHeldMax;
  part->values = part->copied ? Bytes::copy_of(message.values.data(), message.values.size())
                              : std::move(message.values);
  compute_if_pulled(*slot, fx);
}

/// Returns all buffers that incomplete pulls hold to the ps. If workers kept their buffers while
/// they wait for more, they could wait for each other forever.
void WorkerCore::copy_pulled_values() {
  for (const std::unique_ptr<Slot>& slot : slots_) {
    if (slot->state != State::kPulling) continue;
    for (PullPart& part : slot->pulls) {
      if (!part.done || std::exchange(part.copied, true)) continue;
      part.values = Bytes::copy_of(part.values.data(), part.values.size());
    }
  }
}

void WorkerCore::compute_if_pulled(Slot& slot, WorkerEffects& fx) {
  if (std::any_of(slot.pulls.begin(), slot.pulls.end(), [](const PullPart& p) { return !p.done; }))
    return;
  slot.state = State::kComputing;
  WorkerEffects::Compute compute{.slot = slot.id, .batch = slot.batch};
  for (PullPart& part : slot.pulls) compute.values.push_back(std::exchange(part.values, {}));
  fx.computes.push_back(std::move(compute));
}

void WorkerCore::on_computed(int64_t now_ns, Computed&& computed, WorkerEffects& fx) {
  Slot* slot = find_slot(computed.slot);
  if (slot == nullptr || slot->state != State::kComputing) return;
  Shard* shard = find_shard(slot->lease);
  DP_CHECK(shard != nullptr);
  if (!computed.not_finite.empty() && slot->lease.purpose == wire::Purpose::kTrain) {
    fail_shard(slot->lease, slot->batch_id.batch,
               Error{ErrorCode::kBadData, computed.not_finite, slot->batch->where,
                     "lower the learning rate, or look at these records (downpour explain "
                     "FILE:RECORD); train.on_nan = \"skip\" leaves such batches out",
                     "DP-3401"},
               fx, wire::FailureKind::kNotFinite);
    return request_leases(now_ns, fx);
  }
  if (slot->lease.purpose == wire::Purpose::kTrain) {
    slot->gradients = std::move(computed.gradients);
    slot->sums.clear();
    for (const OutputMetrics& output : computed.metrics) slot->sums.push_back(output.sums);
    merge_metrics(recent_, computed.metrics);
    slot->state = State::kComputed;
    return push_ready(now_ns, *shard, fx);
  }
  if (slot->lease.purpose == wire::Purpose::kEval) {
    merge_metrics(shard->metrics, computed.metrics);
  } else {
    send(kChief,
         wire::PredictReport{.lease = slot->lease,
                             .batch = slot->batch_id.batch,
                             .records = slot->batch->batch.records},
         next_request(), fx, {}, std::move(computed.predictions));
  }
  ++shard->done;
  const ShardId id = shard->lease.shard;
  const wire::Purpose purpose = shard->lease.purpose;
  erase_slot(slot->id);
  finish_shard_if_done(now_ns, id, purpose, fx);
}

void WorkerCore::push_ready(int64_t now_ns, Shard& shard, WorkerEffects& fx) {
  for (;;) {  // in order, because a later batch would only get "gap"
    const auto next = std::find_if(slots_.begin(), slots_.end(), [&](const auto& slot) {
      return slot->state == State::kComputed &&
             slot->batch_id ==
                 BatchId{shard.lease.shard.epoch, shard.lease.shard.shard, shard.next_push} &&
             slot->lease.purpose == wire::Purpose::kTrain;
    });
    if (next == slots_.end()) return;
    ++shard.next_push;
    begin_push(now_ns, **next, fx);
  }
}

void WorkerCore::begin_push(int64_t now_ns, Slot& slot, WorkerEffects& fx) {
  const PullPlan& plan = slot.batch->plan;
  slot.state = State::kPushing;
  slot.unresolved = {};
  if (slot.quarantined()) {
    cover_all(slot);
    return rebuild_pushes(now_ns, slot, fx);
  }
  slot.unresolved.words.resize((size_t{1} << plan.placements->partition_bits) / 64 + 1);
  if (plan.placements->view.id != placements_->view.id) {
    for (const PartMessage& message : plan.messages) {
      message.covered.for_each([&](PartitionId p) { slot.unresolved.insert(p); });
    }
    return rebuild_pushes(now_ns, slot, fx);
  }
  for (size_t m = 0; m < plan.messages.size(); ++m) {
    const PartMessage& message = plan.messages[m];
    if (DP_MUTATE("empty-parts-not-sent") && message.sections.empty()) continue;
    message.covered.for_each([&](PartitionId p) { slot.unresolved.insert(p); });
    PushPart part;
    part.to = owner(message.owner);
    part.push = {.worker = config_.incarnation,
                 .batch = slot.batch_id,
                 .records = slot.batch->batch.records,
                 .records_hash = slot.batch->batch.records_hash,
                 .covered = message.covered,
                 .handle = message.sections.empty() ? RequestId{} : slot.pulls[m].request,
                 .fragment = message.fragment,
                 .fragments = message.fragments,
                 .sections = message.wire_sections(),
                 .metrics = slot.sums};
    part.values = slot.gradients[m];
    slot.pushes.push_back(std::move(part));
    send_push(now_ns, slot, slot.pushes.back(), fx);
  }
}

void WorkerCore::begin_shard_end_marker(int64_t now_ns, Shard& shard, WorkerEffects& fx) {
  auto slot = std::make_unique<Slot>();
  slot->id = ++last_slot_;
  slot->lease = shard.lease;
  slot->batch_id = {shard.lease.shard.epoch, shard.lease.shard.shard, shard.end->counts.batches};
  slot->state = State::kPushing;
  cover_all(*slot);
  end_slots_.push_back(std::move(slot));
  rebuild_pushes(now_ns, *end_slots_.back(), fx);
}

void WorkerCore::cover_all(Slot& slot) const {
  slot.unresolved.words.resize((placements_->view.partitions.size() + 63) / 64);
  for (uint32_t p = 0; p < placements_->view.partitions.size(); ++p)
    slot.unresolved.insert(PartitionId{p});
}

// Regroups all unresolved parts by the newest view and sends them with their keys.
void WorkerCore::rebuild_pushes(int64_t now_ns, Slot& slot, WorkerEffects& fx) {
  slot.rebuild = false;
  for (const PushPart& part : slot.pushes) requests_.erase(raw(part.request));
  slot.pushes.clear();
  for (uint32_t o = 0; o < placements_->view.owners.size(); ++o) {
    wire::PartitionSet covered = placements_->covered[o];
    for (size_t w = 0; w < covered.words.size(); ++w)
      covered.words[w] &= w < slot.unresolved.words.size() ? slot.unresolved.words[w] : 0;
    if (empty(covered)) continue;
    if (DP_MUTATE("end-parts-to-some-only") && slot.is_end() && o > 0) continue;
    PushPart base;
    base.to = owner(o);
    base.push = {.worker = config_.incarnation, .batch = slot.batch_id, .covered = covered};
    if (slot.is_end()) {
      const Shard* shard = find_shard(slot.lease);
      DP_CHECK(shard != nullptr && shard->end);
      base.push.end = true;
      base.push.counts = shard->end->counts;
      base.push.records_hash = shard->end->records_hash;
      slot.pushes.push_back(std::move(base));
      continue;
    }
    if (slot.quarantined()) {
      base.push.quarantined = true;
      slot.pushes.push_back(std::move(base));
      continue;
    }
    base.push.records = slot.batch->batch.records;
    base.push.records_hash = slot.batch->batch.records_hash;
    base.push.metrics = slot.sums;
    Regrouped all = regroup(tables_, slot.batch->plan, slot.gradients, covered);
    if (std::max(all.values.size() * 4, all.keys.size() * 8) <= config_.message_bytes_max) {
      base.push.sections = std::move(all.sections);
      base.keys = Bytes::of(std::move(all.keys));
      base.values = Bytes::of(std::move(all.values));
      slot.pushes.push_back(std::move(base));
      continue;
    }
    // Too much for one message. Partitions with keys are sent one by one, a larger one in its
    // fragments. Partitions without keys are sent together.
    wire::PartitionSet bare;
    bare.words.resize(covered.words.size());
    covered.for_each([&](PartitionId p) {
      wire::PartitionSet one;
      one.words.resize(covered.words.size());
      one.insert(p);
      Regrouped rows = regroup(tables_, slot.batch->plan, slot.gradients, one);
      if (rows.keys.empty()) return bare.insert(p);
      PushPart part = base;
      part.push.covered = one;
      const uint64_t bytes = std::max(rows.values.size() * 4, rows.keys.size() * 8);
      if (bytes > config_.message_bytes_max) {  // every fragment again, as the plan cut it
        for (size_t m = 0; m < slot.batch->plan.messages.size(); ++m) {
          const PartMessage& message = slot.batch->plan.messages[m];
          if (message.fragments < 2 || !message.covered.contains(p)) continue;
          PushPart fragment = base;
          fragment.push.covered = one;
          fragment.push.sections = message.wire_sections();
          fragment.push.fragment = message.fragment;
          fragment.push.fragments = message.fragments;
          fragment.keys = message.keys;
          fragment.values = slot.gradients[m];
          slot.pushes.push_back(std::move(fragment));
        }
        return;
      }
      part.push.sections = std::move(rows.sections);
      part.keys = Bytes::of(std::move(rows.keys));
      part.values = Bytes::of(std::move(rows.values));
      slot.pushes.push_back(std::move(part));
    });
    if (!empty(bare)) {
      base.push.covered = bare;
      slot.pushes.push_back(std::move(base));
    }
  }
  for (PushPart& part : slot.pushes) send_push(now_ns, slot, part, fx);
}

void WorkerCore::send_push(int64_t now_ns, Slot& slot, PushPart& part, WorkerEffects& fx) {
  if (part.request != RequestId{}) requests_.erase(raw(part.request));
  part.request = next_request();
  part.push.batches_quarantined = uint32_t(slot.lease.quarantined_batches.size());
  if (DP_MUTATE("retry-with-a-new-id") && part.attempt > 0 && !part.push.end)
    ++part.push.batch.batch;
  part.deadline_ns = now_ns + backoff_ns(part.attempt++);
  requests_[raw(part.request)] = {slot.id, true};
  send(part.to, part.push, part.request, fx, part.keys, part.values);
}

void WorkerCore::on_push_reply(int64_t now_ns, wire::Message&& message, WorkerEffects& fx) {
  const auto asked = requests_.find(raw(message.envelope.request));
  if (asked == requests_.end() || !asked->second.push) return defended(Defence::kWorkerReplyLate);
  const uint64_t slot_id = asked->second.slot;
  requests_.erase(asked);
  Slot* slot = find_slot(slot_id);
  if (slot == nullptr) return;
  const auto part = std::find_if(slot->pushes.begin(), slot->pushes.end(), [&](const PushPart& p) {
    return p.request == message.envelope.request;
  });
  if (part == slot->pushes.end()) return;
  const auto& reply = std::get<wire::PushReply>(message.body);
  if (!empty(reply.applied)) {
    slot->all_already_applied = false;
    subtract(slot->unresolved, reply.applied);
  }
  const bool fragment = part->push.fragments > 1;
  slot->pushes.erase(part);
  bool again = false;
  for (const wire::PartReply& other : reply.others) {
    switch (other.status) {
      case wire::PartStatus::kQuarantined:
        return give_back_shard(now_ns, *slot, fx);
      case wire::PartStatus::kApplied:
        slot->all_already_applied = false;
        remove(slot->unresolved, other.partition);
        break;
      case wire::PartStatus::kAlreadyApplied:
        slot->watermark_min = std::min(slot->watermark_min, other.watermark);
        remove(slot->unresolved, other.partition);
        break;
      case wire::PartStatus::kGap:
        if (DP_MUTATE("gap-ignored")) {
          remove(slot->unresolved, other.partition);
          break;
        }
        if (handle_gap(now_ns, *slot, other.watermark, fx))
          return;  // the shard is read again; the slot is gone
        again = true;
        break;
      case wire::PartStatus::kStaged:
        break;  // the reply to the last fragment has the result
      case wire::PartStatus::kViewMismatch:
      case wire::PartStatus::kUnknownPull:
        if (DP_MUTATE("one-ack-missed")) {
          remove(slot->unresolved, other.partition);
          break;
        }
        again = true;
        break;
    }
  }
  if (again && !slot->rebuild) {
    // If only a handle was gone, send the keys at once. Otherwise wait a moment for the earlier
    // batch or the newer view.
    const bool unknown = std::any_of(
        reply.others.begin(), reply.others.end(),
        [](const wire::PartReply& o) { return o.status == wire::PartStatus::kUnknownPull; });
    slot->rebuild = true;
    slot->rebuild_at_ns = now_ns + (unknown && !fragment ? 0 : kRegroupDelayNs);
  }
  if (empty(slot->unresolved)) return slot_resolved(now_ns, slot_id, fx);
  if (slot->pushes.empty() && !slot->rebuild) {  // all fragments are staged but not applied: repeat
    defended(Defence::kWorkerFragmentsAgain);
    slot->rebuild = true;
    slot->rebuild_at_ns = now_ns + kRegroupDelayNs;
  }
  if (slot->rebuild && slot->pushes.empty() && now_ns >= slot->rebuild_at_ns)
    rebuild_pushes(now_ns, *slot, fx);
}

// A partition knows other quarantined batches than this lease. Returns the lease, so that the chief
// grants the shard again.
void WorkerCore::give_back_shard(int64_t now_ns, const Slot& slot, WorkerEffects& fx) {
  defended(Defence::kWorkerShardReturned);
  fail_shard(slot.lease, slot.batch_id.batch,
             Error{ErrorCode::kInterrupted,
                   "the lease and the ps disagree about the quarantined batches of the shard"},
             fx, wire::FailureKind::kMarkersDiffer);
  request_leases(now_ns, fx);
}

// A partition expects an earlier batch. If that batch is in flight here, waits for it; otherwise
// reads the shard again from that batch. Returns true if the shard is read again.
bool WorkerCore::handle_gap(int64_t, Slot& slot, uint32_t watermark, WorkerEffects& fx) {
  const bool under_way = std::any_of(slots_.begin(), slots_.end(), [&](const auto& other) {
    return other->lease.purpose == wire::Purpose::kTrain &&
           other->batch_id == BatchId{slot.batch_id.epoch, slot.batch_id.shard, watermark};
  });
  defended(under_way ? Defence::kWorkerGapWaits : Defence::kWorkerGapReturns);
  if (under_way) return false;
  const wire::Lease lease = slot.lease;
  Shard* shard = find_shard(lease);
  DP_CHECK(shard != nullptr);
  erase_slots([&](const Slot& other) {
    return other.lease.purpose == lease.purpose && other.lease.shard == lease.shard;
  });
  shard->next_push = shard->done = shard->floor = watermark;
  shard->end.reset();
  shard->end_sent = false;
  fx.stops.push_back({shard->shard_read});
  read(*shard, watermark, fx);
  return true;
}

void WorkerCore::slot_resolved(int64_t now_ns, uint64_t slot_id, WorkerEffects& fx) {
  Slot* slot = find_slot(slot_id);
  Shard* shard = find_shard(slot->lease);
  DP_CHECK(shard != nullptr);
  if (slot->is_end()) {
    progress(now_ns, *shard, true, fx);
    erase_slot(slot_id);
    std::erase_if(shards_, [&](const auto& s) { return s.get() == shard; });
    return request_leases(now_ns, fx);
  }
  // Every partition is already past this batch. Drop all in-flight batches of the shard below that
  // watermark.
  const bool jumps = slot->all_already_applied && slot->watermark_min > shard->floor;
  if (jumps) {
    defended(Defence::kWorkerJumps);
    shard->floor = slot->watermark_min;
    shard->done += uint32_t(erase_slots([&](const Slot& other) {
      return other.id != slot_id && !other.is_end() && same_work(other.lease, shard->lease) &&
             other.batch_id.batch < shard->floor;
    }));
    shard->next_push = std::max(shard->next_push, shard->floor);
  }
  ++shard->done;
  records_ += slot->batch->batch.records;
  erase_slot(slot_id);
  if (jumps) push_ready(now_ns, *shard, fx);
  read_on(now_ns, *shard, fx);
  if (now_ns - shard->progress_at_ns >= welcome_.heartbeat_ns / 4)
    progress(now_ns, *shard, false, fx);
  finish_shard_if_done(now_ns, shard->lease.shard, shard->lease.purpose, fx);
}

void WorkerCore::on_reject(int64_t now_ns, const wire::Message& message, WorkerEffects& fx) {
  const auto& reject = std::get<wire::Reject>(message.body);
  // A process of another build may have taken the port of a lost ps. Its answer says nothing about
  // the batch. The batch is sent again until a view names its owner.
  if (message.envelope.run != run_ && reject.code != ErrorCode::kMalformed) return;
  const auto asked = requests_.find(raw(message.envelope.request));
  if (asked == requests_.end()) return;
  Slot* slot = find_slot(asked->second.slot);
  requests_.erase(asked);
  if (slot == nullptr) return;
  fail_shard(slot->lease, slot->batch_id.batch,
             Error{reject.code, str("a ps refused the batch: ", reject.what)}, fx);
  request_leases(now_ns, fx);
}

void WorkerCore::tick_slots(int64_t now_ns, WorkerEffects& fx) {
  const auto look = [&](auto& slots) {
    for (auto& slot : slots) {
      if (slot->state == State::kPulling) {
        for (size_t m = 0; m < slot->pulls.size(); ++m) {
          if (!slot->pulls[m].done && now_ns >= slot->pulls[m].deadline_ns)
            send_pull(now_ns, *slot, m, fx);
        }
      }
      for (PushPart& part : slot->pushes) {
        if (now_ns >= part.deadline_ns) send_push(now_ns, *slot, part, fx);
      }
      if (slot->rebuild && now_ns >= slot->rebuild_at_ns) rebuild_pushes(now_ns, *slot, fx);
    }
  };
  look(slots_);
  look(end_slots_);
}

}  // namespace downpour::worker
