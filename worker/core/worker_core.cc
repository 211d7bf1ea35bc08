#include "worker/core/worker_core.h"

#include <algorithm>
#include <utility>

#include "shared/base/defence.h"
#include "shared/metrics/auc.h"
#include "shared/metrics/metrics.h"

namespace downpour::worker {
namespace {

constexpr int64_t kRetryMaxNs = 10 * kSecond;  // limit, whatever a LeaseGrant says

bool is_unavailable(const wire::Body& body) {
  const auto* reject = std::get_if<wire::Reject>(&body);
  return reject != nullptr && reject->code == ErrorCode::kUnavailable;
}

}  // namespace

void limit_buckets(std::vector<OutputMetrics>& outputs) {
  constexpr size_t kBucketsMax = 32768;  // half a MiB in a header
  for (OutputMetrics& output : outputs) coarsen_buckets(output.auc, kBucketsMax / outputs.size());
}

void merge_metrics(std::vector<OutputMetrics>& into, const std::vector<OutputMetrics>& from) {
  if (into.size() < from.size()) into.resize(from.size());
  for (size_t o = 0; o < from.size(); ++o) merge(into[o], from[o]);
}

WorkerCore::WorkerCore(WorkerConfig config)
    : config_(std::move(config)), jitter_(raw(config_.incarnation)) {}

void WorkerCore::send(Incarnation to, wire::Body body, RequestId request, WorkerEffects& fx,
                      Bytes keys, Bytes values) {
  wire::Message message;
  message.envelope.run = run_;
  if (placements_) message.envelope.view = placements_->view.id;
  message.envelope.request = request;
  message.body = std::move(body);
  message.keys = std::move(keys);
  message.values = std::move(values);
  fx.sends.push_back({to, std::move(message)});
}

int64_t WorkerCore::backoff_ns(uint32_t attempt) {
  const int64_t base =
      std::min(config_.request_timeout_ns << std::min(attempt, 8U), config_.retry_max_ns);
  return base / 2 + int64_t(jitter_.below(uint64_t(base)));
}

void WorkerCore::start(int64_t now_ns, WorkerEffects& fx) {
  started_ns_ = now_ns;
  chief_heard_ns_ = now_ns;
  hello(now_ns, fx);
}

void WorkerCore::hello(int64_t now_ns, WorkerEffects& fx) {
  hello_at_ns_ = now_ns + 500 * kMillisecond;
  send(kChief,
       wire::Hello{.role = config_.role,
                   .index = welcomed_ ? welcome_.index : config_.index,
                   .incarnation = config_.incarnation,
                   .build = config_.build,
                   .host = config_.host,
                   .pid = config_.pid,
                   .threads = config_.threads,
                   .endpoint = config_.endpoint},
       next_request(), fx);
}

void WorkerCore::on_message(int64_t now_ns, Incarnation from, wire::Message&& message,
                            WorkerEffects& fx) {
  if (stopping_) return;
  if (run_ != 0 && message.envelope.run != run_ && message.envelope.run != 0) {
    return defended(Defence::kWorkerOtherRun);
  }
  if (from != kChief) {
    // A ps of another run now has the port of a lost ps. The request is repeated under a newer
    // view.
    if (message.envelope.run != run_ && is_unavailable(message.body)) return;
    if (std::holds_alternative<wire::PullReply>(message.body))
      return on_pull_reply(now_ns, std::move(message), fx);
    if (std::holds_alternative<wire::PushReply>(message.body))
      return on_push_reply(now_ns, std::move(message), fx);
    if (std::holds_alternative<wire::Reject>(message.body)) return on_reject(now_ns, message, fx);
    return;
  }
  if (message.envelope.view.term < term_) {  // from a chief that has been replaced
    return defended(Defence::kWorkerOldTerm);
  }
  term_ = message.envelope.view.term;
  chief_heard_ns_ = now_ns;
  if (auto* welcome = std::get_if<wire::Welcome>(&message.body)) {
    on_welcome(now_ns, message.envelope.run, std::move(*welcome), fx);
  } else if (auto* refused = std::get_if<wire::Refused>(&message.body)) {
    stopping_ = true;
    exit(exit_code(refused->code),
         refused->hint.empty() ? refused->what : str(refused->what, " (", refused->hint, ")"), fx);
  } else if (auto* view = std::get_if<wire::View>(&message.body)) {
    on_view(now_ns, std::move(*view), fx);
  } else if (auto* grant = std::get_if<wire::LeaseGrant>(&message.body)) {
    if (message.envelope.request != lease_request_) return defended(Defence::kWorkerGrantLate);
    lease_request_ = RequestId{};
    lease_deadline_ns_ =
        now_ns +
        (grant->leases.empty() ? std::clamp(grant->retry_ns, kMillisecond, kRetryMaxNs) : 0);
    on_grant(now_ns, *grant, fx);
  } else if (auto* list = std::get_if<wire::InputList>(&message.body)) {
    fx.inputs = std::move(list->inputs);
  } else if (auto* revoked = std::get_if<wire::LeaseRevoked>(&message.body)) {
    abandon(revoked->lease, fx);
    request_leases(now_ns, fx);
  } else if (std::holds_alternative<wire::Reject>(message.body)) {
    if (now_ns >= hello_at_ns_)
      hello(now_ns, fx);  // the chief does not know this connection (any more)
  } else if (auto* stop = std::get_if<wire::Stop>(&message.body)) {
    stopping_ = true;
    heartbeat(now_ns, fx);
    wire::Goodbye goodbye{std::get<wire::Heartbeat>(fx.sends.back().message.body)};
    fx.sends.back().message.body = std::move(goodbye);
    fx.sends.back().message.envelope.request = message.envelope.request;
    exit(stop->code, stop->reason, fx);
  }
}

void WorkerCore::on_welcome(int64_t now_ns, uint64_t run, wire::Welcome&& welcome,
                            WorkerEffects& fx) {
  if (!welcomed_) {
    welcomed_ = true;
    welcome_ = std::move(welcome);
    run_ = run;
    heartbeat_at_ns_ = now_ns + welcome_.heartbeat_ns;
    fx.welcomed = true;
    return;
  }
  // A restarted chief. This worker continues if both still make the same batches of the same
  // records. The worker's index, the intervals and the paths of the run may change.
  const bool same_data =
      welcome.plan_hash == welcome_.plan_hash && welcome.shard_bytes == welcome_.shard_bytes &&
      welcome.train_files == welcome_.train_files && welcome.eval_files == welcome_.eval_files;
  if (!same_data) return on_other_job("other data", fx);
  if (welcome.job != welcome_.job || welcome.base_dir != welcome_.base_dir)
    fx.other_job = {welcome.job, welcome.base_dir};
  welcome_ = std::move(welcome);
}

void WorkerCore::on_other_job(const std::string& what, WorkerEffects& fx) {
  defended(Defence::kWorkerOtherData);
  stopping_ = true;
  exit(exit_code(ErrorCode::kConfig),
       str("the chief came back with ", what, ": start this process again"), fx);
}

void WorkerCore::configure(int64_t now_ns, std::vector<TableSpec> tables, uint32_t in_flight,
                           int64_t chief_silence_ns, WorkerEffects& fx) {
  DP_CHECK(welcomed_ && !configured_);
  tables_ = std::move(tables);
  in_flight_ = std::max(1U, in_flight);
  config_.chief_silence_ns = chief_silence_ns;
  configured_ = true;
  request_leases(now_ns, fx);
}

void WorkerCore::on_view(int64_t now_ns, wire::View&& view, WorkerEffects& fx) {
  // The preceding Welcome was lost. The chief answers the next Hello with both messages.
  if (!welcomed_) return defended(Defence::kWorkerViewEarly);
  if (placements_ && view.id <= placements_->view.id) return defended(Defence::kWorkerViewOld);
  // The Welcome of a chief with other data may have been lost. Its view must not be used for
  // batches of the old data.
  if (view.plan_hash != 0 && view.plan_hash != welcome_.plan_hash)
    return on_other_job("other data", fx);
  auto placements = Placements::of(std::move(view));
  if (!placements) return;
  placements_ = std::move(placements);
  fx.placements = placements_;
  // Regroup everything that waits for an answer, because its owner may be gone.
  for (auto& slot : slots_) {
    if (slot->state == State::kPulling) plan_and_pull(now_ns, *slot, fx);
    if (slot->state == State::kPushing) {
      defended(Defence::kWorkerRegroups);
      rebuild_pushes(now_ns, *slot, fx);
    }
  }
  for (auto& slot : end_slots_) rebuild_pushes(now_ns, *slot, fx);
  request_leases(now_ns, fx);
}

uint32_t WorkerCore::shards_read() const {
  return uint32_t(
      std::count_if(shards_.begin(), shards_.end(), [](const auto& s) { return !s->end; }));
}

bool WorkerCore::reads() const { return shards_read() > 0; }

Activity WorkerCore::doing() const {
  bool pulling = false;
  for (const auto& slot : slots_) {
    if (slot->state == State::kComputing) return Activity::kComputing;
    pulling = pulling || slot->state == State::kPulling;
  }
  if (pulling || (configured_ && !wants_batch())) return Activity::kNetwork;
  return reads() ? Activity::kInput : Activity::kNothing;
}

void WorkerCore::want_leases(int64_t now_ns, uint32_t leases, WorkerEffects& fx) {
  config_.leases_wanted = leases;
  request_leases(now_ns, fx);
}

void WorkerCore::request_leases(int64_t now_ns, WorkerEffects& fx) {
  if (!configured_ || !placements_ || stopping_ || lease_request_ != RequestId{}) return;
  const uint32_t count = shards_read();
  if (count >= config_.leases_wanted || now_ns < lease_deadline_ns_) return;
  lease_request_ = next_request();
  lease_request_wanted_ = config_.leases_wanted - count;
  lease_deadline_ns_ = now_ns + backoff_ns(0);
  send(kChief, wire::LeaseRequest{lease_request_wanted_}, lease_request_, fx);
}

void WorkerCore::on_grant(int64_t now_ns, const wire::LeaseGrant& grant, WorkerEffects& fx) {
  for (const wire::Lease& lease : grant.leases) {
    Shard* held = find_shard(lease);
    if (held != nullptr && held->lease.quarantined_batches == lease.quarantined_batches &&
        held->lease.single_step == lease.single_step) {
      // The same lease again: the shard takes over the later attempt.
      defended(Defence::kWorkerGrantSame);
      held->lease.attempt = std::max(held->lease.attempt, lease.attempt);
      continue;
    }
    if (held != nullptr) abandon(held->lease, fx);  // another lease for the same shard: start again
    if (lease.purpose == wire::Purpose::kTrain && lease.plan_hash != welcome_.plan_hash) {
      fail_shard(
          lease, 0,
          Error{ErrorCode::kConfig, "the lease was made for another plan than this worker's"}, fx);
      continue;
    }
    auto shard = std::make_unique<Shard>();
    shard->lease = lease;
    shard->next_push = shard->done = shard->floor = lease.first_batch;
    shard->progress_at_ns = now_ns;
    shards_.push_back(std::move(shard));
    read(*shards_.back(), lease.first_batch, fx);
  }
  request_leases(now_ns, fx);
}

void WorkerCore::read(Shard& shard, uint32_t first_batch, WorkerEffects& fx) {
  shard.shard_read = ++last_shard_read_;
  fx.reads.push_back(
      {shard.lease, first_batch, shard.shard_read, shard.lease.single_step ? 1 : UINT32_MAX});
}

/// Continues a single-step lease. It reports each batch before the next one is read, so that the
/// chief knows at which batch this worker died.
void WorkerCore::read_on(int64_t now_ns, Shard& shard, WorkerEffects& fx) {
  if (!shard.lease.single_step || shard.end) return;
  // If every partition has the end of the shard, only reading it shows how many batches it has.
  if (shard.floor != wire::kShardEnded) {
    shard.done = shard.next_push = std::max(shard.done, shard.floor);
  }
  progress(now_ns, shard, false, fx);
  read(shard, std::max(shard.done, shard.floor), fx);
}

WorkerCore::Shard* WorkerCore::find_shard(const wire::Lease& lease) {
  for (auto& shard : shards_) {
    if (same_work(shard->lease, lease)) return shard.get();
  }
  return nullptr;
}

WorkerCore::Shard* WorkerCore::find_shard_read(uint64_t shard_read) {
  for (auto& shard : shards_) {
    if (shard->shard_read == shard_read) return shard.get();
  }
  return nullptr;
}

void WorkerCore::abandon(wire::Lease lease, WorkerEffects& fx) {
  const auto same = [&](const auto& item) { return same_work(item->lease, lease); };
  const auto held = std::find_if(shards_.begin(), shards_.end(), same);
  if (held == shards_.end()) return;
  fx.stops.push_back({(*held)->shard_read});
  std::erase_if(shards_, same);
  erase_slots([&](const Slot& slot) { return same_work(slot.lease, lease); });
}

void WorkerCore::fail_shard(wire::Lease lease, uint32_t batch, const Error& error,
                            WorkerEffects& fx, wire::FailureKind kind) {
  send(kChief,
       wire::ShardFailed{.lease = lease,
                         .batch = batch,
                         .code = error.code,
                         .what = error.what,
                         .where = error.where,
                         .hint = error.hint,
                         .id = error.id,
                         .kind = kind},
       next_request(), fx);
  abandon(lease, fx);
}

void WorkerCore::on_read_failed(int64_t now_ns, const ReadFailure& failure, WorkerEffects& fx) {
  Shard* shard = find_shard_read(failure.shard_read);
  if (shard == nullptr) return;
  fail_shard(shard->lease, failure.batch.value_or(shard->next_push), failure.error, fx,
             failure.batch ? wire::FailureKind::kRecord : wire::FailureKind::kOther);
  request_leases(now_ns, fx);
}

void WorkerCore::on_fatal(const Error& error, WorkerEffects& fx) {
  stopping_ = true;
  wire::ShardFailed failed;  // concerns no shard
  failed.code = error.code;
  failed.what = error.what;
  failed.where = error.where;
  failed.hint = error.hint;
  failed.id = error.id;
  send(kChief, std::move(failed), next_request(), fx);
  exit(exit_code(error.code), error.what, fx);
}

void WorkerCore::leave(int64_t now_ns, int signal, WorkerEffects& fx) {
  if (stopping_) return;
  leave_signal_ = signal;
  if (welcomed_) report_signal(fx);
  if (config_.local && welcomed_) return;  // the chief stops the job and then this worker
  if (config_.local) {                     // its launcher reads the exit status
    stopping_ = true;
    return exit(128 + signal, "stopped by a signal", fx);
  }
  while (!shards_.empty()) {
    const Shard& shard = *shards_.front();
    fail_shard(shard.lease, shard.done, Error{ErrorCode::kInterrupted, "the worker leaves"}, fx);
  }
  stopping_ = true;
  if (welcomed_) {
    heartbeat(now_ns, fx);
    wire::Goodbye goodbye{std::get<wire::Heartbeat>(fx.sends.back().message.body)};
    fx.sends.back().message.body = std::move(goodbye);
  }
  exit(0, "asked to leave", fx);
}

void WorkerCore::report_signal(WorkerEffects& fx) {
  send(kChief, wire::Leave{.incarnation = config_.incarnation, .signal = uint32_t(leave_signal_)},
       next_request(), fx);
}

void WorkerCore::on_shard_end(int64_t now_ns, const ShardEnd& end, WorkerEffects& fx) {
  Shard* shard = find_shard_read(end.shard_read);
  if (shard == nullptr) return;
  shard->end = end;
  if (shard->floor >= end.counts.batches) shard->done = std::max(shard->done, end.counts.batches);
  finish_shard_if_done(now_ns, shard->lease.shard, shard->lease.purpose, fx);
  request_leases(now_ns, fx);
}

void WorkerCore::progress(int64_t now_ns, Shard& shard, bool ended, WorkerEffects& fx) {
  shard.progress_at_ns = now_ns;
  wire::ShardProgress report{.lease = shard.lease,
                             .batches_acked = shard.done,
                             .ended = ended,
                             .bytes_done = shard.bytes_done};
  if (ended) report.counts = shard.end->counts;
  send(kChief, std::move(report), next_request(), fx);
}

void WorkerCore::finish_shard_if_done(int64_t now_ns, ShardId id, wire::Purpose purpose,
                                      WorkerEffects& fx) {
  const auto at = std::find_if(shards_.begin(), shards_.end(), [&](const auto& s) {
    return s->lease.shard == id && s->lease.purpose == purpose;
  });
  if (at == shards_.end()) return;
  Shard& shard = **at;
  // If first_batch of the lease is beyond the end of the shard, only the shard-end marker is left.
  if (!shard.end || shard.done < shard.end->counts.batches || shard.end_sent) return;
  if (purpose == wire::Purpose::kTrain) {
    shard.end_sent = true;
    return begin_shard_end_marker(now_ns, shard, fx);
  }
  if (purpose == wire::Purpose::kEval) {
    limit_buckets(shard.metrics);
    send(
        kChief,
        wire::EvalReport{
            .lease = shard.lease, .counts = shard.end->counts, .outputs = std::move(shard.metrics)},
        next_request(), fx);
  } else {
    send(kChief,
         wire::PredictReport{.lease = shard.lease,
                             .batch = shard.end->counts.batches,
                             .ended = true,
                             .counts = shard.end->counts},
         next_request(), fx);
  }
  shards_.erase(at);
}

void WorkerCore::heartbeat(int64_t now_ns, WorkerEffects& fx) {
  limit_buckets(recent_);
  heartbeat_at_ns_ = now_ns + std::max<int64_t>(welcome_.heartbeat_ns, kMillisecond);
  send(kChief,
       wire::Heartbeat{.incarnation = config_.incarnation,
                       .rss_bytes_max = stats_.rss_bytes_max,
                       .cpu_ns = stats_.cpu_ns,
                       .pulled_bytes = stats_.pulled_bytes,
                       .pushed_bytes = stats_.pushed_bytes,
                       .records = records_,
                       .read_bytes = stats_.read_bytes,
                       .recent = std::exchange(recent_, {}),
                       .work = stats_.work},
       next_request(), fx);
}

void WorkerCore::on_tick(int64_t now_ns, WorkerEffects& fx) {
  if (stopping_) return;
  if (!welcomed_) {
    if (now_ns - started_ns_ > config_.connect_timeout_ns) {
      stopping_ = true;
      return exit(exit_code(ErrorCode::kUnavailable), "the chief does not answer", fx);
    }
    if (now_ns >= hello_at_ns_) hello(now_ns, fx);
    return;
  }
  if (now_ns - chief_heard_ns_ > config_.chief_silence_ns) {
    stopping_ = true;
    return exit(exit_code(ErrorCode::kPeersLost),
                str("nothing heard of the chief for ", config_.chief_silence_ns / kSecond,
                    " s; run the job again: it goes on from the newest checkpoint"),
                fx);
  }
  if (now_ns >= heartbeat_at_ns_) {
    heartbeat(now_ns, fx);
    if (leave_signal_ != 0) report_signal(fx);  // the first report may have been lost
  }
  if (lease_request_ != RequestId{} &&
      now_ns >= lease_deadline_ns_) {  // the same request id: the chief repeats its grant
    lease_deadline_ns_ = now_ns + backoff_ns(1);
    send(kChief, wire::LeaseRequest{lease_request_wanted_}, lease_request_, fx);
  }
  request_leases(now_ns, fx);
  for (auto& shard : shards_) {
    if (now_ns - shard->progress_at_ns >= welcome_.heartbeat_ns)
      progress(now_ns, *shard, false, fx);
  }
  tick_slots(now_ns, fx);
}

int64_t WorkerCore::next_deadline_ns() const {
  if (stopping_) return INT64_MAX;
  if (!welcomed_) return hello_at_ns_;
  int64_t next = std::min(heartbeat_at_ns_, chief_heard_ns_ + config_.chief_silence_ns);
  if (configured_ && placements_ && lease_deadline_ns_ > 0) {
    if (lease_request_ != RequestId{} || shards_read() < config_.leases_wanted)
      next = std::min(next, lease_deadline_ns_);
  }
  const auto look = [&](const auto& slots) {
    for (const auto& slot : slots) {
      if (slot->rebuild) next = std::min(next, slot->rebuild_at_ns);
      if (slot->state == State::kPulling) {
        for (const PullPart& part : slot->pulls)
          if (!part.done) next = std::min(next, part.deadline_ns);
      }
      for (const PushPart& part : slot->pushes) next = std::min(next, part.deadline_ns);
    }
  };
  look(slots_);
  look(end_slots_);
  return next;
}

}  // namespace downpour::worker
