// Runs tests/scenarios/chief_*.txt: commands, each followed by its exact effects. With
// DP_REGENERATE=1 in the environment it rewrites the files.
#include <algorithm>
#include <sstream>

#include <catch2/catch.hpp>

#include "tests/chief/core/chief_harness.h"
#include "tests/support/scenarios.h"

namespace downpour::chief {
namespace {

/// A command: words, and key=value pairs ("_" stands for a space in a value).
struct Command {
  std::vector<std::string> words;
  std::map<std::string, std::string> values;

  explicit Command(const std::string& line) {
    std::istringstream in(line);
    for (std::string word; in >> word;) {
      const size_t equals = word.find('=');
      if (equals == std::string::npos) {
        words.push_back(word);
        continue;
      }
      std::string value = word.substr(equals + 1);
      std::replace(value.begin(), value.end(), '_', ' ');
      values[word.substr(0, equals)] = value;
    }
  }
  const std::string& word(size_t i) const {
    static const std::string kNone;
    return i < words.size() ? words[i] : kNone;
  }
  bool has(const std::string& flag) const {
    return std::count(words.begin(), words.end(), flag) > 0;
  }
  std::string text(const std::string& key, const std::string& fallback = {}) const {
    const auto it = values.find(key);
    return it == values.end() ? fallback : it->second;
  }
  uint64_t number(const std::string& key, uint64_t fallback = 0) const {
    const auto it = values.find(key);
    return it == values.end() ? fallback : std::stoull(it->second);
  }
};

/// Runs the commands of one file against one core.
class Story {
 public:
  /// Runs "TIME ACTOR VERB ..." or "config ...". Returns the effects as text.
  std::string run(const std::string& line) {
    const Command c(line);
    if (c.word(0) == "config") {
      configure(c);
      return {};
    }
    if (!core_) core_.emplace(config_);
    Effects effects;
    const int64_t now = std::stoll(c.word(0)) * kMillisecond;
    const std::string& actor = c.word(1);
    if (actor == "start")
      core_->on_start(now, effects);
    else if (actor == "tick")
      core_->on_tick(now, effects);
    else if (actor == "stop")
      core_->request_stop(now, int(c.number("signal", 2)), effects);
    else if (actor == "published")
      core_->on_published(now, checkpoint_, publish_result(c), effects);
    else if (actor == "newer")
      core_->on_newer_term(now, uint32_t(c.number("term")), effects);
    else if (actor == "older")
      core_->on_older(now, older(c), effects);
    else if (actor == "gone")
      core_->on_peer_gone(now, ps_peer(uint32_t(c.number("ps"))), effects);
    else
      message(now, actor, c, effects);
    remember(effects);
    return to_text(effects, with_events_);
  }

 private:
  void configure(const Command& c) {
    config_ = small_config(uint32_t(c.number("shards", 2)), uint32_t(c.number("ps", 1)));
    config_.workers_expected = uint32_t(c.number("workers", 1));
    config_.job.train.epochs = uint32_t(c.number("epochs", 1));
    config_.job.train.steps = c.number("steps", 0);
    if (config_.job.train.steps > 0) config_.job.train.epochs = kEpochsMax;
    config_.job.eval.early_stop.patience = uint32_t(c.number("patience", 0));
    config_.job.eval.keep_best = c.has("keep_best");
    if (c.has("groups")) config_.job.eval.group_by = "user";
    if (c.values.contains("plateau")) {
      config_.job.optimizer.schedule = {.type = ScheduleType::kPlateau,
                                        .factor = 0.5F,
                                        .patience = uint32_t(c.number("plateau")),
                                        .min = 0.25F};
    }
    config_.job.train.quarantine = c.has("quarantine");
    if (c.values.contains("staleness")) {
      config_.job.train.mode = TrainMode::kBounded;
      config_.job.train.staleness = c.number("staleness");
    }
    if (c.values.contains("replicas")) {
      config_.job.train.mode = TrainMode::kSync;
      config_.job.train.replicas = uint32_t(c.number("replicas"));
    }
    if (c.has("skip_nan")) config_.job.train.on_nan = "skip";
    config_.job.data.bad_records_max = c.number("bad_records_max", 0);
    config_.job.train.checkpoint.every = {
        .ns = int64_t(c.number("every_ms", 600'000)) * kMillisecond,
        .steps = c.number("every_steps", 0)};
    if (c.number("eval_shards") > 0) {
      config_.eval_files = {
          {.path = "/data/test.csv", .bytes = 100 * c.number("eval_shards"), .fingerprint = 2}};
    }
    if (c.text("mode") == "eval") config_.mode = wire::Purpose::kEval;
    if (c.text("mode") == "predict") config_.mode = wire::Purpose::kPredict;
    if (c.has("resume")) {
      ResumeState resume = state({1, 4}, c);
      config_.term = 2;
      config_.resume = std::move(resume);
    }
    config_.job.train.checkpoint.incremental = c.has("incremental");
    config_.job.train.checkpoint.full_every = uint32_t(c.number("full_every", 10));
    config_.job.train.checkpoint.fall_back = !c.has("no_fall_back");
    config_.new_plan = c.has("new_plan");
    if (c.has("moves")) config_.moves_folder = "/run/moves";
    config_.job.cluster.rebalance = !c.has("even");
    config_.local = c.has("local");
    config_.late_wait_ns = int64_t(c.number("late_ms")) * kMillisecond;
    with_events_ = c.has("events");
  }

  static ResumeState state(ViewId checkpoint, const Command& c) {
    ResumeState state{.checkpoint = checkpoint,
                      .folder = str("/run/checkpoints/", checkpoint.term, "-", checkpoint.n)};
    state.sealed_epochs = uint32_t(c.number("sealed", 0));
    if (!c.text("written").empty()) {
      state.ownership_generations.assign(4, parse_view(c.text("written")));
      state.given = parse_view(c.text("given"));
    }
    for (uint32_t p = 0; p < 4; ++p)
      state.images.push_back({{PartitionId(p), "ps-0", 10 * p, 10, 1, 0, checkpoint}});
    return state;
  }
  static Result<ResumeState> older(const Command& c) {
    if (!c.text("error").empty()) return Error{ErrorCode::kNoInput, c.text("error")};
    return state(parse_view(c.text("id")), c);
  }

  static Result<void> publish_result(const Command& c) {
    if (c.text("error").empty()) return {};
    return Error{ErrorCode::kIo, c.text("error")};
  }

  void message(int64_t now, const std::string& actor, const Command& c, Effects& effects) {
    const bool ps = actor.starts_with("ps"), input = actor.starts_with("input");
    const auto i = uint32_t(std::stoul(actor.substr(actor.find_first_of("0123456789"))));
    if (c.word(2) == "ended" && c.values.contains("pid")) {
      return core_->on_process_ended(now,
                                     {ps      ? wire::Role::kPs
                                      : input ? wire::Role::kInput
                                              : wire::Role::kWorker,
                                      i, uint32_t(c.number("pid")), int(c.number("signal"))},
                                     effects);
    }
    const PeerKey peer = c.values.contains("peer") ? PeerKey(c.number("peer"))
                         : ps                      ? ps_peer(i)
                         : input                   ? input_peer(i)
                                                   : worker_peer(i);
    wire::Message m = message_of(ps      ? ps_body(i, c)
                                 : input ? input_body(i, c)
                                         : worker_body(i, c),
                                 c.number("id"));
    m.envelope.run = c.number("run", kTestRun);
    m.envelope.view.term = uint32_t(c.number("term"));
    // Heartbeats come from members that know the newest view, unless the command has view=N.
    if (std::holds_alternative<wire::Heartbeat>(m.body) ||
        std::holds_alternative<wire::Staged>(m.body) ||
        std::holds_alternative<wire::Committed>(m.body) ||
        (std::holds_alternative<wire::ShardProgress>(m.body) && c.values.contains("view")))
      m.envelope.view = {uint32_t(c.number("term", 1)), uint32_t(c.number("view", UINT32_MAX))};
    if (c.word(2) == "grouped") m.values = Bytes::of(std::vector<float>(4 * c.number("records")));
    if (c.word(2) == "predict") m.values = Bytes::of(std::vector<float>(c.number("records")));
    core_->on_message(now, peer, std::move(m), effects);
  }

  static wire::Hello changed(wire::Hello hello, const Command& c) {
    hello.index = uint32_t(c.number("index", hello.index));
    hello.incarnation = Incarnation(c.number("inc", raw(hello.incarnation)));
    hello.build = c.text("build", hello.build);
    hello.plan_hash = c.number("plan");
    hello.holds_unsealed = c.has("unsealed");
    std::istringstream claims(c.text("claims"));  // "0-2@1.7": [0, 2) with generation 1.7
    for (std::string range; std::getline(claims, range, ',');) {
      const auto end = uint32_t(std::stoul(range.substr(range.find('-') + 1)));
      for (auto p = uint32_t(std::stoul(range)); p < end; ++p) {
        hello.claims.push_back({PartitionId(p), parse_view(range.substr(range.find('@') + 1)),
                                uint32_t(c.number("sealed"))});
      }
    }
    return hello;
  }
  static ViewId parse_view(const std::string& text) {
    return {uint32_t(std::stoul(text)), uint32_t(std::stoul(text.substr(text.find('.') + 1)))};
  }
  static BatchId parse_batch(const std::string& text) {
    BatchId batch;
    char slash = 0;
    std::istringstream(text) >> batch.epoch >> slash >> batch.shard >> slash >> batch.batch;
    return batch;
  }
  static wire::ShardCounts counts_of(const Command& c) {
    const uint64_t read = c.number("read"), skipped = c.number("skipped"),
                   dropped = c.number("dropped"), quarantined = c.number("quarantined");
    return {.batches = uint32_t(c.number("batches", (read + 9) / 10)),
            .read = read,
            .applied = c.number("applied", read - skipped - dropped - quarantined),
            .skipped = skipped,
            .dropped = dropped,
            .quarantined = quarantined};
  }

  wire::Body ps_body(uint32_t i, const Command& c) {
    const std::string& verb = c.word(2);
    if (verb == "hello") return changed(ps_hello(i), c);
    if (verb == "adopted") {
      return wire::Adopted{.ownership_generation = ownership_generations_[i],
                           .ok = c.text("error").empty(),
                           .error = c.text("error"),
                           .code = c.has("damaged") ? ErrorCode::kBadData : ErrorCode::kConfig};
    }
    if (verb == "status") return status(i, c);
    if (verb == "saved") {
      wire::Saved saved{.checkpoint = checkpoint_,
                        .ok = c.text("error").empty(),
                        .error = c.text("error"),
                        .rows = 7,
                        .beyond_partial_epoch = c.has("beyond"),
                        .sealed_epochs = uint32_t(c.number("sealed"))};
      for (uint32_t p = 0; p < view_.partitions.size(); ++p) {
        if (view_.owners[view_.partitions[p].owner].index != i) continue;
        saved.images.push_back({PartitionId(p), c.text("file", str("ps-", i)), 0, 10,
                                c.number("sum", 1), c.number("base")});
      }
      return saved;
    }
    if (verb == "staged") {
      wire::Staged staged{.step = c.number("step"), .parts = {}};
      // "0:0/0/3,1:0/1/3": batches of replicas 0 and 1
      std::istringstream parts(c.text("parts", str("0:0/0/", c.number("batch"))));
      for (std::string part; std::getline(parts, part, ',');) {
        staged.parts.push_back(
            {uint32_t(std::stoul(part)), parse_batch(part.substr(part.find(':') + 1))});
      }
      return staged;
    }
    if (verb == "committed") return wire::Committed{c.number("step")};
    if (verb == "goodbye") return wire::Goodbye{};
    if (verb == "leaves") return leave(ps_incarnation(i), c);
    if (verb == "frozen") {
      wire::Frozen frozen{.ownership_generation = freeze_.ownership_generation,
                          .ok = c.text("error").empty(),
                          .error = c.text("error")};
      for (const PartitionId p : freeze_.partitions) frozen.images.push_back({p, "move", 0, 10, 1});
      return frozen;
    }
    REQUIRE(verb == "heartbeat");
    wire::Heartbeat heartbeat{.incarnation = ps_incarnation(i)};
    heartbeat.load_ns = int64_t(c.number("busy", 0) > 0) * kSecond;
    heartbeat.busy_ns = c.number("busy") * uint64_t(kSecond) / 100;
    std::istringstream rows(c.text("rows"));  // "0:100,1:50": rows of partitions 0 and 1
    for (std::string load; std::getline(rows, load, ',');) {
      heartbeat.loads.push_back({PartitionId(uint32_t(std::stoul(load))),
                                 std::stoul(load.substr(load.find(':') + 1)), 0});
    }
    return heartbeat;
  }

  wire::Body status(uint32_t i, const Command& c) {
    wire::StatusReply reply{.round = c.number("round"),
                            .epoch = uint32_t(c.number("epoch")),
                            .view = c.text("view").empty() ? view_.id : parse_view(c.text("view")),
                            .failure = c.text("failure")};
    std::istringstream ended(c.text("ended"));
    uint32_t n = 0;
    for (std::string interval; std::getline(ended, interval, ',');) {
      reply.ended.push_back({uint32_t(std::stoul(interval)),
                             uint32_t(std::stoul(interval.substr(interval.find('-') + 1)))});
      n += reply.ended.back().end - reply.ended.back().begin;
    }
    if (c.values.contains("open")) {
      const std::string open = c.text("open");
      reply.open.push_back(
          {uint32_t(std::stoul(open)), uint32_t(std::stoul(open.substr(open.find(':') + 1)))});
    }
    reply.begun = reply.ended;
    for (const wire::ShardWatermark& open : reply.open)
      reply.begun.push_back({open.shard, open.shard + 1});
    std::sort(reply.begun.begin(), reply.begun.end(),
              [](const wire::Interval& a, const wire::Interval& b) { return a.begin < b.begin; });
    for (uint32_t p = 0; p < view_.partitions.size(); ++p) {
      const wire::Placement& placement = view_.partitions[p];
      if (view_.owners[placement.owner].index != i) continue;
      reply.partitions.push_back({.partition = PartitionId(p),
                                  .ownership_generation = placement.ownership_generation,
                                  .shards_ended = n,
                                  .counts = counts_of(c)});
    }
    std::istringstream lines(c.text("lines"));  // "0/1/2,0/1/3:had,0/1/4:withdrawn"
    for (std::string line; std::getline(lines, line, ',');) {
      reply.markers.push_back({parse_batch(line), line.ends_with(":withdrawn"),
                               line.ends_with(":had"), line.ends_with(":passed")});
    }
    reply.metrics = {{.weight = double(c.number("weight")), .loss = double(c.number("loss"))}};
    return reply;
  }

  static wire::Body leave(Incarnation incarnation, const Command& c) {
    return wire::Leave{incarnation, uint32_t(c.number("signal"))};
  }

  static wire::Body input_body(uint32_t i, const Command& c) {
    const std::string& verb = c.word(2);
    if (verb == "hello") return changed(input_hello(i), c);
    if (verb == "goodbye") return wire::Goodbye{};
    if (verb == "leaves") return leave(input_incarnation(i), c);
    if (verb == "wants") return wire::LeaseRequest{.wanted = 1};
    if (verb == "adopted") return wire::Adopted{};
    REQUIRE(verb == "heartbeat");
    return wire::Heartbeat{.incarnation = Incarnation(c.number("inc", raw(input_incarnation(i))))};
  }

  wire::Body worker_body(uint32_t i, const Command& c) const {
    const std::string& verb = c.word(2);
    if (verb == "hello") return changed(worker_hello(i), c);
    if (verb == "wants") return wire::LeaseRequest{.wanted = uint32_t(std::stoul(c.word(3)))};
    if (verb == "goodbye") return wire::Goodbye{};
    if (verb == "leaves") return leave(worker_incarnation(i), c);
    if (verb == "heartbeat") return wire::Heartbeat{.incarnation = worker_incarnation(i)};
    if (verb == "clock") return wire::Clock{.batches = std::stoul(c.word(3))};
    wire::Lease lease{.shard = {uint32_t(c.number("epoch")), uint32_t(c.number("shard"))},
                      .attempt = uint32_t(c.number("attempt", 1)),
                      .evaluation = uint32_t(c.number("evaluation"))};
    const OutputMetrics output{
        .sums = {.weight = double(c.number("weight")), .loss = double(c.number("loss"))}};
    if (verb == "progress" || verb == "ended") {
      wire::ShardCounts counts = counts_of(c);
      const auto shards = uint32_t(config_.train_files[0].bytes / 100);
      if (lease.shard.shard < shards) {
        counts.first_offset =
            100 * plan::order_at(config_.job.seed, lease.shard.epoch, shards, lease.shard.shard);
        counts.end_offset = counts.first_offset + 100;
      }
      return wire::ShardProgress{
          .lease = lease,
          .batches_acked = uint32_t(c.number("acked")),
          .ended = verb == "ended",
          .counts = verb == "ended" || c.has("at_end") ? counts : wire::ShardCounts{},
          .bytes_done = c.number("bytes")};
    }
    if (verb == "failed") {
      const ErrorCode code = c.text("code") == "data"          ? ErrorCode::kBadData
                             : c.text("code") == "interrupted" ? ErrorCode::kInterrupted
                                                               : ErrorCode::kIo;
      const auto kind = c.has("record")    ? wire::FailureKind::kRecord
                        : c.has("nan")     ? wire::FailureKind::kNotFinite
                        : c.has("givenup") ? wire::FailureKind::kMarkersDiffer
                                           : wire::FailureKind::kOther;
      std::istringstream without(c.text("without"));
      for (std::string batch; std::getline(without, batch, ',');)
        lease.quarantined_batches.push_back(uint32_t(std::stoul(batch)));
      return wire::ShardFailed{.lease = lease,
                               .batch = uint32_t(c.number("batch")),
                               .code = code,
                               .what = c.text("what"),
                               .where = c.text("where"),
                               .kind = kind};
    }
    if (verb == "evaluated") {
      lease.purpose = wire::Purpose::kEval;
      wire::EvalReport report{.lease = lease, .counts = counts_of(c), .outputs = {}};
      if (!c.has("no_outputs")) report.outputs = {output};
      return report;
    }
    REQUIRE((verb == "predict" || verb == "grouped"));
    lease.purpose = verb == "grouped" ? wire::Purpose::kEval : wire::Purpose::kPredict;
    return wire::PredictReport{.lease = lease,
                               .batch = uint32_t(c.number("batch")),
                               .records = uint32_t(c.number("records")),
                               .ended = c.has("ended")};
  }

  void remember(const Effects& effects) {
    for (const auto& [peer, adopt] : sent<wire::Adopt>(effects))
      ownership_generations_[uint32_t(raw(peer) - 100) % 10] =
          adopt.ownership_generation;  // ps 1 returns as peer 111
    for (const auto& [peer, view] : sent<wire::View>(effects)) view_ = view;
    for (const auto& [peer, freeze] : sent<wire::Freeze>(effects)) freeze_ = freeze;
    for (const auto& [peer, save] : sent<wire::Save>(effects)) checkpoint_ = save.checkpoint;
  }

  ChiefConfig config_ = small_config(2);
  bool with_events_ = false;
  std::optional<ChiefCore> core_;
  wire::View view_;
  ViewId checkpoint_;
  wire::Freeze freeze_;
  std::map<uint32_t, ViewId> ownership_generations_;  // by ps, as in its newest Adopt
};

TEST_CASE("every chief scenario has the expected effects", "[chief][core][scenario]") {
  testing::check_scenarios<Story>("chief_");
}

}  // namespace
}  // namespace downpour::chief
