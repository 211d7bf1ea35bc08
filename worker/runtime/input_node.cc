#include "worker/runtime/input_node.h"

#include <algorithm>
#include <utility>

#include "shared/base/version.h"
#include "shared/transport/endpoint.h"
#include "worker/runtime/given_job.h"
#include "worker/runtime/input_memory.h"
#include "worker/runtime/input_pool.h"

namespace downpour::worker {
namespace {

constexpr int64_t kTickNs = kSecond;

InputPeer peer_of(transport::PeerId peer) { return InputPeer{raw(peer)}; }

class ThreadInputEngines final : public InputEngines {
 public:
  std::unique_ptr<InputReaders> make_readers(ReaderOptions options, uint32_t threads,
                                             std::function<void()> wake) override {
    return std::make_unique<InputPool>(std::move(options), threads, std::move(wake));
  }
};

}  // namespace

std::unique_ptr<InputEngines> make_thread_input_engines() {
  return std::make_unique<ThreadInputEngines>();
}

InputNode::InputNode(transport::Transport& transport, InputOptions options,
                     std::unique_ptr<InputEngines> engines)
    : MemberNode(transport),
      options_(std::move(options)),
      engines_(engines != nullptr ? std::move(engines) : make_thread_input_engines()) {}

InputNode::~InputNode() = default;

Result<void> InputNode::start(int64_t now_ns) {
  DP_TRY(serving_, transport_.bind(options_.endpoint));
  DP_TRY(std::string advertised,
         transport::advertised_endpoint(transport_.endpoint(serving_), options_.advertise_host));
  DP_TRY(chief_, transport_.connect(options_.chief));
  control_ = transport_.port_of(chief_);
  core_.emplace(WorkerConfig{.role = wire::Role::kInput,
                             .incarnation = options_.incarnation != Incarnation{}
                                                ? options_.incarnation
                                                : Incarnation{random_id()},
                             .index = options_.index,
                             .build = kBuildVersion,
                             .host = options_.process.host,
                             .pid = options_.process.pid,
                             .threads = options_.threads,
                             .endpoint = std::move(advertised),
                             .leases_wanted = 0,
                             .local = options_.local,
                             .connect_timeout_ns = options_.connect_timeout_ns});
  WorkerEffects fx;
  core_->start(now_ns, fx);
  run(now_ns, fx);
  return {};
}

void InputNode::on_message(int64_t now_ns, transport::PortId port, transport::PeerId peer,
                           wire::Message&& message) {
  if (port == control_) {
    if (std::holds_alternative<wire::Stop>(message.body)) tell_stats(now_ns);  // for the Goodbye
    WorkerEffects fx;
    core_->on_message(now_ns, Incarnation{0}, std::move(message), fx);
    return run(now_ns, fx);
  }
  if (finished_) return;
  if (shard_reads_) return serve(now_ns, peer, message);
  keep_early(peer, message);
}

/// Keeps ReadShards until the job is known. The chief lists an input process after its Hello, so a
/// worker may ask before the Welcome is here.
void InputNode::keep_early(transport::PeerId peer, const wire::Message& message) {
  const auto* const request = std::get_if<wire::ReadShard>(&message.body);
  const auto* const more = std::get_if<wire::ReadMore>(&message.body);
  if (request == nullptr && (more == nullptr || !more->stop)) return;
  const uint64_t shard_read = request != nullptr ? request->shard_read : more->shard_read;
  std::erase_if(early_, [&](const auto& early) {
    return early.first == peer &&
           std::get<wire::ReadShard>(early.second.body).shard_read == shard_read;
  });
  if (request != nullptr && early_.size() < InputConfig{}.shard_reads_max)
    early_.push_back({peer, {.envelope = message.envelope, .body = *request}});
}

void InputNode::serve(int64_t now_ns, transport::PeerId peer, const wire::Message& message) {
  if (message.envelope.run != core_->run()) return;
  InputEffects fx;
  if (const auto* request = std::get_if<wire::ReadShard>(&message.body)) {
    shard_reads_->on_read_shard(now_ns, peer_of(peer), *request, fx, transport_.identity(peer));
  } else if (const auto* more = std::get_if<wire::ReadMore>(&message.body)) {
    shard_reads_->on_read_more(now_ns, peer_of(peer), *more, fx);
  }
  run(fx);
}

bool InputNode::pump(int64_t now_ns) {
  if (!flush(now_ns)) return false;
  WorkerEffects fx;
  if (now_ns >= stats_at_ns_) tell_stats(now_ns);
  if (const int signal = leave_signal_.exchange(0); signal != 0) {
    core_->leave(now_ns, signal, fx);
    run(now_ns, fx);
    fx.clear();
    if (finished_) return false;
  }
  bool busy = false;
  if (shard_reads_) {
    InputEffects inputs;
    InputItem item;
    while (readers_->try_pop(item)) {
      stats_.pushed_bytes += item.bytes;
      shard_reads_->on_item(std::move(item), inputs);
      item = {};
      busy = true;
    }
    if (now_ns >= tick_at_ns_) {
      tick_at_ns_ = now_ns + kTickNs;
      shard_reads_->on_tick(now_ns, inputs);
    }
    run(inputs);
  }
  if (now_ns >= core_->next_deadline_ns()) core_->on_tick(now_ns, fx);
  run(now_ns, fx);
  return busy;
}

int64_t InputNode::next_deadline_ns() const {
  const int64_t next_ns = core_->next_deadline_ns();
  return shard_reads_ ? std::min(next_ns, tick_at_ns_) : next_ns;
}

void InputNode::tell_stats(int64_t now_ns) {
  stats_at_ns_ = now_ns + kSecond / 4;
  const ProcessUsage usage = options_.process.usage();
  stats_.rss_bytes_max = usage.rss_bytes_max;
  stats_.cpu_ns = usage.cpu_ns;
  if (readers_) stats_.read_bytes = readers_->bytes_read();
  core_->set_stats(stats_);
}

void InputNode::run(int64_t now_ns, WorkerEffects& fx) {
  if (fx.welcomed) {
    fx.welcomed = false;
    set_up(now_ns, fx);
  }
  if (fx.other_job) {
    const std::string why = why_other(job_, fx.other_job->text, fx.other_job->base_dir);
    if (!why.empty()) core_->on_other_job(why, fx);
  }
  for (WorkerEffects::Send& send : fx.sends) outbox_.send(chief_, std::move(send.message));
  for (WorkerEffects::Exit& end : fx.exits) exit(end.code, std::move(end.reason));
}

void InputNode::run(InputEffects& fx) {
  // A queue is full only if the worker does not receive what it has requested. Its shard reads are
  // dropped.
  std::vector<InputPeer> gone;
  for (InputEffects::Send& send : fx.sends) {
    const transport::PeerId peer{raw(send.to)};
    if (outbox_.send(peer, std::move(send.message)) != transport::SendStatus::kSent)
      gone.push_back(send.to);
  }
  for (const uint64_t id : fx.closes) readers_->close(id);
  for (InputEffects::Read& read : fx.reads) readers_->read(std::move(read));
  fx.clear();
  for (const InputPeer peer : gone) shard_reads_->on_peer_gone(peer, fx);
  if (!gone.empty()) run(fx);
}

// Makes the readers when the job is known. Later jobs do not change them.
void InputNode::set_up(int64_t now_ns, WorkerEffects& fx) {
  auto given = take_job(core_->welcome());
  if (!given) return core_->on_fatal(given.error(), fx);
  if (given->starts_programs() && !options_.allow_exec)
    return core_->on_fatal(exec_refused("input process"), fx);
  job_ = std::move(given->job);
  const uint32_t threads = std::max(1U, options_.threads);
  // A step waits for the first shard of every replica, so all of them must be open, and the next
  // ones, also while those of a worker that has died are.
  const auto replicas = uint32_t(job_.train.replicas.value_or(0));
  shard_reads_.emplace(InputConfig{.run = core_->run(),
                                   .plan_hash = core_->welcome().plan_hash,
                                   .open_max = 4 + 4 * std::max(threads, replicas)});
  add_cache(job_, share_memory(job_, options_.process), given->readers, {});
  // At least two threads, because one may wait for a slow file or program.
  readers_ = engines_->make_readers(std::move(given->readers), std::max(2U, threads),
                                    [this] { transport_.wake(); });
  core_->configure(now_ns, {.chief_silence_ns = job_.cluster.chief_silence_ns}, fx);
  for (const auto& [peer, message] : std::exchange(early_, {})) serve(now_ns, peer, message);
}

}  // namespace downpour::worker
