#include "worker/core/worker_core.h"

#include <algorithm>
#include <utility>

#include "shared/base/defence.h"

namespace downpour::worker {
namespace {

/// Each replica reads a shard, and the next one ahead. With fewer leases, shards that are read
/// ahead could use up all of them, and the first shard of another replica would never be requested.
uint32_t leases_wanted(uint32_t replicas) { return 2 * replicas; }

bool is_unavailable(const wire::Body& body) {
  const auto* reject = std::get_if<wire::Reject>(&body);
  return reject != nullptr && reject->code == ErrorCode::kUnavailable;
}

}  // namespace

WorkerCore::WorkerCore(WorkerConfig config)
    : config_(std::move(config)),
      requests_(config_),
      session_(config_, requests_, policy_),
      leases_(config_, session_, requests_),
      steps_(config_, session_, requests_, leases_, policy_) {}

void WorkerCore::on_message(int64_t now_ns, Incarnation from, wire::Message&& message,
                            WorkerEffects& fx) {
  if (session_.stopping()) return;
  if (!session_.is_of_this_run(message.envelope)) return defended(Defence::kWorkerOtherRun);
  discard_expired(now_ns, fx);
  if (from == kChief) {
    from_chief(now_ns, std::move(message), fx);
  } else {
    from_ps(now_ns, std::move(message), fx);
  }
  steps_.pull_held(now_ns, fx);
}

void WorkerCore::discard_expired(int64_t now_ns, WorkerEffects& fx) {
  if (policy_.may_be_expired(now_ns)) steps_.discard_pulled(fx);
}

void WorkerCore::from_ps(int64_t now_ns, wire::Message&& message, WorkerEffects& fx) {
  // A ps of another run now has the port of a lost ps. The request is repeated under a newer view.
  if (message.envelope.run != session_.run() && is_unavailable(message.body)) return;
  if (std::holds_alternative<wire::PullReply>(message.body))
    return steps_.on_pull_reply(now_ns, std::move(message), fx);
  if (std::holds_alternative<wire::PushReply>(message.body))
    return steps_.on_push_reply(now_ns, std::move(message), fx);
  if (std::holds_alternative<wire::Reject>(message.body)) steps_.on_reject(now_ns, message, fx);
}

void WorkerCore::from_chief(int64_t now_ns, wire::Message&& message, WorkerEffects& fx) {
  const wire::Envelope& envelope = message.envelope;
  if (!session_.hear_chief(now_ns, envelope)) return;
  if (auto* welcome = std::get_if<wire::Welcome>(&message.body)) {
    session_.on_welcome(now_ns, envelope.run, std::move(*welcome), fx);
  } else if (auto* refused = std::get_if<wire::Refused>(&message.body)) {
    session_.on_refused(*refused, fx);
  } else if (auto* view = std::get_if<wire::View>(&message.body)) {
    if (!session_.accept_view(std::move(*view), fx)) return;
    steps_.on_view(now_ns, fx);
    leases_.request(now_ns, fx);
  } else if (auto* grant = std::get_if<wire::LeaseGrant>(&message.body)) {
    if (leases_.accept(now_ns, envelope.request, *grant)) steps_.on_grant(now_ns, *grant, fx);
  } else if (const auto* floor = std::get_if<wire::Floor>(&message.body)) {
    policy_.take(*floor);
  } else if (auto* list = std::get_if<wire::InputList>(&message.body)) {
    fx.inputs = std::move(list->inputs);
  } else if (auto* revoked = std::get_if<wire::LeaseRevoked>(&message.body)) {
    steps_.abandon(revoked->lease, fx);
    leases_.request(now_ns, fx);
  } else if (std::holds_alternative<wire::Reject>(message.body)) {
    session_.on_reject(now_ns, fx);
  } else if (auto* stop = std::get_if<wire::Stop>(&message.body)) {
    session_.on_stop(now_ns, envelope.request, *stop, fx);
  }
}

void WorkerCore::configure(int64_t now_ns, JobSettings settings, WorkerEffects& fx) {
  session_.configure(settings.chief_silence_ns);
  policy_.configure(now_ns, settings.staleness, session_.welcome().lease_ns);
  steps_.configure(std::move(settings.tables), settings.in_flight, settings.replicas,
                   BackupOrder(settings.backups > 0, settings.computed_at_once));
  if (settings.replicas > 0) leases_.want(leases_wanted(settings.replicas));
  leases_.request(now_ns, fx);
}

void WorkerCore::want_leases(int64_t now_ns, uint32_t leases, WorkerEffects& fx) {
  leases_.want(std::max(leases, leases_wanted(steps_.replicas())));
  leases_.request(now_ns, fx);
}

void WorkerCore::leave(int64_t now_ns, int signal, WorkerEffects& fx) {
  if (session_.stopping() || !session_.on_signal(signal, fx)) return;
  while (!leases_.empty()) {
    const Leases::Shard& shard = leases_.front();
    steps_.fail_shard(shard.lease, shard.done, Error{ErrorCode::kInterrupted, "the worker leaves"},
                      fx);
  }
  session_.leave(now_ns, fx);
}

void WorkerCore::on_tick(int64_t now_ns, WorkerEffects& fx) {
  if (!session_.on_tick(now_ns, fx)) return;
  leases_.on_tick(now_ns, fx);
  discard_expired(now_ns, fx);
  steps_.on_tick(now_ns, fx);
  steps_.pull_held(now_ns, fx);
}

int64_t WorkerCore::next_deadline_ns() const {
  const int64_t session_ns = session_.next_deadline_ns();
  if (session_.stopping() || !session_.welcomed()) return session_ns;
  return std::min({session_ns, leases_.next_deadline_ns(), steps_.next_deadline_ns()});
}

}  // namespace downpour::worker
