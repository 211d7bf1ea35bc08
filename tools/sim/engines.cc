#include "tools/sim/engines.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <optional>
#include <utility>

#include "worker/runtime/compute_pool.h"

namespace downpour::sim {
namespace {

class SimBackground final : public Background {
 public:
  SimBackground(Scheduler& scheduler, SimStorage& storage, std::function<void()> wake)
      : scheduler_(scheduler),
        storage_(storage),
        state_(std::make_shared<State>(std::move(wake))) {}

  void start(Task task) override {
    (void)storage_.take_cost_ns();  // what the event loop did is not the task's
    Completion completion = task();
    free_ns_ =
        std::max(free_ns_, scheduler_.now_ns()) + storage_.take_cost_ns() + 10 * kMicrosecond;
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

class SimReaders final : public worker::Readers {
 public:
  SimReaders(Scheduler& scheduler, const WorkerSpeed& speed, worker::ReaderOptions options,
             std::function<void()> wake)
      : state_(std::make_shared<State>(State{scheduler,
                                             speed,
                                             std::move(options),
                                             std::move(wake),
                                             {},
                                             {},
                                             {},
                                             {},
                                             0,
                                             0,
                                             0,
                                             false})) {}

  void read(const worker::ReadTask& task) override {
    state_->tasks.push_back(task);
    advance(state_);
  }
  void stop(uint64_t reading) override {
    State& state = *state_;
    std::erase_if(state.tasks,
                  [&](const worker::ReadTask& task) { return task.reading == reading; });
    std::erase_if(state.ready, [&](const worker::ReadItem& item) {
      if (item.reading != reading) return false;
      if (item.batch) --state.ready_batches;
      return true;
    });
    if (state.current == reading) state.now.reset();
    advance(state_);
  }
  void set_placements(std::shared_ptr<const worker::Placements> placements) override {
    state_->placements = std::move(placements);
  }
  bool try_pop(bool take_batch, worker::ReadItem& item) override {
    State& state = *state_;
    if (state.ready.empty() || (state.ready.front().batch && !take_batch)) return false;
    item = std::move(state.ready.front());
    state.ready.pop_front();
    if (item.batch) --state.ready_batches;
    advance(state_);
    return true;
  }
  uint64_t bytes_read() const override { return state_->bytes; }

 private:
  struct State {
    Scheduler& scheduler;
    const WorkerSpeed& speed;
    worker::ReaderOptions options;
    std::function<void()> wake;
    std::shared_ptr<const worker::Placements> placements;
    std::deque<worker::ReadTask> tasks;
    std::deque<worker::ReadItem> ready;
    std::optional<worker::ShardReading> now;
    uint64_t current = 0;  // reading of `now`
    uint32_t ready_batches = 0;
    uint64_t bytes = 0;
    bool busy = false;
  };
  /// Begins the next read, if there is something to read and room for it.
  static void advance(const std::shared_ptr<State>& state) {
    if (state->busy || state->ready_batches >= state->options.limits.batches) return;
    if (!state->now) {
      if (state->tasks.empty()) return;
      state->now.emplace(state->options, state->tasks.front());
      state->current = state->tasks.front().reading;
      state->tasks.pop_front();
    }
    state->busy = true;
    const uint64_t before = state->now->bytes();
    worker::ReadItem item =
        state->now->next(std::make_shared<worker::PreparedBatch>(), state->placements);
    state->bytes += state->now->bytes() - before;
    const int64_t cost_ns =
        10 * kMicrosecond +
        (item.batch ? int64_t(item.batch->batch.records) * state->speed.read_record_ns : 0);
    state->scheduler.after(cost_ns * state->speed.slow,
                           [weak = std::weak_ptr(state), read = std::move(item)]() mutable {
                             const auto alive = weak.lock();
                             if (!alive) return;
                             alive->busy = false;
                             const bool wanted = alive->now && alive->current == read.reading;
                             if (read.last && wanted) alive->now.reset();
                             if (wanted) {
                               if (read.batch) ++alive->ready_batches;
                               alive->ready.push_back(std::move(read));
                               alive->wake();
                             }
                             advance(alive);
                           });
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
    scheduler_.at(
        lane, [state = std::weak_ptr(state_), task = std::move(compute), poison, die = speed_.die] {
          const auto alive = state.lock();
          if (!alive) return;
          if (poison == Poison::kDeath) return die();
          alive->done.push_back(worker::run_step(alive->graph, task, alive->scratch, 1));
          alive->wake();
        });
  }
  bool try_pop(worker::Computed& computed) override {
    if (state_->done.empty()) return false;
    computed = std::move(state_->done.front());
    state_->done.pop_front();
    return true;
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
  SimEngines(Scheduler& scheduler, const WorkerSpeed& speed)
      : scheduler_(scheduler), speed_(speed) {}
  std::unique_ptr<worker::Readers> make_readers(worker::ReaderOptions options,
                                                std::function<void()> wake) override {
    return std::make_unique<SimReaders>(scheduler_, speed_, std::move(options), std::move(wake));
  }
  std::unique_ptr<worker::Computers> make_computers(const model::Graph& graph, uint32_t threads,
                                                    uint32_t, std::function<void()> wake) override {
    return std::make_unique<SimComputers>(scheduler_, speed_, graph, threads, std::move(wake));
  }

 private:
  Scheduler& scheduler_;
  const WorkerSpeed& speed_;
};

}  // namespace

std::unique_ptr<Background> make_sim_background(Scheduler& scheduler, SimStorage& storage,
                                                std::function<void()> wake) {
  return std::make_unique<SimBackground>(scheduler, storage, std::move(wake));
}

std::unique_ptr<worker::Engines> make_sim_engines(Scheduler& scheduler, const WorkerSpeed& speed) {
  return std::make_unique<SimEngines>(scheduler, speed);
}

}  // namespace downpour::sim
