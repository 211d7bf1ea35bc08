#include "worker/core/steps.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "shared/base/defence.h"

namespace downpour::worker {
namespace {

constexpr size_t kFramesHeldMax = 128;
constexpr ptrdiff_t kBatchesPerShard = 2;  // synchronous training: one in the step, and the next

/// Returns whether pulls of the batch may wait for their answers. A held batch may have pulls that
/// were sent ahead.
bool is_pulling(const Slot& slot) {
  return slot.state == Slot::State::kPulling || slot.state == Slot::State::kHeld;
}

}  // namespace

void Steps::configure(std::vector<TableSpec> tables, uint32_t in_flight, uint32_t replicas,
                      BackupOrder order) {
  tables_ = std::move(tables);
  order_ = order;
  replicas_ = replicas;
  in_flight_ = std::max({1U, in_flight, 2 * replicas});
}

bool Steps::wants_batch() const {
  if (!synchronous()) return session_.configured() && slots_.size() < in_flight_;
  return session_.configured() &&
         leases_.any([&](const Leases::Shard& shard) { return !shard.end && wants(shard); });
}

bool Steps::wants_batch_of(uint64_t shard_read) const {
  const Leases::Shard* const shard = leases_.find_read(shard_read);
  return session_.configured() && (shard == nullptr || wants(*shard));
}

/// Returns whether a batch of the shard has a free slot. In synchronous training each shard has
/// slots of its own, because a step needs a batch of every replica.
bool Steps::wants(const Leases::Shard& shard) const {
  if (!synchronous() || shard.lease.purpose != wire::Purpose::kTrain)
    return slots_.size() < in_flight_;
  return std::ranges::count_if(slots_, [&](const auto& slot) {
           return same_work(slot->lease, shard.lease);
         }) < kBatchesPerShard;
}

Activity Steps::doing() const {
  bool pulling = false;
  for (const auto& slot : slots_) {
    if (slot->state == Slot::State::kComputing) return Activity::kComputing;
    pulling = pulling || slot->state == Slot::State::kPulling || slot->state == Slot::State::kHeld;
  }
  if (pulling || (!slots_.empty() && !wants_batch())) return Activity::kNetwork;
  return leases_.reading_count() > 0 ? Activity::kInput : Activity::kNothing;
}

Slot* Steps::find_slot(uint64_t id) {
  for (auto& slot : slots_)
    if (slot->id == id) return slot.get();
  for (auto& slot : end_slots_)
    if (slot->id == id) return slot.get();
  return nullptr;
}

void Steps::forget_requests(const Slot& slot) {
  for (const PullPart& part : slot.pulls) requests_.forget(part.request);
  for (const PushPart& part : slot.pushes) requests_.forget(part.request);
}

void Steps::on_batch(int64_t now_ns, PreparedBatchPtr batch, WorkerEffects& fx) {
  Leases::Shard* shard = leases_.find(batch->lease);
  if (shard == nullptr || shard->shard_read != batch->shard_read)
    return;  // the shard was dropped, or is read again
  const BatchId id = batch->batch.id;
  shard->bytes_done = batch->batch.end_offset;
  if (shard->lease.purpose == wire::Purpose::kTrain && id.batch < shard->floor) {
    // Every partition has applied this batch already: skip it.
    ++shard->done;
    shard->next_push = std::max(shard->next_push, id.batch + 1);
    leases_.read_on(now_ns, *shard, fx);
    return finish_shard_if_done(now_ns, shard->lease.shard, shard->lease.purpose, fx);
  }
  auto slot = std::make_unique<Slot>();
  slot->id = ++last_slot_;
  slot->lease = shard->lease;
  slot->batch_id = id;
  slot->batch = std::move(batch);
  slots_.push_back(std::move(slot));
  if (!slots_.back()->quarantined()) return pull_held(now_ns, fx);
  slots_.back()->state = Slot::State::kComputed;  // nothing to pull, nothing to compute
  push_ready(now_ns, *shard, fx);
}

void Steps::pull_held(int64_t now_ns, WorkerEffects& fx) {
  if (session_.stopping()) return;
  if (order_.enabled()) pull_held(now_ns, /*left_out_only=*/true, fx);
  pull_held(now_ns, /*left_out_only=*/false, fx);
}

void Steps::pull_held(int64_t now_ns, bool left_out_only, WorkerEffects& fx) {
  uint64_t ahead = 0;  // earlier batches of the training in flight
  for (const std::unique_ptr<Slot>& slot : slots_) {
    if (left_out_only && !slot->left_out) continue;
    const bool counts = slot->trains() && !slot->quarantined();
    const bool held = slot->state == Slot::State::kHeld;
    if (held && counts && !may_pull(now_ns, *slot, ahead)) {
      const Slot* const before = pushed_before(now_ns, *slot);
      if (before != nullptr) pull_ahead(now_ns, *slot, *before, fx);
      if (!std::exchange(slot->waited, true)) defended(Defence::kWorkerWaitsForFloor);
    } else if (held) {
      plan_and_pull(now_ns, *slot, fx);
    }
    ahead += counts ? 1 : 0;
  }
}

bool Steps::may_pull(int64_t now_ns, Slot& slot, uint64_t ahead) const {
  if (!synchronous()) return policy_.may_pull(now_ns, ahead);
  slot.waits_until_ns = 0;
  if (now_ns < slot.pull_at_ns) return false;
  slot.pull_at_ns = 0;  // from now on the batch waits for something else
  return is_next(slot) && has_turn(now_ns, slot);
}

/// Returns whether the next step may have the batch: it is the next one of its replica.
bool Steps::is_next(const Slot& slot) const {
  const Leases::Shard* shard = leases_.find(slot.lease);
  return shard != nullptr && shard->done == slot.batch_id.batch && leases_.is_first(*shard);
}

/// Returns whether a batch for the next step may begin now, as BackupOrder says.
bool Steps::has_turn(int64_t now_ns, Slot& slot) const {
  if (!order_.enabled()) return true;
  uint32_t all = 0, begun = 0, running = 0;
  for (const std::unique_ptr<Slot>& other : slots_) {
    if (!other->trains() || !is_next(*other)) continue;
    ++all;
    begun += other->state != Slot::State::kHeld ? 1 : 0;
    running += other->state == Slot::State::kPulling || other->state == Slot::State::kComputing;
  }
  if (begun < order_.begins(all)) return true;
  if (running > 0) return false;
  slot.waits_until_ns = order_.others_begin_ns();
  return now_ns >= slot.waits_until_ns;
}

/// A ps has applied the batch of the slot. Its step has left out all other batches that this worker
/// has for it, except for those that are staged: their answers are on their way.
void Steps::note_applied(const Slot& slot) {
  if (!slot.trains() || slot.is_end()) return;
  if (!order_.pass(slot.step, session_.placements()->view.id)) return;
  uint32_t left_out = 0;
  for (const std::unique_ptr<Slot>& other : slots_) {
    const bool staged = other->state == Slot::State::kPushing && other->step == slot.step;
    if (!other->trains() || staged || !is_next(*other)) continue;
    other->left_out = true;
    ++left_out;
  }
  order_.set_left_out(left_out);
}

/// Returns how long a batch waits until its values are pulled again. With backups the next step
/// may be applied soon, so that the first waits are short.
int64_t Steps::hold_delay_ns(const Slot& slot) const {
  constexpr uint32_t kDoublingsMax = 6;
  if (!order_.enabled()) return kRegroupDelayNs;
  return std::min(kRegroupDelayNs, kMillisecond << std::min(slot.holds, kDoublingsMax));
}

/// Pulls the values of a batch again, from `until_ns` on. The batch must not be computing.
void Steps::hold_again(int64_t until_ns, Slot& slot) {
  forget_requests(slot);
  Leases::Shard* const shard = leases_.find(slot.lease);
  if (shard != nullptr) shard->next_push = std::min(shard->next_push, slot.batch_id.batch);
  Slot fresh{.id = ++last_slot_,
             .lease = slot.lease,
             .batch_id = slot.batch_id,
             .batch = std::move(slot.batch),
             .pull_at_ns = until_ns,
             .left_out = slot.left_out,
             .holds = slot.holds + 1};
  slot = std::move(fresh);
}

/// After the loss of a ps, all partitions return to a checkpoint. Then every partition has a newer
/// ownership generation than the view under which a batch was pulled, and the values are void.
void Steps::pull_again_after_rollback(WorkerEffects& fx) {
  const wire::View& view = session_.placements()->view;
  ViewId oldest = view.id;
  for (const wire::Placement& placement : view.partitions)
    oldest = std::min(oldest, placement.ownership_generation);
  order_.on_view(oldest);
  const auto is_void = [&](const Slot& slot) {
    if (!slot.trains() || slot.quarantined() || slot.state == Slot::State::kHeld) return false;
    return std::ranges::all_of(view.partitions, [&](const wire::Placement& placement) {
      return placement.ownership_generation > slot.batch->plan.placements->view.id;
    });
  };
  for (;;) {
    const auto pulled =
        std::ranges::find_if(slots_, [&](const auto& slot) { return is_void(*slot); });
    if (pulled == slots_.end()) return;
    defended(Defence::kWorkerRolledBack);
    Slot& slot = **pulled;
    if (slot.state != Slot::State::kComputing) {
      hold_again(0, slot);
      continue;
    }
    Leases::Shard* const shard = leases_.find(slot.lease);
    DP_CHECK(shard != nullptr);
    read_again(*shard, slot.batch_id.batch, fx);  // a thread uses the batch
  }
}

size_t Steps::batches_pulled() const {
  return size_t(std::count_if(slots_.begin(), slots_.end(), [](const auto& slot) {
    return slot->trains() && !slot->quarantined() && slot->state != Slot::State::kHeld;
  }));
}

void Steps::discard_pulled(WorkerEffects& fx) {
  for (;;) {
    const auto pulled = std::find_if(slots_.begin(), slots_.end(), [](const auto& slot) {
      return slot->trains() && !slot->quarantined() && slot->state != Slot::State::kHeld;
    });
    if (pulled == slots_.end()) return;
    defended(Defence::kWorkerPullsDiscarded);
    Leases::Shard* const shard = leases_.find((*pulled)->lease);
    DP_CHECK(shard != nullptr);
    uint32_t first = (*pulled)->batch_id.batch;
    for (const std::unique_ptr<Slot>& slot : slots_) {
      if (same_work(slot->lease, shard->lease)) first = std::min(first, slot->batch_id.batch);
    }
    read_again(*shard, first, fx);
  }
}

void Steps::plan_and_pull(int64_t now_ns, Slot& slot, WorkerEffects& fx) {
  plan(slot);
  slot.state = Slot::State::kPulling;
  slot.pulled_ns = now_ns;
  // Pulls that were sent ahead are answered about now.
  if (std::exchange(slot.awaited_step, 0) != 0) {
    for (PullPart& part : slot.pulls) part.deadline_ns = now_ns + requests_.backoff_ns(0);
  }
  for (size_t m = 0; m < slot.pulls.size(); ++m) send_pull_if_needed(now_ns, slot, m, fx);
  compute_if_pulled(now_ns, slot, fx);
}

/// Plans the pulls of a batch under the current view. Keeps those that were sent ahead under it.
void Steps::plan(Slot& slot) {
  PreparedBatch& batch = *slot.batch;
  const bool current =
      batch.plan.placements && batch.plan.placements->view.id == session_.placements()->view.id;
  if (current && !slot.pulls.empty()) return;
  if (!current) {
    batch.plan =
        make_pull_plan(tables_, session_.placements(), config_.message_bytes_max, batch.batch);
  }
  forget_requests(slot);
  slot.pulls.assign(batch.plan.messages.size(), {});
  slot.awaited_step = 0;
}

void Steps::send_pull_if_needed(int64_t now_ns, Slot& slot, size_t index, WorkerEffects& fx) {
  PullPart& part = slot.pulls[index];
  if (part.done || part.request != RequestId{}) return;
  // In synchronous training an empty pull shows at which step the ps is.
  part.done = slot.batch->plan.messages[index].sections.empty() && !shows_step(slot, index);
  if (!part.done) send_pull(now_ns, slot, index, fx);
}

/// Returns the batch of the replica before a held batch if it has been pushed and waits for its
/// step: then the held batch may be pulled ahead. Otherwise null. That batch is in the same shard,
/// or is the last one of the replica's previous shard.
const Slot* Steps::pushed_before(int64_t now_ns, const Slot& slot) const {
  if (!synchronous() || !slot.pulls.empty() || now_ns < slot.pull_at_ns) return nullptr;
  if (groups_of(tables_).size() < 2 && order_.enabled()) return nullptr;
  const Leases::Shard* const shard = leases_.find(slot.lease);
  if (shard == nullptr) return nullptr;
  const Leases::Shard* const earlier = leases_.before(*shard);
  const bool follows = earlier == nullptr ? shard->done + 1 == slot.batch_id.batch
                                          : shard->done == slot.batch_id.batch && earlier->end &&
                                                earlier->done + 1 == earlier->end->counts.batches &&
                                                leases_.before(*earlier) == nullptr;
  if (!follows) return nullptr;
  const Leases::Shard& of = earlier == nullptr ? *shard : *earlier;
  const auto before = std::ranges::find_if(slots_, [&](const auto& other) {
    return same_work(other->lease, of.lease) && other->batch_id.batch == of.done &&
           other->state == Slot::State::kPushing;
  });
  return before == slots_.end() ? nullptr : before->get();
}

/// Pulls for a held batch. A ps answers for rows that change by steps when it has applied the step
/// of the batch before, if that is certain to have this batch's replica.
void Steps::pull_ahead(int64_t now_ns, Slot& slot, const Slot& before, WorkerEffects& fx) {
  plan(slot);
  if (!order_.enabled() && before.step != 0) slot.awaited_step = before.step + 1;
  for (size_t m = 0; m < slot.pulls.size(); ++m)
    if (!shows_step(slot, m) || slot.awaited_step != 0) send_pull_if_needed(now_ns, slot, m, fx);
}

/// Returns whether a ps answers this pull of a held batch only after a step.
bool Steps::awaits_step(const Slot& slot, size_t message) const {
  return slot.awaited_step != 0 && shows_step(slot, message);
}

void Steps::send_pull(int64_t now_ns, Slot& slot, size_t index, WorkerEffects& fx) {
  const PartMessage& message = slot.batch->plan.messages[index];
  PullPart& part = slot.pulls[index];
  if (part.request != RequestId{}) requests_.forget(part.request);
  part.request = requests_.next();
  part.deadline_ns = now_ns + requests_.backoff_ns(part.attempt++);
  requests_.add(part.request, {slot.id, false});
  session_.send(session_.owner(message.owner),
                wire::Pull{.worker = config_.incarnation,
                           .purpose = slot.lease.purpose,
                           .keep_handle = slot.lease.purpose == wire::Purpose::kTrain,
                           .sections = message.wire_sections(),
                           .step = awaits_step(slot, index) ? slot.awaited_step : 0},
                part.request, fx, message.keys);
}

void Steps::on_pull_reply(int64_t now_ns, wire::Message&& message, WorkerEffects& fx) {
  const Requests::Pending* asked = requests_.find(message.envelope.request);
  if (asked == nullptr || asked->push) return defended(Defence::kWorkerReplyLate);
  Slot* slot = find_slot(asked->slot);
  const RequestId request = message.envelope.request;
  if (slot == nullptr || !is_pulling(*slot)) {
    requests_.forget(message.envelope.request);
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
    if (awaits_step(*slot, size_t(part - slot->pulls.begin()))) return drop_pull(*part);
    part->deadline_ns = std::min(part->deadline_ns, now_ns + kRegroupDelayNs);
    return;
  }
  const PartMessage& wanted = slot->batch->plan.messages[size_t(part - slot->pulls.begin())];
  requests_.forget(message.envelope.request);
  if (message.values.size() != wanted.value_bytes) {
    return fail_shard(slot->lease, slot->batch_id.batch,
                      Error{ErrorCode::kMalformed, str("a pull of ", wanted.value_bytes,
                                                       " bytes was answered with this many bytes: ",
                                                       message.values.size())},
                      fx);
  }
  part->done = true;
  if (shows_step(*slot, size_t(part - slot->pulls.begin()))) {
    const std::vector<uint64_t>& versions = reply.versions;
    // A ps of an earlier release does not wait.
    if (!versions.empty() && versions.front() + 1 < slot->awaited_step) return drop_pull(*part);
    const bool differ = versions.empty() ||
                        std::ranges::adjacent_find(versions, std::not_equal_to{}) != versions.end();
    if (differ) {
      defended(Defence::kWorkerStepsDiffer);
      return hold_again(now_ns + hold_delay_ns(*slot), *slot);
    }
    part->version = versions.front();
  }
  // In a one-process run the frame is the ps's own buffer, and it has few of them.
  part->copied = slot->pulls.size() * in_flight_ > kFramesHeldMax;
  part->values = part->copied ? Bytes::copy_of(message.values.data(), message.values.size())
                              : std::move(message.values);
  if (slot->state == Slot::State::kPulling) compute_if_pulled(now_ns, *slot, fx);
}

/// Forgets a pull that was sent ahead. It is sent again when the batch is no longer held.
void Steps::drop_pull(PullPart& part) {
  requests_.forget(part.request);
  part = {.attempt = part.attempt};
}

/// Returns all buffers that incomplete pulls hold to the ps. If workers kept their buffers while
/// they wait for more, they could wait for each other forever.
void Steps::copy_pulled_values() {
  for (const std::unique_ptr<Slot>& slot : slots_) {
    if (!is_pulling(*slot)) continue;
    for (PullPart& part : slot->pulls) {
      if (!part.done || std::exchange(part.copied, true)) continue;
      part.values = Bytes::copy_of(part.values.data(), part.values.size());
    }
  }
}

/// Returns whether the answer to the pull must show at which step the ps core is.
bool Steps::shows_step(const Slot& slot, size_t message) const {
  return synchronous() && slot.trains() && slot.batch->plan.messages[message].of_step;
}

/// Returns the number of steps that all ps cores have applied. None if some have applied a step
/// that others are about to apply.
std::optional<uint64_t> Steps::version_of(const Slot& slot) const {
  std::optional<uint64_t> version;
  for (size_t m = 0; m < slot.pulls.size(); ++m) {
    if (!shows_step(slot, m)) continue;
    if (version && version != slot.pulls[m].version) return std::nullopt;
    version = slot.pulls[m].version;
  }
  return version;
}

void Steps::compute_if_pulled(int64_t now_ns, Slot& slot, WorkerEffects& fx) {
  if (std::any_of(slot.pulls.begin(), slot.pulls.end(), [](const PullPart& p) { return !p.done; }))
    return;
  if (synchronous() && slot.trains()) {
    const std::optional<uint64_t> version = version_of(slot);
    if (!version) {
      defended(Defence::kWorkerStepsDiffer);
      return hold_again(now_ns + hold_delay_ns(slot), slot);
    }
    slot.step = *version + 1;
    // Another ps has applied this step already.
    if (order_.is_over(slot.step)) return hold_again(now_ns + hold_delay_ns(slot), slot);
  }
  slot.state = Slot::State::kComputing;
  WorkerEffects::Compute compute{.slot = slot.id, .batch = slot.batch, .step = slot.step};
  for (PullPart& part : slot.pulls) compute.values.push_back(std::exchange(part.values, {}));
  fx.computes.push_back(std::move(compute));
}

void Steps::on_view(int64_t now_ns, WorkerEffects& fx) {
  if (synchronous()) pull_again_after_rollback(fx);
  for (auto& slot : slots_) {
    if (slot->state == Slot::State::kHeld) {  // what was pulled ahead may be void
      forget_requests(*slot);
      slot->pulls.clear();
      slot->awaited_step = 0;
    }
    if (slot->state == Slot::State::kPulling) plan_and_pull(now_ns, *slot, fx);
    if (slot->state == Slot::State::kPushing) {
      defended(Defence::kWorkerRegroups);
      rebuild_pushes(now_ns, *slot, fx);
    }
  }
  for (auto& slot : end_slots_) rebuild_pushes(now_ns, *slot, fx);
}

void Steps::on_tick(int64_t now_ns, WorkerEffects& fx) {
  const auto look = [&](auto& slots) {
    for (auto& slot : slots) {
      for (size_t m = 0; m < slot->pulls.size() && is_pulling(*slot); ++m) {
        const PullPart& part = slot->pulls[m];
        if (!part.done && part.request != RequestId{} && now_ns >= part.deadline_ns &&
            !awaits_step(*slot, m))
          send_pull(now_ns, *slot, m, fx);
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

int64_t Steps::next_deadline_ns() const {
  int64_t next = INT64_MAX;
  const auto look = [&](const auto& slots) {
    for (const auto& slot : slots) {
      if (slot->rebuild) next = std::min(next, slot->rebuild_at_ns);
      for (size_t m = 0; m < slot->pulls.size() && is_pulling(*slot); ++m) {
        const PullPart& part = slot->pulls[m];
        if (!part.done && part.request != RequestId{} && !awaits_step(*slot, m))
          next = std::min(next, part.deadline_ns);
      }
      for (const PushPart& part : slot->pushes) next = std::min(next, part.deadline_ns);
    }
  };
  look(slots_);
  look(end_slots_);
  for (const auto& slot : slots_) {
    if (slot->state != Slot::State::kHeld) continue;
    for (const int64_t at_ns : {slot->pull_at_ns, slot->waits_until_ns})
      if (at_ns > 0) next = std::min(next, at_ns);
  }
  return next;
}

}  // namespace downpour::worker
