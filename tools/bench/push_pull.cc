// Measures pushes and pulls between a client and one ps process with the real core and transport,
// sparse and dense, over tcp and ipc.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ps/core/ps_core.h"
#include "shared/base/check.h"
#include "shared/base/rng.h"
#include "shared/base/str.h"
#include "shared/env/clock.h"
#include "shared/transport/outbox.h"
#include "shared/transport/reactor.h"
#include "tools/bench/bench.h"
#include "tools/bench/measure.h"
#include "tools/bench/raw_link.h"
#include "worker/core/pull_plan.h"

namespace downpour::tools {
namespace {

constexpr uint32_t kPartitionBits = 8;
constexpr uint64_t kPairRun = 7;
constexpr Incarnation kPsIncarnation{1};
constexpr Incarnation kWorkerIncarnation{2};
constexpr ViewId kView{1, 1};
constexpr uint32_t kKeySets = 4;
constexpr uint64_t kReplyBytes = 160;  // approximate size of a PushReply

wire::View view_of(const std::string& endpoint) {
  wire::View view{.id = kView,
                  .owners = {{.incarnation = kPsIncarnation, .endpoint = endpoint}},
                  .partitions = {}};
  view.partitions.assign(1U << kPartitionBits, {.owner = 0, .ownership_generation = kView});
  return view;
}

/// A ps without a chief, which owns every partition from the start. It handles a push or pull like
/// PsNode.
class LonePs final : public transport::Node {
 public:
  LonePs(transport::Transport& transport, const std::vector<TableSpec>& tables)
      : transport_(transport), outbox_(transport), core_(config_of(tables)) {}

  Result<std::string> start(const std::string& endpoint) {
    DP_TRY(port_, transport_.bind(endpoint));
    const std::string bound = transport_.endpoint(port_);
    wire::Adopt adopt{.ownership_generation = kView};
    for (uint32_t p = 0; p < 1U << kPartitionBits; ++p) adopt.partitions.push_back(PartitionId{p});
    from_chief(std::move(adopt));
    from_chief(view_of(bound));
    return bound;
  }
  bool owns(transport::PortId port) const override { return port == port_; }
  void on_message(int64_t now_ns, transport::PortId, transport::PeerId peer,
                  wire::Message&& message) override {
    core_.on_message(now_ns, raw(peer) + 1, message, effects_);
    for (ps::Send& send : effects_.sends) outbox_.send(peer, std::move(send.message));
    effects_.clear();
  }
  void on_malformed(int64_t, transport::PortId, transport::PeerId, const Error&) override {}
  bool pump(int64_t now_ns) override {
    outbox_.flush();
    core_.on_tick(now_ns, effects_);
    effects_.clear();  // drop the heartbeats, because there is no chief
    return false;
  }
  int64_t next_deadline_ns() const override { return outbox_.empty() ? INT64_MAX : 0; }
  bool finished() const override { return false; }

 private:
  static ps::PsConfig config_of(const std::vector<TableSpec>& tables) {
    ps::PsConfig config;
    config.incarnation = kPsIncarnation;
    config.run = kPairRun;
    config.tables = tables;
    config.partition_bits = kPartitionBits;
    config.limits.handle_age_ns_max = INT64_MAX;  // the client does not send the keys again
    return config;
  }
  void from_chief(wire::Body body) {
    wire::Message message;
    message.envelope = {.run = kPairRun, .view = kView, .request = RequestId{1}};
    message.body = std::move(body);
    core_.on_message(0, ps::kChiefPeer, message, effects_);
    effects_.clear();
  }

  transport::Transport& transport_;
  transport::Outbox outbox_;
  transport::PortId port_{};
  ps::PsCore core_;
  ps::Effects effects_;
};

void serve(const std::vector<TableSpec>& tables, const std::string& endpoint,
           const Child::Tell& tell) {
  transport::tune_malloc_for_frames();
  const auto transport = transport::make_zmq_transport();
  LonePs ps(*transport, tables);
  const auto bound = ps.start(endpoint);
  DP_CHECK(bound.has_value(), bound.error().what);
  tell(*bound);
  const PosixClock clock;
  transport::Reactor reactor(*transport, clock);
  reactor.add(ps);
  reactor.run();
}

enum class Phase : uint8_t {
  kPush,      // a push with keys
  kPull,      // a pull that keeps a handle, as in training
  kPullPush,  // a pull, and after all of its replies a push by handle
};

/// Sends batches to a ps and receives the replies, with several batches in flight. The messages of
/// each key set (its pull plan) are made in advance.
class Client {
 public:
  Client(const std::string& endpoint, const std::vector<TableSpec>& tables,
         const std::vector<std::vector<uint64_t>>& key_sets)
      : transport_(transport::make_zmq_transport()), outbox_(*transport_) {
    auto peer = transport_->connect(endpoint);
    DP_CHECK(peer.has_value(), peer.error().what);
    peer_ = *peer;
    const auto placements = worker::Placements::of(view_of(endpoint));
    for (const std::vector<uint64_t>& keys : key_sets) {
      Batch batch;
      if (!keys.empty()) batch.tables = {{.table = TableId{0}, .keys = keys}};
      plans_.push_back(worker::make_pull_plan(tables, placements, wire::kFrameBytesMax, batch));
      uint64_t bytes = 0;
      for (const worker::PartMessage& message : plans_.back().messages)
        bytes += message.value_bytes;
      value_bytes_ = std::max(value_bytes_, bytes);
    }
    // Buffers for the values of a whole batch, as a worker's kernels read and write them.
    gradients_ = Bytes::of(std::vector<float>(value_bytes_ / sizeof(float), 1e-3F));
    values_.resize(value_bytes_);
    receiver_.on_message = [this](transport::PortId, transport::PeerId, wire::Message&& message) {
      on_reply(message);
    };
    receiver_.on_malformed = [](transport::PortId, transport::PeerId, const Error& error) {
      DP_CHECK(false, error.what);
    };
  }

  /// Processes `batches` batches and returns the seconds. When it returns, every part of every push
  /// has been applied.
  double seconds(Phase phase, uint32_t batches, uint32_t window) {
    phase_ = phase;
    done_ = 0;
    const double begin = heard_s_ = wall_seconds();
    for (uint32_t started = 0; done_ < batches;) {
      for (; started < batches && started - done_ < window; ++started) start(started);
      outbox_.flush();
      transport_->poll(kSecond, 64, receiver_);
      DP_CHECK(wall_seconds() - heard_s_ < 60, done_, batches);  // the ps has died
    }
    DP_CHECK(pending_.empty());
    return wall_seconds() - begin;
  }

  const worker::PullPlan& plan() const { return plans_[0]; }
  uint64_t value_bytes() const { return value_bytes_; }

 private:
  struct InFlight {
    uint32_t set = 0;
    size_t replies_missing = 0;
    std::vector<RequestId> pulls;
  };
  struct Pending {
    RequestId request{};
    std::shared_ptr<InFlight> batch;
    size_t message = 0;
    uint64_t at = 0;  // offset of its values in the batch's values
  };

  void start(uint32_t number) {
    auto batch = std::make_shared<InFlight>();
    batch->set = uint32_t(number % plans_.size());
    phase_ == Phase::kPush ? push(batch) : pull(batch);
  }

  /// Sends a message to each owner. `fill(message, part, at)` sets its body; the values of the part
  /// are at `at` in those of the batch.
  template <typename Fill>
  void send_parts(const std::shared_ptr<InFlight>& batch, Fill&& fill) {
    const auto& parts = plans_[batch->set].messages;
    batch->replies_missing = parts.size();
    uint64_t at = 0;
    for (size_t m = 0; m < parts.size(); ++m) {
      wire::Message message = open(batch, m, at);
      fill(message, m, at);
      outbox_.send(peer_, std::move(message), transport::Outbox::kRequestBytesMax);
      at += parts[m].value_bytes;
    }
  }

  void pull(const std::shared_ptr<InFlight>& batch) {
    send_parts(batch, [&](wire::Message& message, size_t m, uint64_t) {
      const auto& part = plans_[batch->set].messages[m];
      batch->pulls.push_back(message.envelope.request);
      message.body = wire::Pull{.worker = kWorkerIncarnation,
                                .keep_handle = phase_ == Phase::kPullPush,
                                .sections = part.wire_sections()};
      message.keys = part.keys;
    });
  }

  void push(const std::shared_ptr<InFlight>& batch) {
    send_parts(batch, [&](wire::Message& message, size_t m, uint64_t at) {
      const auto& part = plans_[batch->set].messages[m];
      wire::Push push{.worker = kWorkerIncarnation,
                      .batch = {0, 0, next_batch_},
                      .records = 1,
                      .covered = part.covered,
                      .sections = part.wire_sections()};
      push.fragment = part.fragment;
      push.fragments = part.fragments;
      if (batch->pulls.empty()) {
        message.keys = part.keys;
      } else {
        push.handle = batch->pulls[m];
      }
      message.body = std::move(push);
      message.values = gradients_.slice(at, part.value_bytes);
    });
    ++next_batch_;
  }

  wire::Message open(const std::shared_ptr<InFlight>& batch, size_t m, uint64_t at) {
    wire::Message message;
    message.envelope = {.run = kPairRun, .view = kView, .request = RequestId{++last_request_}};
    pending_.push_back({message.envelope.request, batch, m, at});
    return message;
  }

  void on_reply(const wire::Message& message) {
    DP_CHECK(!pending_.empty());
    const Pending pending = std::move(pending_.front());  // one core answers in order
    pending_.pop_front();
    DP_CHECK(message.envelope.request == pending.request, raw(message.envelope.request),
             raw(pending.request));
    heard_s_ = wall_seconds();
    const auto* const pulled = std::get_if<wire::PullReply>(&message.body);
    if (pulled != nullptr) {
      DP_CHECK(pulled->status == wire::PullStatus::kOk, int(pulled->status));
      std::memcpy(values_.data() + pending.at, message.values.data(), message.values.size());
    } else {
      const auto* const pushed = std::get_if<wire::PushReply>(&message.body);
      DP_CHECK(pushed != nullptr, message.body.index());
      const bool whole = plans_[pending.batch->set].messages[pending.message].fragments == 1;
      DP_CHECK(!whole || pushed->others.empty(), int(pushed->others[0].status));
    }
    if (--pending.batch->replies_missing > 0) return;
    if (pulled != nullptr && phase_ == Phase::kPullPush) return push(pending.batch);
    ++done_;
  }

  std::unique_ptr<transport::Transport> transport_;
  transport::Outbox outbox_;
  transport::PeerId peer_{};
  transport::Receiver receiver_;
  std::vector<worker::PullPlan> plans_;
  uint64_t value_bytes_ = 0;
  Bytes gradients_;
  std::vector<uint8_t> values_;
  Phase phase_ = Phase::kPush;
  std::deque<Pending> pending_;
  uint64_t last_request_ = 0;
  uint32_t next_batch_ = 0;
  uint32_t done_ = 0;
  double heard_s_ = 0;
};

std::vector<RawExchange> raw_of(const worker::PullPlan& plan, Phase phase) {
  std::vector<RawExchange> out;
  for (const worker::PartMessage& message : plan.messages) {
    const uint64_t keys = message.keys.size();
    if (phase == Phase::kPush) out.push_back({keys + message.value_bytes, kReplyBytes});
    if (phase == Phase::kPull) out.push_back({keys, message.value_bytes});
    if (phase == Phase::kPullPush) {
      out.push_back({keys, message.value_bytes});
      out.push_back({message.value_bytes, kReplyBytes});
    }
  }
  return out;
}

struct Case {
  std::string name;
  uint32_t keys = 0;  // 0: dense
  uint32_t batches = 0;
  uint32_t window = 0;
  uint32_t rounds = 1;
};

std::vector<TableSpec> tables_of(const Case& c) {
  VariableSpec variable{.name = "v"};
  variable.optimizer = {.type = OptimizerType::kSgd, .learning_rate = 0.01F};
  if (c.keys > 0) {
    variable.dim = 16;
    return {{.name = "rows", .kind = TableKind::kEmbedding, .table_variables = {variable}}};
  }
  variable.shape = {uint32_t(wire::kFrameBytesMax / sizeof(float))};
  return {{.name = "dense", .kind = TableKind::kDense, .table_variables = {variable}}};
}

std::vector<std::vector<uint64_t>> key_sets_of(const Case& c, uint64_t seed) {
  if (c.keys == 0) return {{}};
  std::vector<std::vector<uint64_t>> sets(kKeySets);
  uint64_t next = seed << 32;
  for (auto& set : sets) {
    for (uint32_t i = 0; i < c.keys; ++i) set.push_back(mix64(next++));
  }
  return sets;
}

void bench_case(const Case& c, bool tcp, const BenchOptions& options,
                std::vector<BenchResult>& results) {
  const ScratchDir scratch;
  const std::vector<TableSpec> tables = tables_of(c);
  const auto key_sets = key_sets_of(c, options.seed);
  // Fork both processes before this process has other threads.
  const std::string endpoint = tcp ? "tcp://127.0.0.1:*" : "ipc://" + scratch.path() + "/ps";
  const Child ps([&](const Child::Tell& tell) { serve(tables, endpoint, tell); });
  DP_CHECK(!ps.told().empty());
  RawLink raw(tcp ? RawLink::Kind::kTcp : RawLink::Kind::kUnix);
  Client client(ps.told(), tables, key_sets);
  client.seconds(Phase::kPush, uint32_t(key_sets.size()), 1);  // creates the rows
  client.seconds(Phase::kPullPush, uint32_t(key_sets.size()), c.window);

  const std::string limit = tcp ? "raw TCP" : "raw Unix socket";
  constexpr std::pair<Phase, const char*> kPhases[] = {
      {Phase::kPush, "push"}, {Phase::kPull, "pull"}, {Phase::kPullPush, "pull + push"}};
  for (const auto& [phase, phase_name] : kPhases) {
    const std::vector<RawExchange> exchanges = raw_of(client.plan(), phase);
    const auto raw_window = uint32_t(c.window * client.plan().messages.size());
    const double ways = phase == Phase::kPullPush ? 2 : 1;  // a pull and a push are two requests
    const double rows = c.keys > 0 ? double(c.keys) / 1e6 : double(client.value_bytes()) / 1e9;
    Repeated repeated;
    for (uint32_t round = 0; round < c.rounds; ++round) {
      const double moved = ways * rows * c.batches;
      const double limit_s = raw.seconds(exchanges, c.batches, raw_window);
      repeated.add(moved / client.seconds(phase, c.batches, c.window), moved / limit_s);
    }
    results.push_back(repeated.result(str(tcp ? "tcp " : "ipc ", c.name, ", ", phase_name),
                                      c.keys > 0 ? "Mrows/s" : "GB/s", limit));
  }
}

/// Measures making a pull plan. The cases above make their plans in advance, and a worker makes a
/// plan while it computes other batches.
BenchResult bench_plan(uint32_t keys, const BenchOptions& options) {
  const Case c{.name = "", .keys = keys};
  const std::vector<TableSpec> tables = tables_of(c);
  const auto placements = worker::Placements::of(view_of("tcp://127.0.0.1:1"));
  const std::vector<uint64_t> set = key_sets_of(c, options.seed)[0];
  Repeated repeated;
  for (int round = 0; round < 5; ++round) {
    Batch batch;
    batch.tables = {{.table = TableId{0}, .keys = set}};
    const double begin = wall_seconds();
    const worker::PullPlan plan =
        worker::make_pull_plan(tables, placements, wire::kFrameBytesMax, batch);
    const double seconds = wall_seconds() - begin;
    DP_CHECK(!plan.messages.empty());
    std::vector<uint64_t> copy(set.size());
    const double copy_begin = wall_seconds();
    std::copy(set.begin(), set.end(), copy.begin());
    const double copy_seconds = wall_seconds() - copy_begin;
    repeated.add(keys / seconds / 1e6, keys / copy_seconds / 1e6);
  }
  return repeated.result(str("pull plan of ", keys, " keys"), "Mkeys/s", "copy of the keys");
}

}  // namespace

std::vector<BenchResult> bench_push_pull(const BenchOptions& options) {
  transport::tune_malloc_for_frames();
  const uint32_t rounds = options.quick ? 1 : 5;
  const Case few = options.quick ? Case{"sparse, 1000 x 16, 8 in flight", 1'000, 50, 8, 1}
                                 : Case{"sparse, 10 k x 16, 8 in flight", 10'000, 1'000, 8, rounds};
  const Case many =
      options.quick ? Case{"sparse, 50 k x 16 in one call, 2 in flight", 50'000, 4, 2, 1}
                    : Case{"sparse, 1 M x 16 in one call, 2 in flight", 1'000'000, 10, 2, rounds};
  const Case dense{"dense 1 MiB, 8 in flight", 0, options.quick ? 20U : 2'000U, 8, rounds};
  std::vector<BenchResult> results;
  bench_case(few, true, options, results);
  bench_case(many, true, options, results);
  bench_case(dense, true, options, results);
  bench_case(few, false, options, results);
  bench_case(dense, false, options, results);
  results.push_back(bench_plan(few.keys, options));
  results.push_back(bench_plan(many.keys, options));
  return results;
}

}  // namespace downpour::tools
