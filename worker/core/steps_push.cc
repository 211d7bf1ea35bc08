// Steps: takes the result of a computed batch, pushes it, handles the answers of the ps, and
// begins, ends and drops shards. A shard is read again if a ps lacks an earlier batch.
#include <algorithm>
#include <utility>

#include "shared/base/defence.h"
#include "shared/metrics/merge_outputs.h"
#include "worker/core/push_parts.h"
#include "worker/core/steps.h"

namespace downpour::worker {

void Steps::on_computed(int64_t now_ns, Computed&& computed, WorkerEffects& fx) {
  Slot* slot = find_slot(computed.slot);
  if (slot == nullptr || slot->state != Slot::State::kComputing) return;
  Leases::Shard* shard = leases_.find(slot->lease);
  DP_CHECK(shard != nullptr);
  if (!computed.not_finite.empty() && slot->lease.purpose == wire::Purpose::kTrain) {
    fail_shard(slot->lease, slot->batch_id.batch,
               Error{ErrorCode::kBadData, computed.not_finite, slot->batch->where,
                     "lower optimizer.learning_rate, or check these records (downpour explain "
                     "FILE:RECORD); train.on_nan = \"skip\" leaves such batches out",
                     "DP-3401"},
               fx, wire::FailureKind::kNotFinite);
    return leases_.request(now_ns, fx);
  }
  if (slot->lease.purpose == wire::Purpose::kTrain) {
    order_.on_computed(now_ns, now_ns - slot->pulled_ns);
    slot->holds = 0;
    if (synchronous() && order_.is_over(slot->step)) {
      defended(Defence::kWorkerLeftOut);
      return hold_again(now_ns, *slot);
    }
    slot->gradients = std::move(computed.gradients);
    slot->sums.clear();
    for (const OutputMetrics& output : computed.metrics) slot->sums.push_back(output.sums);
    session_.add_metrics(computed.metrics);
    slot->state = Slot::State::kComputed;
    return push_ready(now_ns, *shard, fx);
  }
  if (slot->lease.purpose == wire::Purpose::kEval) {
    merge_outputs(shard->metrics, computed.metrics);
    merge_outputs(shard->slices, computed.slices);
  }
  if (slot->lease.purpose == wire::Purpose::kPredict || !computed.predictions.empty()) {
    session_.report(wire::PredictReport{.lease = slot->lease,
                                        .batch = slot->batch_id.batch,
                                        .records = slot->batch->batch.records},
                    fx, std::move(computed.predictions));
  }
  ++shard->done;
  const ShardId id = shard->lease.shard;
  const wire::Purpose purpose = shard->lease.purpose;
  erase_slot(slot->id);
  finish_shard_if_done(now_ns, id, purpose, fx);
}

void Steps::push_ready(int64_t now_ns, Leases::Shard& shard, WorkerEffects& fx) {
  for (;;) {  // in order, because a later batch would only get "gap"
    const auto next = std::find_if(slots_.begin(), slots_.end(), [&](const auto& slot) {
      return slot->state == Slot::State::kComputed &&
             slot->batch_id ==
                 BatchId{shard.lease.shard.epoch, shard.lease.shard.shard, shard.next_push} &&
             slot->lease.purpose == wire::Purpose::kTrain;
    });
    if (next == slots_.end()) return;
    ++shard.next_push;
    begin_push(now_ns, **next, fx);
  }
}

void Steps::begin_push(int64_t now_ns, Slot& slot, WorkerEffects& fx) {
  const PullPlan& plan = slot.batch->plan;
  slot.state = Slot::State::kPushing;
  slot.unresolved = {};
  if (slot.quarantined()) {
    slot.unresolved = all_partitions(session_.placements()->view);
    return rebuild_pushes(now_ns, slot, fx);
  }
  slot.unresolved.words.resize((size_t{1} << plan.placements->partition_bits) / 64 + 1);
  if (plan.placements->view.id != session_.placements()->view.id) {
    for (const PartMessage& message : plan.messages) {
      message.covered.for_each([&](PartitionId p) { slot.unresolved.insert(p); });
    }
    return rebuild_pushes(now_ns, slot, fx);
  }
  for (size_t m = 0; m < plan.messages.size(); ++m) {
    const PartMessage& message = plan.messages[m];
    message.covered.for_each([&](PartitionId p) { slot.unresolved.insert(p); });
    PushPart part;
    part.to = session_.owner(message.owner);
    part.push = {.worker = config_.incarnation,
                 .batch = slot.batch_id,
                 .records = slot.batch->batch.records,
                 .records_hash = slot.batch->batch.records_hash,
                 .covered = message.covered,
                 .handle = message.sections.empty() ? RequestId{} : slot.pulls[m].request,
                 .fragment = message.fragment,
                 .fragments = message.fragments,
                 .sections = message.wire_sections(),
                 .metrics = slot.sums,
                 .step = slot.step,
                 .replica = slot.lease.replica,
                 .rate_reductions = slot.lease.rate_reductions};
    part.values = slot.gradients[m];
    slot.pushes.push_back(std::move(part));
    send_push(now_ns, slot, slot.pushes.back(), fx);
  }
}

void Steps::begin_shard_end_marker(int64_t now_ns, Leases::Shard& shard, WorkerEffects& fx) {
  auto slot = std::make_unique<Slot>();
  slot->id = ++last_slot_;
  slot->lease = shard.lease;
  slot->batch_id = {shard.lease.shard.epoch, shard.lease.shard.shard, shard.end->counts.batches};
  slot->state = Slot::State::kPushing;
  slot->unresolved = all_partitions(session_.placements()->view);
  end_slots_.push_back(std::move(slot));
  rebuild_pushes(now_ns, *end_slots_.back(), fx);
}

// Regroups all unresolved parts by the newest view and sends them with their keys.
void Steps::rebuild_pushes(int64_t now_ns, Slot& slot, WorkerEffects& fx) {
  slot.rebuild = false;
  for (const PushPart& part : slot.pushes) requests_.forget(part.request);
  wire::Push base{.worker = config_.incarnation,
                  .batch = slot.batch_id,
                  .step = slot.step,
                  .replica = slot.lease.replica,
                  .rate_reductions = slot.lease.rate_reductions};
  if (slot.is_end()) {
    const Leases::Shard* shard = leases_.find(slot.lease);
    DP_CHECK(shard != nullptr && shard->end);
    base.end = true;
    base.counts = shard->end->counts;
    base.records_hash = shard->end->records_hash;
  } else if (slot.quarantined()) {
    base.quarantined = true;
  } else {
    base.records = slot.batch->batch.records;
    base.records_hash = slot.batch->batch.records_hash;
    base.metrics = slot.sums;
  }
  slot.pushes =
      regrouped_parts(tables_, *session_.placements(), config_.message_bytes_max, slot, base);
  for (PushPart& part : slot.pushes) send_push(now_ns, slot, part, fx);
}

void Steps::send_push(int64_t now_ns, Slot& slot, PushPart& part, WorkerEffects& fx) {
  if (part.request != RequestId{}) requests_.forget(part.request);
  part.request = requests_.next();
  part.push.batches_quarantined = uint32_t(slot.lease.quarantined_batches.size());
  part.deadline_ns = now_ns + requests_.backoff_ns(part.attempt++);
  requests_.add(part.request, {slot.id, true});
  session_.send(part.to, part.push, part.request, fx, part.keys, part.values);
}

void Steps::on_push_reply(int64_t now_ns, wire::Message&& message, WorkerEffects& fx) {
  const Requests::Pending* asked = requests_.find(message.envelope.request);
  if (asked == nullptr || !asked->push) return defended(Defence::kWorkerReplyLate);
  const uint64_t slot_id = asked->slot;
  requests_.forget(message.envelope.request);
  Slot* slot = find_slot(slot_id);
  if (slot == nullptr) return;
  const auto part = std::find_if(slot->pushes.begin(), slot->pushes.end(), [&](const PushPart& p) {
    return p.request == message.envelope.request;
  });
  if (part == slot->pushes.end()) return;
  const auto& reply = std::get<wire::PushReply>(message.body);
  if (!is_empty(reply.applied)) {
    slot->all_already_applied = false;
    subtract(slot->unresolved, reply.applied);
    note_applied(*slot);
  }
  const bool fragment = part->push.fragments > 1;
  // The answer of a ps that has room for the part now.
  const bool wanted =
      !reply.others.empty() && std::ranges::all_of(reply.others, [](const wire::PartReply& other) {
        return other.status == wire::PartStatus::kSendAgain;
      });
  if (wanted && !fragment) return send_push(now_ns, *slot, *part, fx);
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
        if (handle_gap(*slot, other.watermark, fx))
          return;  // the shard is read again; the slot is gone
        again = true;
        break;
      case wire::PartStatus::kStaged:
        break;  // the reply to the last fragment has the result
      case wire::PartStatus::kOtherStep:
        if (slot->batch == nullptr || slot->quarantined()) {
          again = true;
          break;
        }
        if (order_.enabled()) defended(Defence::kWorkerLeftOut);
        slot->left_out = true;
        order_.add_left_out();
        return hold_again(now_ns + hold_delay_ns(*slot), *slot);
      case wire::PartStatus::kSendAgain:
      case wire::PartStatus::kViewMismatch:
      case wire::PartStatus::kUnknownPull:
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
  if (is_empty(slot->unresolved)) return slot_resolved(now_ns, slot_id, fx);
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
void Steps::give_back_shard(int64_t now_ns, const Slot& slot, WorkerEffects& fx) {
  defended(Defence::kWorkerShardReturned);
  fail_shard(slot.lease, slot.batch_id.batch,
             Error{ErrorCode::kInterrupted,
                   "the lease and the ps disagree about the quarantined batches of the shard"},
             fx, wire::FailureKind::kMarkersDiffer);
  leases_.request(now_ns, fx);
}

// A partition expects an earlier batch. If that batch is in flight here, waits for it; otherwise
// reads the shard again from that batch. Returns true if the shard is read again.
bool Steps::handle_gap(Slot& slot, uint32_t watermark, WorkerEffects& fx) {
  const bool under_way = std::any_of(slots_.begin(), slots_.end(), [&](const auto& other) {
    return other->lease.purpose == wire::Purpose::kTrain &&
           other->batch_id == BatchId{slot.batch_id.epoch, slot.batch_id.shard, watermark};
  });
  defended(under_way ? Defence::kWorkerGapWaits : Defence::kWorkerGapReturns);
  if (under_way) return false;
  Leases::Shard* shard = leases_.find(slot.lease);
  DP_CHECK(shard != nullptr);
  read_again(*shard, watermark, fx);
  return true;
}

// Drops the batches of a shard in flight, and reads it again from `first_batch` on.
void Steps::read_again(Leases::Shard& shard, uint32_t first_batch, WorkerEffects& fx) {
  erase_slots([&](const Slot& slot) {
    return slot.lease.purpose == shard.lease.purpose && slot.lease.shard == shard.lease.shard;
  });
  shard.next_push = shard.done = shard.floor = first_batch;
  shard.end.reset();
  shard.end_sent = false;
  fx.stops.push_back({shard.shard_read});
  leases_.read(shard, first_batch, fx);
}

void Steps::slot_resolved(int64_t now_ns, uint64_t slot_id, WorkerEffects& fx) {
  Slot* slot = find_slot(slot_id);
  Leases::Shard* shard = leases_.find(slot->lease);
  DP_CHECK(shard != nullptr);
  if (slot->is_end()) {
    leases_.report_progress(now_ns, *shard, true, fx);
    erase_slot(slot_id);
    leases_.remove(*shard);
    return leases_.request(now_ns, fx);
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
  // A batch before a quarantined one may have been pushed again after it.
  shard->next_push = std::max(shard->next_push, shard->done);
  session_.count_records(slot->batch->batch.records);
  if (!slot->quarantined()) policy_.count_batch();
  if (slot->all_already_applied) drop_pulls_ahead(*slot);
  erase_slot(slot_id);
  if (policy_.is_bounded()) session_.report(policy_.report(now_ns), fx);
  if (jumps) push_ready(now_ns, *shard, fx);
  leases_.read_on(now_ns, *shard, fx);
  if (now_ns - shard->progress_at_ns >= session_.welcome().heartbeat_ns / 4)
    leases_.report_progress(now_ns, *shard, false, fx);
  finish_shard_if_done(now_ns, shard->lease.shard, shard->lease.purpose, fx);
}

/// Drops what was pulled for the step after that of this batch: the batch was in an earlier step.
void Steps::drop_pulls_ahead(const Slot& slot) {
  for (const std::unique_ptr<Slot>& other : slots_) {
    if (other->state != Slot::State::kHeld || other->awaited_step == 0 ||
        other->lease.replica != slot.lease.replica)
      continue;
    forget_requests(*other);
    other->pulls.clear();
    other->awaited_step = 0;
  }
}

void Steps::on_grant(int64_t now_ns, const wire::LeaseGrant& grant, WorkerEffects& fx) {
  for (const wire::Lease& lease : grant.leases) {
    if (leases_.renew(lease)) continue;
    abandon(lease, fx);  // another lease for the same shard: start again
    if (lease.purpose == wire::Purpose::kTrain && lease.plan_hash != session_.welcome().plan_hash) {
      fail_shard(
          lease, 0,
          Error{ErrorCode::kConfig, "the lease belongs to another plan than this worker uses"}, fx);
      continue;
    }
    leases_.begin(now_ns, lease, fx);
  }
  leases_.request(now_ns, fx);
}

void Steps::finish_shard_if_done(int64_t now_ns, ShardId id, wire::Purpose purpose,
                                 WorkerEffects& fx) {
  Leases::Shard* const ended = leases_.finish_if_done(id, purpose, fx);
  if (ended == nullptr) return;
  // If this worker dies now, no batch is at fault.
  if (ended->lease.single_step) leases_.report_progress(now_ns, *ended, false, fx);
  begin_shard_end_marker(now_ns, *ended, fx);
}

void Steps::abandon(wire::Lease lease, WorkerEffects& fx) {
  if (!leases_.drop(lease, fx)) return;
  erase_slots([&](const Slot& slot) { return same_work(slot.lease, lease); });
}

void Steps::fail_shard(wire::Lease lease, uint32_t batch, const Error& error, WorkerEffects& fx,
                       wire::FailureKind kind) {
  session_.report(wire::ShardFailed{.lease = lease,
                                    .batch = batch,
                                    .code = error.code,
                                    .what = error.what,
                                    .where = error.where,
                                    .hint = error.hint,
                                    .id = error.id,
                                    .kind = kind},
                  fx);
  abandon(lease, fx);
}

void Steps::on_shard_end(int64_t now_ns, const ShardEnd& end, WorkerEffects& fx) {
  Leases::Shard* shard = leases_.find_read(end.shard_read);
  if (shard == nullptr) return;
  shard->end = end;
  if (shard->floor >= end.counts.batches) shard->done = std::max(shard->done, end.counts.batches);
  finish_shard_if_done(now_ns, shard->lease.shard, shard->lease.purpose, fx);
  leases_.request(now_ns, fx);
}

void Steps::on_read_failed(int64_t now_ns, const ReadFailure& failure, WorkerEffects& fx) {
  Leases::Shard* shard = leases_.find_read(failure.shard_read);
  if (shard == nullptr) return;
  fail_shard(shard->lease, failure.batch.value_or(shard->next_push), failure.error, fx,
             failure.batch ? wire::FailureKind::kRecord : wire::FailureKind::kOther);
  leases_.request(now_ns, fx);
}

void Steps::on_reject(int64_t now_ns, const wire::Message& message, WorkerEffects& fx) {
  const auto& reject = std::get<wire::Reject>(message.body);
  // A process of another build may have taken the port of a lost ps. Its answer says nothing about
  // the batch. The batch is sent again until a view names its owner.
  if (message.envelope.run != session_.run() && reject.code != ErrorCode::kMalformed) return;
  const Requests::Pending* asked = requests_.find(message.envelope.request);
  if (asked == nullptr) return;
  Slot* slot = find_slot(asked->slot);
  requests_.forget(message.envelope.request);
  if (slot == nullptr) return;
  fail_shard(slot->lease, slot->batch_id.batch,
             Error{reject.code, str("a ps refused the batch: ", reject.what)}, fx);
  leases_.request(now_ns, fx);
}

}  // namespace downpour::worker
