// World: the chief's core with fake ps (partitions are maps of watermarks, checkpoints are copies
// of them) and fake workers. The network loses and reorders messages. All processes, including the
// chief, die and pause, and ps join and leave. Time is virtual, and one seed determines everything.
// In the last checkpoint each batch must be applied once at every partition. Every evaluation shard
// must count once, the account must balance, and the job must end. The data may be an open stream,
// of which the chief does not know the number of shards. One worker at a time reads it, or all
// workers through an input process.
#pragma once

#include <algorithm>
#include <functional>
#include <queue>
#include <set>

#include <catch2/catch.hpp>

#include "shared/base/hash.h"
#include "shared/base/rng.h"
#include "tests/chief/core/chief_harness.h"
#include "tests/chief/core/simulation_ps.h"

namespace downpour::chief {

// kMoves: all faults, and ps join and leave.
enum class Faults : uint8_t { kNone, kWorkers, kAll, kMoves };

enum class Source : uint8_t { kFile, kOpen, kOpenShared };

class World {
 public:
  World(uint64_t seed, Faults kind, Source source = Source::kFile)
      : rng_(seed),
        kind_(kind),
        faults_(kind != Faults::kNone),
        ps_die_(kind == Faults::kAll || kind == Faults::kMoves),
        shards_(uint32_t(1 + rng_.below(8))) {
    ps_count_ = uint32_t(1 + rng_.below(3));
    worker_count_ = uint32_t(1 + rng_.below(3));
    ChiefConfig config = small_config(shards_, ps_count_);
    config.job.train.epochs = epochs_ = uint32_t(1 + rng_.below(2));
    config.eval_files = {{.path = "/data/test.csv", .bytes = 300, .fingerprint = 2}};
    config.job.eval.group_by = "user";
    config.attempts_max = 50;  // deaths do not prove that the data are bad here
    config.resend_ns = 200 * kMillisecond;
    config.heartbeat_ns = 500 * kMillisecond;
    config.ps_wait_ns = 3 * kSecond;
    if (kind == Faults::kMoves) config.moves_folder = "/run/moves";
    if (source != Source::kFile) {
      open_ = true;
      shards_ += uint32_t(rng_.below(12));
      last_is_full_ = rng_.below(4) == 0;
      config.train_files = {{.path = "exec: program",
                             .bytes = plan::kOpenEnd,
                             .fingerprint = 1,
                             .splittable = false,
                             .cuts = {100}}};
      config.joining = {.in_order = true, .open_piece = 100};
    }
    seed_ = config.job.seed;
    config_ = config;
    start_chief();
    constexpr uint32_t kGuestsMax = 2;
    ps_.resize(ps_count_ + kGuestsMax);
    for (uint32_t i = 0; i < ps_count_; ++i) start_ps(i);
    for (uint32_t i = ps_count_; i < ps_.size() && kind == Faults::kMoves; ++i) {
      for (uint64_t n = 1 + rng_.below(2); n > 0; --n)
        after(int64_t(rng_.below(uint64_t(6 * kSecond))), [this, i] { visit(i); });
    }
    if (source == Source::kOpenShared) beat_input();
    workers_.resize(worker_count_);
    for (uint32_t i = 0; i < worker_count_; ++i) start_worker(i);
    if (faults_) {
      const uint64_t deaths = rng_.below(6);
      for (uint64_t n = 0; n < deaths; ++n)
        after(int64_t(rng_.below(uint64_t(8 * kSecond))), [this] { strike(); });
      const uint64_t losses = ps_die_ ? 1 + rng_.below(5) : 0;
      for (uint64_t n = 0; n < losses; ++n)
        after(int64_t(rng_.below(uint64_t(12 * kSecond))), [this] { strike_ps_or_chief(); });
    }
    tick();
  }

  /// Runs until the job ends. Returns false if it did not end within ten virtual minutes.
  bool run() {
    while (!finish_ && !queue_.empty() && now_ < 600 * kSecond) {
      const TimedEvent event = queue_.top();
      queue_.pop();
      now_ = event.at;
      event.act();
    }
    return finish_.has_value();
  }

  void check() const {
    REQUIRE(finish_);
    INFO((finish_->error ? finish_->error->what : std::string()));
    if (stopped()) {
      REQUIRE(manifest_);
      return;
    }
    if (has_empty_epoch()) {  // 66, or 69 if the chief dies once more after that
      CHECK(finish_->code != 0);
      return;
    }
    REQUIRE(finish_->code == 0);
    const JobSummary& summary = finish_->summary;
    REQUIRE(summary.epochs.size() == epochs_);
    REQUIRE(manifest_);
    CHECK(manifest_->sealed_epochs == epochs_);
    for (uint32_t epoch = 0; epoch < epochs_; ++epoch) {
      uint64_t read = 0;
      for (uint32_t shard = 0; shard < shards_; ++shard) {
        for (uint32_t b = 0; b < batches_in({epoch, shard}); ++b) {
          for (uint32_t p = 0; p < kPartitions; ++p) {
            const HeldPart& part = saved_.at(manifest_->folder).at(p);
            const auto it = part.applied.find({epoch, shard, b});
            REQUIRE(it != part.applied.end());
            REQUIRE(it->second == 1);
          }
          read += 10;
        }
      }
      CHECK(summary.epochs[epoch].counts.applied == read);
      CHECK(summary.epochs[epoch].counts.read == (open_ ? records_read() : read));
      CHECK(summary.epochs[epoch].shards >= shards_);
    }
    REQUIRE(summary.evaluations.size() == epochs_);
    for (const Evaluation& e : summary.evaluations) {
      CHECK(e.outputs[0].sums.weight == 1 + 2 + 4);
      CHECK(e.rankings.at(0).gauc == 0.5);  // of the three records, each once
    }
    CHECK(summary.epochs_sealed == epochs_);
    if (!ps_die_) CHECK(publications_ == epochs_);
  }

  /// Returns true if the last ps was asked to leave, so that the job ended with a checkpoint and
  /// without an account.
  bool stopped() const { return kind_ == Faults::kMoves && finish_ && finish_->code == 143; }
  uint64_t effects_hash() const { return hash_; }
  bool saw_expiry() const { return expiries_ > 0; }
  bool saw_repeat() const { return duplicate_parts_ > 0; }
  bool saw_revoked() const { return revoked_ > 0; }
  bool saw_lacking() const { return lacking_ > 0; }
  bool saw_restored() const { return restored_ > 0; }
  bool saw_claims() const { return claims_ > 0; }
  bool saw_rollback() const { return rollbacks_ > 0; }
  bool saw_moved() const { return moved_ > 0; }
  bool saw_cancelled() const { return cancelled_ > 0; }

 private:
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
    uint32_t term = 0;
    wire::View view;
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
  /// Returns how many copies of a message arrive.
  uint32_t copies() { return !faults_ ? 1 : rng_.below(25) == 0 ? 0 : rng_.below(25) == 0 ? 2 : 1; }

  void tick() {
    deliver([this](Effects& effects) { core_->on_tick(now_, effects); });
    after(50 * kMillisecond, [this] { tick(); });
  }

  void start_chief() {
    if (manifest_) {
      std::vector<std::vector<wire::ImageRef>> images;  // all whole
      for (const wire::ImageRef& image : manifest_->images) images.push_back({image});
      config_.resume = ResumeState{.checkpoint = manifest_->checkpoint,
                                   .folder = manifest_->folder,
                                   .images = std::move(images),
                                   .sealed_epochs = manifest_->sealed_epochs,
                                   .epochs = manifest_->epochs,
                                   .evaluations = manifest_->evaluations};
    }
    core_.emplace(config_);
    deliver([this](Effects& effects) { core_->on_start(now_, effects); });
  }
  void deliver(const std::function<void(Effects&)>& event) {
    if (finish_ || !core_) return;
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
        manifest_ = *publish;
        after(delay(), [this, id = publish->checkpoint] {
          if (config_.term != id.term) return;
          deliver([&](Effects& more) { core_->on_published(now_, id, {}, more); });
        });
      } else if (auto* line = std::get_if<AppendEvent>(&effect)) {
        lacking_ += line->line.find("\"round_lacking\"") != std::string::npos ? 1 : 0;
        restored_ += line->line.find("\"adopt\"") != std::string::npos && publications_ > 0;
        claims_ += line->line.find("\"place\",\"claimed\":") != std::string::npos &&
                   line->line.find("\"claimed\":0") == std::string::npos;
        moved_ += line->line.find("\"moved\"") != std::string::npos;
        cancelled_ += line->line.find("\"move_cancelled\"") != std::string::npos;
        rollbacks_ += line->line.find(
                          "is no longer complete at every partition, so its training continues") !=
                      std::string::npos;
        expiries_ += line->line.find("\"expired\"") != std::string::npos ? 1 : 0;
      } else if (auto* finish = std::get_if<Finish>(&effect)) {
        finish_ = std::move(*finish);
      }
    }
  }
  void to_chief(PeerKey peer, wire::Body body, uint64_t request = 0, ViewId view = {},
                const Bytes& values = {}) {
    wire::Message message = message_of(std::move(body), request, view);
    message.values = values;
    for (uint32_t n = copies(); n > 0; --n) {
      after(delay(), [this, peer, m = message] {
        deliver(
            [&](Effects& effects) { core_->on_message(now_, peer, wire::Message(m), effects); });
      });
    }
  }
  void to_peer(PeerKey peer, const wire::Message& m) {
    for (uint32_t i = 0; i < ps_.size(); ++i) {
      if (ps_[i].peer == peer && ps_[i].alive) return ps_message(i, m);
    }
    for (uint32_t i = 0; i < worker_count_; ++i) {
      if (workers_[i].peer == peer && workers_[i].alive) worker_message(i, m);
    }
    if (peer != input_peer(0)) return;
    if (std::holds_alternative<wire::Welcome>(m.body)) input_welcomed_ = m.envelope.view.term;
    if (std::holds_alternative<wire::Reject>(m.body)) input_welcomed_ = 0;
    if (const auto* view = std::get_if<wire::View>(&m.body)) input_view_ = view->id;
    if (std::holds_alternative<wire::Stop>(m.body)) {
      to_chief(peer, wire::Goodbye{.last = {.incarnation = input_incarnation(0)}}, 0, input_view_);
    }
  }

  // ---- ps

  void start_ps(uint32_t i) {
    ps_[i] = FakePs{.incarnation = Incarnation(1000 + ++incarnations_),
                    .peer = PeerKey(100'000 + incarnations_),
                    .alive = true};
    beat_ps(i, ps_[i].incarnation);
  }
  void beat_ps(uint32_t i, Incarnation incarnation) {
    FakePs& ps = ps_[i];
    if (!ps.alive || ps.incarnation != incarnation || ps.stopped) return;
    if (now_ >= ps.paused_until) {
      if (ps.welcomed) {
        to_chief(ps.peer, wire::Heartbeat{.incarnation = incarnation}, 0, ps.view.id);
        if (ps.leaving) to_chief(ps.peer, wire::Leave{incarnation}, 0, ps.view.id);
      } else {
        hello_ps(i);
      }
    }
    after(500 * kMillisecond, [this, i, incarnation] { beat_ps(i, incarnation); });
  }
  void hello_ps(uint32_t i) {
    wire::Hello hello = ps_hello(i);
    hello.incarnation = ps_[i].incarnation;
    for (const auto& [p, part] : ps_[i].parts)
      hello.claims.push_back({PartitionId(p), part.ownership_generation, part.sealed});
    to_chief(ps_[i].peer, hello, 0, ps_[i].view.id);
  }
  void ps_message(uint32_t i, const wire::Message& m) {
    FakePs& ps = ps_[i];
    if (now_ < ps.paused_until) {  // handled after the pause
      after(ps.paused_until - now_, [this, i, m, incarnation = ps.incarnation] {
        if (ps_[i].alive && ps_[i].incarnation == incarnation) ps_message(i, m);
      });
      return;
    }
    if (m.envelope.view.term < ps.term || ps.stopped) return;
    ps.term = m.envelope.view.term;
    if (std::holds_alternative<wire::Welcome>(m.body)) {
      ps.welcomed = true;
    } else if (std::holds_alternative<wire::Reject>(m.body)) {
      hello_ps(i);
    } else if (std::holds_alternative<wire::Refused>(m.body)) {
      kill_ps(i);
    } else if (const auto* adopt = std::get_if<wire::Adopt>(&m.body)) {
      if (adopt->ownership_generation > ps.view.id) ps.take_in(*adopt, saved_);
      to_chief(ps.peer, wire::Adopted{.ownership_generation = adopt->ownership_generation}, 0,
               ps.view.id);
    } else if (const auto* freeze = std::get_if<wire::Freeze>(&m.body)) {
      to_chief(ps.peer, ps.freeze(*freeze, saved_), 0, ps.view.id);
    } else if (const auto* view = std::get_if<wire::View>(&m.body)) {
      ps.take_view(*view);
    } else if (const auto* status = std::get_if<wire::StatusRequest>(&m.body)) {
      to_chief(ps.peer, ps.status(*status, [this](ShardId shard) { return counts_of(shard); }), 0,
               ps.view.id);
    } else if (const auto* save = std::get_if<wire::Save>(&m.body)) {
      wire::Saved saved{.checkpoint = save->checkpoint};
      for (const auto& [p, part] : ps.parts) {
        saved_[save->folder].try_emplace(p, part);
        saved.images.push_back({PartitionId(p), "f", 0, 1, 1});
      }
      to_chief(ps.peer, std::move(saved), 0, ps.view.id);
    } else if (const auto* sealed = std::get_if<wire::Sealed>(&m.body)) {
      for (auto& [p, part] : ps.parts) part.sealed = std::max(part.sealed, sealed->epochs);
    } else if (std::holds_alternative<wire::Stop>(m.body)) {
      ps.stopped = true;
      to_chief(ps.peer, wire::Goodbye{.last = {.incarnation = ps.incarnation}}, 0, ps.view.id);
      if (ps.leaving) ps.alive = false;
    }
  }
  /// Adds a ps that is asked to leave after a while.
  void visit(uint32_t i) {
    if (finish_ || ps_[i].alive) return;
    start_ps(i);
    after(int64_t(500 * kMillisecond + int64_t(rng_.below(uint64_t(5 * kSecond)))),
          [this, i, incarnation = ps_[i].incarnation] {
            if (ps_[i].incarnation == incarnation) ps_[i].leaving = true;
          });
  }
  void kill_ps(uint32_t i) {
    if (!ps_[i].alive || ps_[i].stopped) return;
    ps_[i].alive = false;
    // The next process comes at once, later, or too late: then other ps have the partitions.
    const int64_t away = int64_t(rng_.below(uint64_t(rng_.below(3) == 0 ? 16 * kSecond : kSecond)));
    if (i >= ps_count_) return;  // a guest does not return
    after(away, [this, i] {
      if (!finish_) start_ps(i);
    });
  }
  void strike_ps_or_chief() {
    if (finish_) return;
    auto i = uint32_t(rng_.below(ps_count_));
    for (uint32_t guest = ps_count_; guest < ps_.size(); ++guest) {
      if (ps_[guest].alive && rng_.below(2) == 0) i = guest;
    }
    switch (rng_.below(4)) {
      case 0:
        if (ps_[i].alive) ps_[i].paused_until = now_ + int64_t(rng_.below(uint64_t(14 * kSecond)));
        return;
      case 1:
        if (!core_) return;
        core_.reset();
        ++config_.term;
        return after(int64_t(rng_.below(uint64_t(4 * kSecond))), [this] { start_chief(); });
      default:
        return kill_ps(i);
    }
  }
  /// Returns the number of batches; 0 for pieces after the end of an open stream.
  uint32_t batches_in(ShardId shard) const {
    return open_ && shard.shard >= shards_ ? 0 : batches_of(shard);
  }
  bool has_empty_epoch() const {
    for (uint32_t epoch = 0; epoch < epochs_; ++epoch) {
      uint32_t batches = 0;
      for (uint32_t shard = 0; shard < shards_; ++shard) batches += batches_in({epoch, shard});
      if (batches == 0) return true;
    }
    return false;
  }
  /// Returns the records of an open stream: 100 per piece, except in the last one. Some are
  /// filtered.
  uint64_t records_read() const { return 100 * (shards_ - 1) + (last_is_full_ ? 100 : 30); }
  /// Returns the piece that reports the end of the stream.
  uint32_t last_read() const { return last_is_full_ ? shards_ : shards_ - 1; }
  wire::ShardCounts counts_of(ShardId shard) const {
    if (open_) {
      const uint64_t begin = std::min(uint64_t{100} * shard.shard, records_read());
      const uint64_t end = std::min(begin + 100, records_read());
      const uint32_t batches = batches_in(shard);
      return {.batches = batches,
              .read = end - begin,
              .applied = 10 * batches,
              .filtered = end - begin - 10 * batches,
              .first_offset = shard.shard > last_read() ? plan::kOpenEnd : begin,
              .end_offset = shard.shard >= last_read() ? plan::kOpenEnd : end};
    }
    const uint64_t begin = 100ULL * plan::order_at(seed_, shard.epoch, shards_, shard.shard);
    const uint32_t batches = batches_of(shard);
    return {.batches = batches,
            .read = 10 * batches,
            .applied = 10 * batches,
            .first_offset = begin,
            .end_offset = begin + 100};
  }

  /// Runs an input process that reads for the workers until the job ends.
  void beat_input() {
    if (input_welcomed_ == config_.term) {
      to_chief(input_peer(0), wire::Heartbeat{.incarnation = input_incarnation(0)}, 0, input_view_);
    } else {
      to_chief(input_peer(0), input_hello(0));
    }
    after(500 * kMillisecond, [this] { beat_input(); });
  }

  // ---- workers

  void start_worker(uint32_t i);
  bool is(uint32_t i, Incarnation incarnation) const;
  void beat(uint32_t i, Incarnation incarnation);
  void hello_worker(uint32_t i);
  /// Runs one step of a worker, every few milliseconds.
  void step(uint32_t i, Incarnation incarnation);
  /// Delivers one part to one partition, and sends the reply.
  void push(uint32_t i, Incarnation incarnation, uint32_t p, Incarnation to, ViewId view,
            ShardId id, uint32_t batch, bool end);
  void pushed(uint32_t i, Incarnation incarnation, uint32_t p, ShardId id, uint32_t watermark);
  void worker_message(uint32_t i, const wire::Message& m);
  /// Kills a worker and starts another one, at once or later. Or pauses the worker, while its
  /// messages wait.
  void strike();

  Rng rng_;
  Faults kind_;
  bool faults_, ps_die_;
  uint32_t shards_, epochs_ = 1, ps_count_ = 1, worker_count_ = 1;
  bool open_ = false, last_is_full_ = false;
  uint32_t input_welcomed_ = 0;  // term of the chief that welcomed it
  ViewId input_view_;
  uint64_t seed_ = 1;
  ChiefConfig config_;
  std::optional<ChiefCore> core_;            // none while the chief is dead
  std::optional<PublishManifest> manifest_;  // the newest one
  SavedParts saved_;                         // by folder and partition
  std::priority_queue<TimedEvent> queue_;
  int64_t now_ = 0;
  uint64_t order_ = 0, incarnations_ = 0, hash_ = 0;
  std::optional<Finish> finish_;
  std::vector<FakePs> ps_;
  std::vector<Worker> workers_;
  uint32_t publications_ = 0;
  uint64_t expiries_ = 0, lacking_ = 0, duplicate_parts_ = 0, revoked_ = 0;
  uint64_t restored_ = 0, claims_ = 0, rollbacks_ = 0, moved_ = 0, cancelled_ = 0;
};

}  // namespace downpour::chief
