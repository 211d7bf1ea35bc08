#include "tools/sim/engines.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>
#include <optional>
#include <utility>

#include "shared/base/queue.h"
#include "worker/runtime/compute_pool.h"
#include "worker/runtime/input_link.h"
#include "worker/runtime/input_shard_read.h"

namespace downpour::sim {
namespace {

class SimBackground final : public Background {
 public:
  SimBackground(Scheduler& scheduler, SimStorage& storage, std::function<void()> wake)
      : scheduler_(scheduler),
        storage_(storage),
        state_(std::make_shared<State>(std::move(wake))) {}

  void start(Task task) override {
    (void)storage_.take_cost_ns();  // discard the cost of the event loop's operations
    Completion completion = task();
    free_ns_ = std::max(free_ns_, scheduler_.now_ns()) + storage_.take_cost_ns() +
               10 * kMicrosecond + storage_.draw_task_delay_ns();
    scheduler_.at(free_ns_,
                  [state = std::weak_ptr(state_), done = std::move(completion)]() mutable {
                    const auto alive = state.lock();
                    if (!alive) return;
                    alive->done.push_back(std::move(done));
                    alive->wake();
                  });
  }
  bool run_completions() override {
    std::deque<Completion> done = std::move(state_->done);
    state_->done.clear();
    for (const Completion& completion : done) completion();
    return !done.empty();
  }

 private:
  struct State {
    explicit State(std::function<void()> w) : wake(std::move(w)) {}
    std::function<void()> wake;
    std::deque<Completion> done;
  };
  Scheduler& scheduler_;
  SimStorage& storage_;
  std::shared_ptr<State> state_;
  int64_t free_ns_ = 0;
};

constexpr int64_t kLateDeathNs = 300 * kMicrosecond;
constexpr int64_t kReadNs = 10 * kMicrosecond;  // per item, in addition to its records
constexpr int64_t kLookNs = 50 * kMillisecond;  // poll interval of a shard read that waits

/// The reader threads of a worker. Each is a lane with at most one shard.
class SimReaders final : public worker::Readers {
 public:
  SimReaders(EngineHost host, worker::ReaderOptions options, std::function<void()> wake)
      : state_(std::make_shared<State>(std::move(host), std::move(options), std::move(wake))) {
    const auto& inputs = state_->options.inputs;
    const bool remote = inputs != nullptr && inputs->in_use();
    const bool several = remote || state_->options.room_by_shard;
    const uint32_t lanes = several ? state_->options.limits.shards : 1;
    for (uint32_t i = 0; i < lanes; ++i) state_->lanes.emplace_back();
  }

  void read(const worker::ReadTask& task) override {
    state_->tasks.push_back(task);
    advance(state_);
  }
  void stop(uint64_t shard_read) override {
    State& state = *state_;
    std::erase_if(state.tasks,
                  [&](const worker::ReadTask& task) { return task.shard_read == shard_read; });
    state.ready.drop(shard_read);
    for (Lane& lane : state.lanes) {
      if (lane.shard_read == shard_read) lane.now.reset();
    }
    advance(state_);
  }
  void set_placements(std::shared_ptr<const worker::Placements> placements) override {
    state_->placements = std::move(placements);
  }
  bool try_pop(const worker::WantsBatch& wants, worker::ReadItem& item) override {
    if (!state_->ready.try_pop(wants, item)) return false;
    advance(state_);
    return true;
  }
  uint64_t bytes_read() const override { return state_->bytes; }

 private:
  struct Lane {
    std::unique_ptr<worker::InputLink> link;  // set when an input process may read
    std::optional<worker::ShardRead> now;
    uint64_t shard_read = 0;     // id of `now`
    bool other_records = false;  // the source of `now` yields different records
    worker::PreparedBatchPtr fresh;
    bool busy = false;    // an item is being read
    bool waits = false;   // the next poll is scheduled
    bool called = false;  // an immediate poll is scheduled, because a message has arrived
  };
  struct State {
    State(EngineHost h, worker::ReaderOptions o, std::function<void()> w)
        : host(std::move(h)),
          options(std::move(o)),
          wake(std::move(w)),
          ready(options.room_by_shard) {}
    EngineHost host;
    worker::ReaderOptions options;
    std::function<void()> wake;
    std::shared_ptr<const worker::Placements> placements;
    std::deque<worker::ReadTask> tasks;
    worker::ReadyItems ready;
    std::deque<Lane> lanes;  // declared after `options`, which the shard reads borrow
    uint64_t bytes = 0;
  };
  using StatePtr = std::shared_ptr<State>;

  static void advance(const StatePtr& state) {
    for (size_t i = 0; i < state->lanes.size(); ++i) advance(state, i);
  }

  /// Simulates a source that is not replayable: changes the last record of the first batch.
  static void change_records(worker::ReadItem& item, bool of_program) {
    constexpr uint64_t kHash = 0x9e3779b97f4a7c15;
    if (item.end) {
      item.end->records_hash += kHash;
      if (of_program) ++item.end->counts.first_offset;  // a record before the shard is longer, too
    }
    if (!item.batch || item.batch->batch.id.batch != 0) return;
    item.batch->batch.tables[0].keys.back() += kOtherRecord;
    item.batch->batch.records_hash += kHash;
    item.batch->plan = {};  // it was made for the old keys
  }

  static void open(const StatePtr& state, size_t index) {
    Lane& lane = state->lanes[index];
    worker::RemoteShardRead remote;
    if (state->options.inputs != nullptr && state->options.inputs->in_use()) {
      if (lane.link == nullptr) {
        lane.link = worker::make_input_link(
            state->host.make_transport([weak = std::weak_ptr(state), index] { call(weak, index); }),
            state->host.clock);
      }
      remote = {.inputs = state->options.inputs.get(), .link = lane.link.get(), .stopped = [] {
                  return false;
                }};  // stop() ends the read
    }
    lane.now.emplace(state->options, state->tasks.front(), std::move(remote));
    lane.shard_read = state->tasks.front().shard_read;
    const auto& other = state->host.speed.gives_other_records;
    lane.other_records = other && other(state->tasks.front().lease.shard);
    state->tasks.pop_front();
  }

  /// Begins the lane's next read if there is something to read and room for a batch.
  static void advance(const StatePtr& state, size_t index) {
    Lane& lane = state->lanes[index];
    if (lane.busy || (!lane.now && state->tasks.empty())) return;
    const uint64_t shard_read = lane.now ? lane.shard_read : state->tasks.front().shard_read;
    if (!state->ready.has_room(shard_read, state->options.limits)) return;
    if (state->host.stands_still()) return look_later(state, index);
    if (!lane.now) open(state, index);
    if (lane.fresh == nullptr) lane.fresh = std::make_shared<worker::PreparedBatch>();
    const uint64_t before = lane.now->bytes();
    auto item = lane.now->poll(lane.fresh, state->placements);
    if (!item) return look_later(state, index);
    lane.fresh.reset();
    lane.busy = true;
    if (lane.other_records) change_records(*item, state->options.train_shards.open_piece() > 0);
    state->bytes += lane.now->bytes() - before;
    const WorkerSpeed& speed = state->host.speed;
    const int64_t cost_ns =
        kReadNs + (item->batch ? int64_t(item->batch->batch.records) * speed.read_record_ns : 0);
    state->host.scheduler.after(cost_ns * speed.slow, [weak = std::weak_ptr(state), index,
                                                       read = std::move(*item)]() mutable {
      if (const auto alive = weak.lock()) done(alive, index, std::move(read));
    });
  }

  static void done(const StatePtr& state, size_t index, worker::ReadItem&& item) {
    Lane& lane = state->lanes[index];
    lane.busy = false;
    const bool wanted = lane.now && lane.shard_read == item.shard_read;
    if (item.last && wanted) lane.now.reset();
    if (wanted) {
      state->ready.push(std::move(item));
      state->wake();
    }
    advance(state);
  }

  static void look_later(const StatePtr& state, size_t index) {
    if (std::exchange(state->lanes[index].waits, true)) return;
    state->host.scheduler.after(kLookNs, [weak = std::weak_ptr(state), index] {
      const auto alive = weak.lock();
      if (!alive) return;
      alive->lanes[index].waits = false;
      advance(alive, index);
    });
  }

  /// Polls the lane soon, because a message has arrived for it.
  static void call(const std::weak_ptr<State>& weak, size_t index) {
    const auto state = weak.lock();
    if (!state || std::exchange(state->lanes[index].called, true)) return;
    state->host.scheduler.after(0, [weak, index] {
      const auto alive = weak.lock();
      if (!alive) return;
      alive->lanes[index].called = false;
      advance(alive, index);
    });
  }
  StatePtr state_;
};

/// The reader threads of an input process. Each reads one batch at a time, in the order of the
/// core's requests.
class SimInputReaders final : public worker::InputReaders {
 public:
  SimInputReaders(EngineHost host, worker::ReaderOptions options, uint32_t threads,
                  std::function<void()> wake)
      : state_(std::make_shared<State>(std::move(host), std::move(options), threads,
                                       std::move(wake))) {}

  void read(worker::InputEffects::Read&& read) override {
    if (read.open) state_->shard_reads.try_emplace(read.id, state_->options, std::move(*read.open));
    state_->tasks.push_back(read.id);
    advance(state_);
  }
  void close(uint64_t id) override { state_->shard_reads.erase(id); }
  bool try_pop(worker::InputItem& item) override { return try_take_front(state_->done, item); }
  uint64_t bytes_read() const override { return state_->bytes; }

 private:
  struct State {
    State(EngineHost h, worker::ReaderOptions o, uint32_t threads, std::function<void()> w)
        : host(std::move(h)), options(std::move(o)), idle(threads), wake(std::move(w)) {}
    EngineHost host;
    worker::ReaderOptions options;
    uint32_t idle;  // idle threads
    std::function<void()> wake;
    std::map<uint64_t, worker::InputShardRead> shard_reads;
    std::deque<uint64_t> tasks;
    std::deque<worker::InputItem> done;
    uint64_t bytes = 0;
  };
  static void advance(const std::shared_ptr<State>& state) {
    while (state->idle > 0 && !state->tasks.empty()) {
      const auto shard_read = state->shard_reads.find(state->tasks.front());
      state->tasks.pop_front();
      if (shard_read == state->shard_reads.end()) continue;
      --state->idle;
      const uint64_t before = shard_read->second.bytes();
      worker::InputItem item = shard_read->second.next(shard_read->first);
      state->bytes += shard_read->second.bytes() - before;
      const WorkerSpeed& speed = state->host.speed;
      const auto cost_ns = int64_t(double(item.bytes) * speed.read_byte_ns) + kReadNs;
      state->host.scheduler.after(cost_ns * speed.slow,
                                  [weak = std::weak_ptr(state), read = std::move(item)]() mutable {
                                    const auto alive = weak.lock();
                                    if (!alive) return;
                                    ++alive->idle;
                                    alive->done.push_back(std::move(read));
                                    alive->wake();
                                    advance(alive);
                                  });
    }
  }
  std::shared_ptr<State> state_;
};

class SimComputers final : public worker::Computers {
 public:
  SimComputers(Scheduler& scheduler, const WorkerSpeed& speed, const model::Graph& graph,
               uint32_t lanes, std::function<void()> wake)
      : scheduler_(scheduler),
        speed_(speed),
        free_ns_(lanes),
        state_(std::make_shared<State>(graph, std::move(wake))) {}

  void start(worker::WorkerEffects::Compute&& compute) override {
    int64_t& lane = *std::min_element(free_ns_.begin(), free_ns_.end());
    const int64_t cost_ns =
        speed_.batch_ns + int64_t(compute.batch->batch.records) * speed_.record_ns;
    lane = std::max(lane, scheduler_.now_ns()) + cost_ns * speed_.slow;
    const bool train = compute.batch->lease.purpose == wire::Purpose::kTrain;
    const Poison poison =
        train && speed_.poison ? speed_.poison(compute.batch->batch) : Poison::kNone;
    if (poison == Poison::kNan) {
      for (Bytes& values : compute.values) {
        values = Bytes::of(std::vector<float>(values.size() / sizeof(float), std::nanf("")));
      }
    }
    // A late death happens while the pushes arrive and before the chief receives a report.
    const int64_t late_ns = lane % kLateDeathNs;
    scheduler_.at(lane, [state = std::weak_ptr(state_), task = std::move(compute), poison, late_ns,
                         die = speed_.die] {
      const auto alive = state.lock();
      if (!alive) return;
      if (poison == Poison::kDeath) return die(0);
      alive->done.push_back(worker::run_step(alive->graph, task, alive->scratch, 1));
      alive->wake();
      if (poison == Poison::kLateDeath) die(late_ns);
    });
  }
  bool try_pop(worker::Computed& computed) override {
    return try_take_front(state_->done, computed);
  }

 private:
  struct State {
    State(const model::Graph& g, std::function<void()> w)
        : graph(g), scratch(g), wake(std::move(w)) {}
    const model::Graph& graph;
    worker::StepScratch scratch;
    std::function<void()> wake;
    std::deque<worker::Computed> done;
  };
  Scheduler& scheduler_;
  const WorkerSpeed& speed_;
  std::vector<int64_t> free_ns_;
  std::shared_ptr<State> state_;
};

class SimEngines final : public worker::Engines {
 public:
  explicit SimEngines(EngineHost host) : host_(std::move(host)) {}
  std::unique_ptr<worker::Readers> make_readers(worker::ReaderOptions options,
                                                std::function<void()> wake) override {
    return std::make_unique<SimReaders>(host_, std::move(options), std::move(wake));
  }
  std::unique_ptr<worker::Computers> make_computers(const model::Graph& graph, uint32_t threads,
                                                    uint32_t, std::function<void()> wake) override {
    return std::make_unique<SimComputers>(host_.scheduler, host_.speed, graph, threads,
                                          std::move(wake));
  }

 private:
  EngineHost host_;
};

class SimInputEngines final : public worker::InputEngines {
 public:
  explicit SimInputEngines(EngineHost host) : host_(std::move(host)) {}
  std::unique_ptr<worker::InputReaders> make_readers(worker::ReaderOptions options,
                                                     uint32_t threads,
                                                     std::function<void()> wake) override {
    return std::make_unique<SimInputReaders>(host_, std::move(options), threads, std::move(wake));
  }

 private:
  EngineHost host_;
};

}  // namespace

std::unique_ptr<Background> make_sim_background(Scheduler& scheduler, SimStorage& storage,
                                                std::function<void()> wake) {
  return std::make_unique<SimBackground>(scheduler, storage, std::move(wake));
}

std::unique_ptr<worker::Engines> make_sim_engines(EngineHost host) {
  return std::make_unique<SimEngines>(std::move(host));
}

std::unique_ptr<worker::InputEngines> make_sim_input_engines(EngineHost host) {
  return std::make_unique<SimInputEngines>(std::move(host));
}

}  // namespace downpour::sim
