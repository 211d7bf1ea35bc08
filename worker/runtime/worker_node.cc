#include "worker/runtime/worker_node.h"

#include <algorithm>
#include <utility>

#include "shared/base/human.h"
#include "shared/base/units.h"
#include "shared/base/version.h"
#include "shared/env/process.h"
#include "worker/runtime/compute_pool.h"
#include "worker/runtime/given_job.h"
#include "worker/runtime/input_memory.h"
#include "worker/runtime/reader_pool.h"

namespace downpour::worker {
namespace {

WorkerConfig make_config(const WorkerOptions& options) {
  return {.incarnation =
              options.incarnation != Incarnation{} ? options.incarnation : Incarnation{random_id()},
          .index = options.index,
          .build = kBuildVersion,
          .host = options.process.host,
          .pid = options.process.pid,
          .threads = options.threads,
          .local = options.local,
          .connect_timeout_ns = options.connect_timeout_ns,
          .message_bytes_max = options.message_bytes_max};
}

class ThreadEngines final : public Engines {
 public:
  std::unique_ptr<Readers> make_readers(ReaderOptions options,
                                        std::function<void()> wake) override {
    return std::make_unique<ReaderPool>(std::move(options), std::move(wake));
  }
  std::unique_ptr<Computers> make_computers(const model::Graph& graph, uint32_t threads,
                                            uint32_t threads_per_batch,
                                            std::function<void()> wake) override {
    return std::make_unique<ComputePool>(graph, threads, threads_per_batch, std::move(wake));
  }
};

}  // namespace

Result<void> Engines::check(const model::Graph& graph) const {
  if (!graph.is_custom()) return {};
  return Error{ErrorCode::kConfig,
               "a worker has no layers to compute, because the job declares model.variables",
               "model.variables",
               "start a program that trains with downpour.Client (docs/python.md)"};
}

std::unique_ptr<Engines> make_thread_engines() { return std::make_unique<ThreadEngines>(); }

// Returns roughly the memory of the batch's columns.
static uint64_t memory_bytes(const Batch& batch) {
  uint64_t bytes = 0;
  for (const FloatColumn& column : batch.floats) bytes += column.values.size() * sizeof(float);
  for (const BagColumn& bag : batch.bags)
    bytes += (bag.offsets.size() + bag.keys.size() + bag.values.size()) * sizeof(uint32_t);
  for (const TableKeys& table : batch.tables) bytes += table.keys.size() * sizeof(uint64_t);
  return bytes;
}

WorkerNode::WorkerNode(transport::Transport& transport, WorkerOptions options,
                       std::unique_ptr<Engines> engines)
    : MemberNode(transport),
      options_(std::move(options)),
      core_(make_config(options_)),
      engines_(engines != nullptr ? std::move(engines) : make_thread_engines()),
      connections_(transport, options_.chief, options_.own_ps, options_.say) {}

WorkerNode::~WorkerNode() = default;

Result<void> WorkerNode::start(int64_t now_ns) {
  DP_TRY_VOID(connections_.connect_chief());
  WorkerEffects fx;
  core_.start(now_ns, fx);
  run(now_ns, fx);
  return {};
}

void WorkerNode::on_message(int64_t now_ns, transport::PortId, transport::PeerId peer,
                            wire::Message&& message) {
  const Incarnation* from = connections_.find_address(peer);
  if (from == nullptr) return;
  connections_.on_received(*from);
  stats_.pulled_bytes += message.values.size();
  if (std::holds_alternative<wire::Stop>(message.body)) tell_stats(now_ns);  // for the Goodbye
  WorkerEffects fx;
  core_.on_message(now_ns, *from, std::move(message), fx);
  run(now_ns, fx);
  count_time(now_ns);
}

bool WorkerNode::pump(int64_t now_ns) {
  if (!flush(now_ns)) return false;
  const bool tunes = now_ns >= stats_at_ns_ && readers_ != nullptr;
  if (now_ns >= stats_at_ns_) {
    connections_.report_silent(now_ns);
    tell_stats(now_ns);
  }
  WorkerEffects fx;
  if (tunes) tune(now_ns, fx);
  if (const int signal = leave_signal_.exchange(0); signal != 0) {
    core_.leave(now_ns, signal, fx);
    run(now_ns, fx);
    fx.clear();
    if (finished_) return false;
  }
  bool busy = false;
  if (compute_) {
    Computed computed;
    while (compute_->try_pop(computed)) {
      core_.on_computed(now_ns, std::move(computed), fx);
      computed = {};
      busy = true;
    }
    run(now_ns, fx);
    fx.clear();
  }
  if (readers_) {
    const auto wants = [this](uint64_t shard_read) {
      return placements_ != nullptr && core_.wants_batch_of(shard_read);
    };
    ReadItem item;
    while (readers_->try_pop(wants, item)) {
      if (item.batch) {
        took(*item.batch);
        core_.on_batch(now_ns, std::move(item.batch), fx);
      } else if (item.end) {
        core_.on_shard_end(now_ns, *item.end, fx);
      } else {
        core_.on_read_failed(now_ns, *item.failure, fx);
      }
      item = {};
      busy = true;
      run(now_ns, fx);
      fx.clear();
    }
  }
  count_time(now_ns);
  if (now_ns >= core_.next_deadline_ns()) core_.on_tick(now_ns, fx);
  run(now_ns, fx);
  return busy;
}

void WorkerNode::tell_stats(int64_t now_ns) {
  stats_at_ns_ = now_ns + kSecond / 4;
  count_time(now_ns);
  const ProcessUsage usage = options_.process.usage();
  stats_.rss_bytes_max = usage.rss_bytes_max;
  stats_.cpu_ns = usage.cpu_ns;
  if (readers_) stats_.read_bytes = readers_->bytes_read();
  core_.set_stats(stats_);
}

/// Adds the time since the last look to the activity seen at that look.
void WorkerNode::count_time(int64_t now_ns) {
  const int64_t passed_ns = std::max<int64_t>(0, now_ns - looked_ns_);
  looked_ns_ = now_ns;
  if (starving_) reader_totals_.starved_ns += passed_ns;
  if (doing_ == Activity::kComputing) stats_.work.compute_ns += uint64_t(passed_ns);
  if (doing_ == Activity::kNetwork) stats_.work.network_ns += uint64_t(passed_ns);
  if (doing_ == Activity::kInput) stats_.work.input_ns += uint64_t(passed_ns);
  if (readers_ != nullptr && doing_ != Activity::kNothing) {
    const Readers::Queue queue = readers_->queue();
    stats_.work.queued_ns += uint64_t(passed_ns) * queue.ready;
    stats_.work.queue_ns += uint64_t(passed_ns) * queue.room;
  }
  starving_ = readers_ != nullptr && core_.wants_batch() && core_.reads();
  doing_ = core_.doing();
}

void WorkerNode::took(const PreparedBatch& batch) {
  ++reader_totals_.batches;
  reader_totals_.batch_bytes += memory_bytes(batch.batch);
}

/// Changes the limits of the readers if the tuner suggests it.
void WorkerNode::tune(int64_t now_ns, WorkerEffects& fx) {
  if (cache_ != nullptr && !said_full_ && data::was_full(*cache_)) {
    said_full_ = true;
    if (options_.say) {
      options_.say(str("the cache is full (", human_bytes(data::used_bytes(*cache_)),
                       "): other records are read and parsed again in each epoch"));
    }
  }
  const Readers::Times times = readers_->times();
  reader_totals_.full_ns = times.full_ns;
  reader_totals_.reading_ns = times.reading_ns;
  reader_totals_.runnable_ns = times.runnable_ns;
  const auto limits = tuner_->on_totals(now_ns, reader_totals_);
  if (!limits || !readers_->set_limits(*limits)) return;
  core_.want_leases(now_ns, limits->shards, fx);
  if (options_.say) {
    options_.say(str("reads ", limits->shards, limits->shards == 1 ? " shard" : " shards",
                     " in parallel, ", limits->batches, " batches ahead"));
  }
}

int64_t WorkerNode::next_deadline_ns() const { return core_.next_deadline_ns(); }

void WorkerNode::run(int64_t now_ns, WorkerEffects& fx) {
  if (fx.welcomed) {
    fx.welcomed = false;
    set_up(now_ns, fx);
  }
  if (fx.other_job) compare_jobs(*fx.other_job, fx);
  if (fx.placements) {
    placements_ = fx.placements;
    connections_.connect_owners(placements_->view);
    if (readers_) readers_->set_placements(placements_);
  }
  if (fx.inputs && inputs_) {
    std::erase_if(*fx.inputs,
                  [this](const auto& input) { return !connections_.may_connect(input.endpoint); });
    inputs_->update(std::move(*fx.inputs));
  }
  for (const WorkerEffects::StopShardRead& stop : fx.stops) readers_->stop(stop.shard_read);
  for (const WorkerEffects::Read& read : fx.reads) readers_->read(read);
  for (WorkerEffects::Compute& compute : fx.computes) compute_->start(std::move(compute));
  for (WorkerEffects::Send& send : fx.sends) {
    const transport::PeerId* peer = connections_.find_peer(send.to);
    if (peer == nullptr) continue;  // an owner in an older view: the request is regrouped
    connections_.on_sent(now_ns, send.to);
    stats_.pushed_bytes += send.message.values.size();
    // The outbox has the only copy of predictions for the chief.
    outbox_.send(
        *peer, std::move(send.message),
        send.to == kChief ? transport::Outbox::kBytesMax : transport::Outbox::kRequestBytesMax);
  }
  for (WorkerEffects::Exit& end : fx.exits) exit(end.code, std::move(end.reason));
}

// Readers and model stay as the first job described them. Another job may differ only in settings
// that they do not use.
void WorkerNode::compare_jobs(const WorkerEffects::OtherJob& other, WorkerEffects& fx) {
  const std::string why = why_other(job_, other.text, other.base_dir);
  if (!why.empty()) core_.on_other_job(why, fx);
}

// Builds the model, the readers and the compute threads when the job is known.
void WorkerNode::set_up(int64_t now_ns, WorkerEffects& fx) {
  const wire::Welcome& welcome = core_.welcome();
  auto given = take_job(welcome);
  if (!given) return core_.on_fatal(given.error(), fx);
  const bool reads_here = !given->starts_programs() || options_.allow_exec;
  job_ = std::move(given->job);
  const bool wants_inputs = job_.cluster.input_workers > 0;
  if (!reads_here && !wants_inputs) return core_.on_fatal(exec_refused("worker"), fx);
  graph_ = std::move(given->graph);
  if (auto fits = engines_->check(*graph_); !fits) return core_.on_unsuitable(fits.error(), fx);
  ReaderOptions readers = std::move(given->readers);
  inputs_ = std::make_shared<InputDirectory>(InputDirectoryOptions{.wanted = wants_inputs,
                                                                   .reads_here = reads_here,
                                                                   .run = core_.run(),
                                                                   .plan_hash = welcome.plan_hash,
                                                                   .say = options_.say,
                                                                   .keyring = options_.keyring});
  readers.inputs = inputs_;
  readers.message_bytes_max = options_.message_bytes_max;
  const InputMemory memory = share_memory(job_, options_.process);
  cache_ = add_cache(job_, memory, readers, options_.say);
  if (options_.say && !welcome.train_files.empty())
    options_.say(data::sharding_text(job_.data, welcome.train_files, job_.train.replicas));
  const uint32_t threads = std::max(1U, options_.threads);
  const auto replicas = uint32_t(job_.train.replicas.value_or(0));
  const uint32_t at_once = std::min(threads, std::max({1U, job_.train.in_flight, replicas}));
  // A step needs a batch of every replica, so the shards of all replicas are read at the same time,
  // and the next shard of each.
  readers.room_by_shard = replicas > 0;
  const uint32_t shards = replicas > 0                  ? 2 * replicas
                          : options_.reader_threads > 0 ? options_.reader_threads
                                                        : job_.data.parallelism;
  readers.limits = {.shards = shards > 0 ? shards : std::min(2U, memory.shards_max),
                    .batches = job_.data.prefetch > 0 ? job_.data.prefetch : 4 + threads};
  tuner_.emplace(
      readers.limits,
      ReaderTuner::Bounds{
          .shards =
              shards > 0 ? shards : std::min(std::clamp(4 * threads, 8U, 16U), memory.shards_max),
          .batches = job_.data.prefetch > 0 ? job_.data.prefetch : 256,
          .bytes = memory.batch_bytes,
          .processors = options_.process.cpus});
  const auto wake = [this] { transport_.wake(); };
  readers_ = engines_->make_readers(std::move(readers), wake);
  compute_ = engines_->make_computers(*graph_, at_once, threads / at_once, wake);
  if (placements_) readers_->set_placements(placements_);
  core_.configure(now_ns,
                  {.tables = graph_->tables(),
                   .in_flight = job_.train.in_flight,
                   .staleness = job_.train.staleness,
                   .replicas = replicas,
                   .backups = job_.train.backups,
                   .computed_at_once = at_once,
                   .chief_silence_ns = job_.cluster.chief_silence_ns},
                  fx);
  core_.want_leases(now_ns, tuner_->limits().shards, fx);
}

}  // namespace downpour::worker
