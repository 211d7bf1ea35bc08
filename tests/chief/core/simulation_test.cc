// The chief's core among fake ps partitions (watermark maps) and fake workers, under a lossy,
// reordering network with deaths and pauses, in virtual time from one seed. Whatever happens: each
// batch is applied once at every partition, every evaluation shard counts once, the account
// balances, and the job ends.
#include <algorithm>
#include <functional>
#include <queue>
#include <set>

#include <catch2/catch.hpp>

#include "shared/base/hash.h"
#include "shared/base/rng.h"
#include "tests/chief/core/chief_harness.h"

namespace downpour::chief {
namespace {

constexpr uint32_t kPartitions = 4;
constexpr uint32_t kEnd = UINT32_MAX;

uint32_t batches_of(ShardId shard) { return uint32_t(mix64(shard.epoch * 1000 + shard.shard) % 4); }

class World {
 public:
  World(uint64_t seed, bool faults)
      : rng_(seed), faults_(faults), shards_(uint32_t(1 + rng_.below(8))) {
    ps_count_ = uint32_t(1 + rng_.below(3));
    worker_count_ = uint32_t(1 + rng_.below(3));
    ChiefConfig config = small_config(shards_, ps_count_);
    config.job.train.epochs = epochs_ = uint32_t(1 + rng_.below(2));
    config.eval_files = {{.path = "/data/test.csv", .bytes = 300, .fingerprint = 2}};
    config.attempts_max = 50;  // this many deaths at one shard are not the data's fault here
    config.resend_ns = 200 * kMillisecond;
    seed_ = config.job.seed;
    core_.emplace(config);
    deliver([this](Effects& effects) { core_->on_start(now_, effects); });
    for (uint32_t i = 0; i < ps_count_; ++i) start_ps(i);
    workers_.resize(worker_count_);
    for (uint32_t i = 0; i < worker_count_; ++i) start_worker(i);
    if (faults_) {
      const uint64_t deaths = rng_.below(6);
      for (uint64_t n = 0; n < deaths; ++n)
        after(int64_t(rng_.below(uint64_t(8 * kSecond))), [this] { strike(); });
    }
    tick();
  }

  /// Runs until the job ends; false if it did not within ten virtual minutes.
  bool run() {
    while (!finish_ && !queue_.empty() && now_ < 600 * kSecond) {
      const Event event = queue_.top();
      queue_.pop();
      now_ = event.at;
      event.act();
    }
    return finish_.has_value();
  }

  void check() const {
    REQUIRE(finish_);
    INFO((finish_->error ? finish_->error->what : std::string()));
    REQUIRE(finish_->code == 0);
    const JobSummary& summary = finish_->summary;
    REQUIRE(summary.epochs.size() == epochs_);
    for (uint32_t epoch = 0; epoch < epochs_; ++epoch) {
      uint64_t read = 0;
      for (uint32_t shard = 0; shard < shards_; ++shard) {
        for (uint32_t b = 0; b < batches_of({epoch, shard}); ++b) {
          for (uint32_t p = 0; p < kPartitions; ++p) {
            const auto it = applied_.find({p, {epoch, shard, b}});
            REQUIRE(it != applied_.end());
            REQUIRE(it->second == 1);
          }
          read += 10;
        }
      }
      CHECK(summary.epochs[epoch].counts.read == read);
      CHECK(summary.epochs[epoch].counts.applied == read);
    }
    REQUIRE(summary.evaluations.size() == epochs_);
    for (const Evaluation& e : summary.evaluations) CHECK(e.outputs[0].sums.weight == 1 + 2 + 4);
    CHECK(summary.epochs_sealed == epochs_);
    CHECK(publications_ == epochs_);
  }

  uint64_t effects_hash() const { return hash_; }
  bool saw_expiry() const { return expiries_ > 0; }
  bool saw_repeat() const { return had_it_ > 0; }
  bool saw_revoked() const { return revoked_ > 0; }
  bool saw_lacking() const { return lacking_ > 0; }

 private:
  struct Event {
    int64_t at;
    uint64_t order;
    std::function<void()> act;
    bool operator<(const Event& o) const { return std::pair(at, order) > std::pair(o.at, o.order); }
  };
  struct ShardState {
    uint32_t watermark = 0;
    bool ended = false;
  };
  struct Work {
    wire::Lease lease;
    uint32_t batch = 0;
    std::set<uint32_t> waiting;  // partitions that have not answered
    bool begun = false;
  };
  struct Worker {
    Incarnation incarnation{};
    PeerKey peer{};
    bool alive = false, welcomed = false;
    int64_t paused_until = 0;
    uint64_t request = 0;
    int64_t asked_ns = -1;
    std::vector<Work> work;
  };

  void after(int64_t delay, std::function<void()> act) {
    queue_.push({now_ + delay, ++order_, std::move(act)});
  }
  int64_t delay() {
    if (faults_ && rng_.below(50) == 0) return int64_t(rng_.below(uint64_t(4 * kSecond)));
    return int64_t(kMillisecond + int64_t(rng_.below(uint64_t(10 * kMillisecond))));
  }
  /// How many copies of a message arrive.
  uint32_t copies() { return !faults_ ? 1 : rng_.below(25) == 0 ? 0 : rng_.below(25) == 0 ? 2 : 1; }

  void tick() {
    deliver([this](Effects& effects) { core_->on_tick(now_, effects); });
    after(50 * kMillisecond, [this] { tick(); });
  }

  void deliver(const std::function<void(Effects&)>& event) {
    if (finish_) return;
    Effects effects;
    event(effects);
    hash_ = hash_combine(hash_, hash_string(to_text(effects, true)));
    for (Effect& effect : effects) {
      if (auto* send = std::get_if<Send>(&effect)) {
        for (uint32_t n = copies(); n > 0; --n) {
          after(delay(), [this, peer = send->peer, m = send->message] { to_peer(peer, m); });
        }
      } else if (auto* publish = std::get_if<PublishManifest>(&effect)) {
        REQUIRE(publish->images.size() == kPartitions);
        ++publications_;
        after(delay(), [this, id = publish->checkpoint] {
          deliver([&](Effects& more) { core_->on_published(now_, id, {}, more); });
        });
      } else if (auto* line = std::get_if<AppendEvent>(&effect)) {
        lacking_ += line->line.find("\"round_lacking\"") != std::string::npos ? 1 : 0;
        expiries_ += line->line.find("\"expired\"") != std::string::npos ? 1 : 0;
      } else if (auto* finish = std::get_if<Finish>(&effect)) {
        finish_ = std::move(*finish);
      }
    }
  }
  void to_chief(PeerKey peer, wire::Body body, uint64_t request = 0) {
    for (uint32_t n = copies(); n > 0; --n) {
      after(delay(), [this, peer, m = message_of(body, request)] {
        deliver(
            [&](Effects& effects) { core_->on_message(now_, peer, wire::Message(m), effects); });
      });
    }
  }
  void to_peer(PeerKey peer, const wire::Message& m) {
    if (raw(peer) < 200) return ps_message(uint32_t(raw(peer) - 100), m);
    for (uint32_t i = 0; i < worker_count_; ++i) {
      if (workers_[i].peer == peer && workers_[i].alive) worker_message(i, m);
    }
  }

  // ---- ps
  // -------------------------------------------------------------------------------------------------------

  void start_ps(uint32_t i) {
    if (ps_stopped_.contains(i)) return;
    to_chief(ps_peer(i), owned_.contains(i)
                             ? wire::Body(wire::Heartbeat{.incarnation = ps_incarnation(i)})
                             : wire::Body(ps_hello(i)));
    after(kSecond, [this, i] { start_ps(i); });
  }
  void ps_message(uint32_t i, const wire::Message& m) {
    if (const auto* adopt = std::get_if<wire::Adopt>(&m.body)) {
      owned_[i] = adopt->partitions;
      to_chief(ps_peer(i), wire::Adopted{.since = adopt->since});
    } else if (const auto* view = std::get_if<wire::View>(&m.body)) {
      views_[i] = std::max(views_[i], view->id);
    } else if (const auto* status = std::get_if<wire::StatusRequest>(&m.body)) {
      to_chief(ps_peer(i), status_of(i, *status));
    } else if (const auto* save = std::get_if<wire::Save>(&m.body)) {
      wire::Saved saved{.checkpoint = save->checkpoint};
      for (const PartitionId p : owned_[i]) saved.images.push_back({p, "f", 0, 1, 1});
      to_chief(ps_peer(i), std::move(saved));
    } else if (const auto* sealed = std::get_if<wire::Sealed>(&m.body)) {
      for (const PartitionId p : owned_[i])
        sealed_[raw(p)] = std::max(sealed_[raw(p)], sealed->epochs);
    } else if (std::holds_alternative<wire::Stop>(m.body)) {
      ps_stopped_.insert(i);
      to_chief(ps_peer(i), wire::Goodbye{});
    }
  }
  wire::StatusReply status_of(uint32_t i, const wire::StatusRequest& request) {
    wire::StatusReply reply{.round = request.round, .epoch = request.epoch, .view = views_[i]};
    for (uint32_t shard = 0; shard < request.shards; ++shard) {
      bool ended = true;
      uint32_t watermark = UINT32_MAX;
      for (const PartitionId p : owned_[i]) {
        const ShardState state = states_[{raw(p), {request.epoch, shard}}];
        ended &= state.ended;
        if (!state.ended) watermark = std::min(watermark, state.watermark);
      }
      if (ended)
        reply.ended.push_back({shard, shard + 1});
      else if (watermark > 0)
        reply.open.push_back({shard, watermark});
    }
    for (const PartitionId p : owned_[i]) {
      wire::PartitionStatus status{.partition = p, .since = {1, 1}};
      for (uint32_t shard = 0; shard < request.shards; ++shard) {
        if (!states_[{raw(p), {request.epoch, shard}}].ended) continue;
        ++status.shards_ended;
        status.counts += counts_of({request.epoch, shard});
      }
      reply.partitions.push_back(status);
    }
    return reply;
  }
  wire::ShardCounts counts_of(ShardId shard) const {
    const uint64_t begin = 100ULL * plan::order_at(seed_, shard.epoch, shards_, shard.shard);
    const uint32_t batches = batches_of(shard);
    return {.batches = batches,
            .read = 10 * batches,
            .applied = 10 * batches,
            .first_offset = begin,
            .end_offset = begin + 100};
  }

  // ---- workers
  // --------------------------------------------------------------------------------------------------

  void start_worker(uint32_t i) {
    Worker& w = workers_[i];
    w = Worker{.incarnation = Incarnation(5000 + ++incarnations_),
               .peer = PeerKey(200 + incarnations_),
               .alive = true};
    beat(i, w.incarnation);
    step(i, w.incarnation);
  }
  bool is(uint32_t i, Incarnation incarnation) const {
    return workers_[i].alive && workers_[i].incarnation == incarnation;
  }
  void beat(uint32_t i, Incarnation incarnation) {
    if (!is(i, incarnation)) return;
    Worker& w = workers_[i];
    if (now_ >= w.paused_until) {
      if (!w.welcomed) {
        wire::Hello hello = worker_hello(i);
        hello.incarnation = incarnation;
        hello.index = UINT32_MAX;
        to_chief(w.peer, hello);
      } else {
        to_chief(w.peer, wire::Heartbeat{.incarnation = incarnation});
        for (const Work& work : w.work) {
          to_chief(w.peer, wire::ShardProgress{.lease = work.lease, .batches_acked = work.batch});
        }
      }
    }
    after(500 * kMillisecond, [this, i, incarnation] { beat(i, incarnation); });
  }
  /// What a worker does every few milliseconds.
  void step(uint32_t i, Incarnation incarnation) {
    if (!is(i, incarnation)) return;
    Worker& w = workers_[i];
    after(20 * kMillisecond, [this, i, incarnation] { step(i, incarnation); });
    if (now_ < w.paused_until || !w.welcomed) return;
    if (w.work.size() < 2 && (w.asked_ns < 0 || now_ - w.asked_ns > kSecond)) {
      if (w.asked_ns < 0) ++w.request;  // else: the same request again
      w.asked_ns = now_;
      to_chief(w.peer, wire::LeaseRequest{2}, w.request);
    }
    if (w.work.empty()) return;
    Work& work = w.work.front();
    if (work.lease.purpose == wire::Purpose::kEval) {
      const double weight = double(1U << work.lease.shard.shard);
      to_chief(w.peer, wire::EvalReport{.lease = work.lease,
                                        .counts = {.read = 1, .applied = 1},
                                        .outputs = {{.sums = {.weight = weight}}}});
      w.work.erase(w.work.begin());
      return;
    }
    if (faults_ &&
        rng_.below(300) == 0) {  // a hint that is wrong: the completion round must find it
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
    for (const uint32_t p : work.waiting) {
      const bool end = work.batch >= batches_of(work.lease.shard);
      for (uint32_t n = copies(); n > 0; --n) {
        after(delay(), [this, i, incarnation, p, id = work.lease.shard, batch = work.batch, end] {
          push(i, incarnation, p, id, batch, end);
        });
      }
    }
  }
  /// One part at one partition, and its reply on the way.
  void push(uint32_t i, Incarnation incarnation, uint32_t p, ShardId id, uint32_t batch, bool end) {
    uint32_t watermark = kEnd;
    if (id.epoch >= sealed_[p]) {
      ShardState& state = states_[{p, id}];
      if (!state.ended && state.watermark == batch) {
        if (!end) ++applied_[{p, {id.epoch, id.shard, batch}}];
        state.ended = end;
        ++state.watermark;
      } else {
        ++had_it_;
      }
      watermark = state.ended ? kEnd : state.watermark;
    }
    after(delay(),
          [this, i, incarnation, p, id, watermark] { pushed(i, incarnation, p, id, watermark); });
  }
  void pushed(uint32_t i, Incarnation incarnation, uint32_t p, ShardId id, uint32_t watermark) {
    if (!is(i, incarnation)) return;
    Worker& w = workers_[i];
    if (w.work.empty() || w.work.front().lease.shard != id || !w.work.front().begun) return;
    Work& work = w.work.front();
    if (watermark < work.batch) {  // a gap, or an old reply: back to what it expects
      work.batch = watermark;
      work.begun = false;
      return;
    }
    if (watermark == work.batch) return;
    work.waiting.erase(p);
    if (!work.waiting.empty()) return;
    work.begun = false;
    if (work.batch++ < batches_of(id)) return;
    to_chief(w.peer, wire::ShardProgress{.lease = work.lease,
                                         .batches_acked = work.batch - 1,
                                         .ended = true,
                                         .counts = counts_of(id)});
    w.work.erase(w.work.begin());
  }
  void worker_message(uint32_t i, const wire::Message& m) {
    Worker& w = workers_[i];
    if (now_ < w.paused_until) {  // it reads this when it wakes
      after(w.paused_until - now_, [this, i, m, incarnation = w.incarnation] {
        if (is(i, incarnation)) worker_message(i, m);
      });
      return;
    }
    if (std::holds_alternative<wire::Welcome>(m.body)) w.welcomed = true;
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
      to_chief(w.peer, wire::Goodbye{.last = {.incarnation = w.incarnation}});
      w.alive = false;
    }
  }
  /// A worker dies and another comes, at once or later; or it is only paused, with its messages
  /// waiting.
  void strike() {
    const auto i = uint32_t(rng_.below(worker_count_));
    if (!workers_[i].alive) return;
    if (rng_.below(2) == 0) {
      workers_[i].paused_until = now_ + int64_t(rng_.below(uint64_t(8 * kSecond)));
      return;
    }
    workers_[i].alive = false;
    after(int64_t(rng_.below(uint64_t(5 * kSecond))), [this, i] { start_worker(i); });
  }

  Rng rng_;
  bool faults_;
  uint32_t shards_, epochs_ = 1, ps_count_ = 1, worker_count_ = 1;
  uint64_t seed_ = 1;
  std::optional<ChiefCore> core_;
  std::priority_queue<Event> queue_;
  int64_t now_ = 0;
  uint64_t order_ = 0, incarnations_ = 0, hash_ = 0;
  std::optional<Finish> finish_;
  std::map<uint32_t, std::vector<PartitionId>> owned_;
  std::map<uint32_t, ViewId> views_;
  std::map<uint32_t, uint32_t> sealed_;
  std::set<uint32_t> ps_stopped_;
  std::map<std::pair<uint32_t, ShardId>, ShardState> states_;
  std::map<std::pair<uint32_t, BatchId>, uint32_t> applied_;
  std::vector<Worker> workers_;
  uint32_t publications_ = 0;
  uint64_t expiries_ = 0, lacking_ = 0, had_it_ = 0, revoked_ = 0;
};

TEST_CASE("without faults the account balances and nothing is repeated", "[chief][core][sim]") {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    INFO("seed " << seed);
    World world(seed, false);
    REQUIRE(world.run());
    world.check();
    CHECK_FALSE(world.saw_expiry());
  }
}

TEST_CASE("the account balances whatever dies, is lost, repeated or late", "[chief][core][sim]") {
  constexpr uint64_t kSeeds = 500;
  uint64_t expiries = 0, repeats = 0, revoked = 0, lacking = 0;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    INFO("seed " << seed);
    World world(seed, true);
    REQUIRE(world.run());
    world.check();
    expiries += world.saw_expiry();
    repeats += world.saw_repeat();
    revoked += world.saw_revoked();
    lacking += world.saw_lacking();
  }
  // Else the seeds prove nothing.
  CHECK(expiries > kSeeds / 20);
  CHECK(repeats > kSeeds / 20);
  CHECK(revoked > kSeeds / 20);
  CHECK(lacking > kSeeds / 20);
}

TEST_CASE("the same events give the same effects", "[chief][core][sim]") {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    World first(seed, true), second(seed, true);
    first.run();
    second.run();
    CHECK(first.effects_hash() == second.effects_hash());
  }
}

}  // namespace
}  // namespace downpour::chief
