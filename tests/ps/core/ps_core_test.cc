#include <algorithm>
#include <numeric>

#include <catch2/catch.hpp>

#include "shared/base/rng.h"
#include "shared/wire/codec.h"
#include "tests/ps/core/ps_harness.h"
#include "tests/shared/wire/random_message.h"
#include "tests/support/travel.h"

namespace downpour::ps {
namespace {

Bytes keys_to(uint64_t n) {
  std::vector<uint64_t> keys(n);
  std::iota(keys.begin(), keys.end(), uint64_t{0});
  return Bytes::of(std::move(keys));
}

TEST_CASE("a pull whose values do not fit a frame is rejected", "[ps][core]") {
  PsHarness ps;
  const uint32_t most = wire::kFrameBytesMax / 16;
  const auto fits = ps.step(
      9, wire::Pull{.worker = Incarnation{9}, .sections = {{TableId{0}, most}}}, keys_to(most));
  CHECK(std::get<wire::PullReply>(fits.body).status == wire::PullStatus::kOk);
  CHECK(fits.values.size() == wire::kFrameBytesMax);
  const auto over =
      ps.step(9, wire::Pull{.worker = Incarnation{9}, .sections = {{TableId{0}, most + 1}}},
              keys_to(most + 1));
  CHECK(std::get<wire::Reject>(over.body).code == ErrorCode::kMalformed);
}

TEST_CASE("unsent replies are limited, and their memory is reused", "[ps][core]") {
  PsConfig config = small_config();
  config.limits.replies_max = 2;
  PsHarness ps(config);
  const auto pull = [&] {
    return ps.step(9, wire::Pull{.worker = Incarnation{9}, .sections = {{TableId{0}, 8}}},
                   keys_to(8));
  };
  wire::Message first = pull();
  const uint8_t* memory = first.values.data();
  const wire::Message second = pull();
  CHECK(second.values.data() != memory);
  CHECK(std::get<wire::PullReply>(pull().body).status == wire::PullStatus::kOverloaded);
  first = {};
  const wire::Message third = pull();
  CHECK(third.values.data() == memory);
}

/// Returns the answer of a core to an Adopt of one partition. The checkpoint has plan 5 and seals
/// one epoch.
wire::Adopted adopted(const checkpoint::PartitionImage& image) {
  PsCore core(small_config());
  Effects effects;
  wire::Message message{.envelope = {.run = 7, .view = {1, 0}}};
  message.body = wire::Adopt{.ownership_generation = {1, 2},
                             .sealed_epochs = 1,
                             .partitions = {image.partition},
                             .folder = "checkpoint",
                             .images = {{.partition = image.partition, .file = "a"}},
                             .plan_hash = 5};
  core.on_message(0, kChiefPeer, message, effects);
  REQUIRE(effects.loads.size() == 1);
  std::vector<checkpoint::PartitionImage> images;
  images.push_back(image);
  core.on_loaded(effects.loads[0].id, std::move(images), effects);
  REQUIRE(effects.sends.size() == 1);
  const auto answer = std::get<wire::Adopted>(effects.sends[0].message.body);
  CHECK(core.partitions().owns(image.partition) == answer.ok);
  return answer;
}

TEST_CASE(
    "an image is refused if it has sealed more epochs than its checkpoint or holds batches of "
    "other data",
    "[ps][core]") {
  const checkpoint::PartitionImage good{.partition = PartitionId{1},
                                        .sealed_epochs = 1,
                                        .shards = {{.shard = {1, 0}, .watermark = 2}},
                                        .plan_hash = 5};
  CHECK(adopted(good).ok);
  checkpoint::PartitionImage image = good;
  image.sealed_epochs = 2;
  CHECK_FALSE(adopted(image).ok);
  CHECK(adopted(image).code == ErrorCode::kBadData);  // so the chief looks for an older checkpoint
  image.sealed_epochs = 0;
  CHECK(adopted(image).ok);
  image.plan_hash = 6;
  CHECK(adopted(image).code == ErrorCode::kBadData);
  CHECK(adopted(image).error.find("other data") != std::string::npos);
  image.shards[0].shard.epoch = 0;  // a sealed epoch
  CHECK(adopted(image).ok);
  image = good;
  image.plan_hash = 0;  // from an earlier build
  CHECK(adopted(image).ok);
}

TEST_CASE("a core knows the plan of its view and whether it holds batches of unsealed epochs",
          "[ps][core]") {
  PsHarness ps;
  CHECK(ps.core.partitions().plan_hash() == 0);
  wire::View view{
      .id = {1, 1},
      .owners = {{.incarnation = Incarnation{1}, .endpoint = "inproc://ps"}},
      .partitions = std::vector<wire::Placement>(4, {.owner = 0, .ownership_generation = {1, 1}}),
      .plan_hash = 5};
  ps.step(kChiefPeer, view);
  CHECK(ps.core.partitions().plan_hash() == 5);
  CHECK_FALSE(ps.core.partitions().hold_unsealed());
  ps.step(9, ps.push({0, 0, 0}));
  CHECK(ps.core.partitions().hold_unsealed());
  ps.step(kChiefPeer, wire::Sealed{1});
  CHECK_FALSE(ps.core.partitions().hold_unsealed());
  ps.step(9, ps.end({1, 3, 0}));
  CHECK(ps.core.partitions().hold_unsealed());
}

TEST_CASE("a worker that receives no replies leaves buffers for the others", "[ps][core]") {
  PsConfig config = small_config();
  config.limits.replies_max = 16;
  PsHarness ps(config);
  const auto pull = [&](PeerKey from) {
    return ps.step(from, wire::Pull{.worker = Incarnation{from}, .sections = {{TableId{0}, 8}}},
                   keys_to(8));
  };
  const auto is_ok = [](const wire::Message& reply) {
    return std::get<wire::PullReply>(reply.body).status == wire::PullStatus::kOk;
  };
  std::vector<wire::Message> held;  // by a worker that was stopped with many pulls in flight
  for (int i = 0; i < 40; ++i) held.push_back(pull(9));
  const auto answered = std::count_if(held.begin(), held.end(), is_ok);
  CHECK(answered >= 8);
  CHECK(answered < 16);
  for (int i = 0; i < 40; ++i) CHECK(is_ok(pull(10)));  // its replies are sent
  held.clear();
  for (int i = 0; i < 8; ++i) held.push_back(pull(9));
  CHECK(std::all_of(held.begin(), held.end(), is_ok));
}

TEST_CASE("only the chief may direct a core", "[ps][core]") {
  PsHarness ps;
  const auto reply = ps.step(9, wire::Stop{});
  CHECK(std::get<wire::Reject>(reply.body).code == ErrorCode::kPermission);
  CHECK_FALSE(ps.effects.exit);
  // A reject is never answered. Otherwise two processes could answer each other forever.
  CHECK(std::holds_alternative<wire::Hello>(ps.step(9, wire::Reject{}).body));
  CHECK(ps.effects.sends.empty());
}

TEST_CASE("a second Welcome changes nothing in the core", "[ps][core]") {
  PsHarness ps;
  ps.step(kChiefPeer,
          wire::Welcome{.job = "job", .shard_bytes = 1, .heartbeat_ns = 1, .lease_ns = 1});
  CHECK(ps.effects.sends.empty());
  CHECK(count(ps.core.partitions().owned()) == 4);
}

TEST_CASE("a core refused by the chief ends with the chief's reason", "[ps][core]") {
  PsHarness ps;
  ps.step(kChiefPeer,
          wire::Refused{.code = ErrorCode::kUnavailable, .what = "the job has already ended"});
  REQUIRE(ps.effects.exit);
  CHECK(ps.effects.exit->code == 69);
}

TEST_CASE("every fourth heartbeat reports the load of each partition since the previous report",
          "[ps][core]") {
  PsHarness ps;
  constexpr uint32_t kKeys = 400;
  const auto pull = [&](wire::Purpose purpose, uint32_t times) {
    for (uint32_t n = 0; n < times; ++n) {
      ps.step(5,
              wire::Pull{
                  .worker = Incarnation{9}, .purpose = purpose, .sections = {{TableId{0}, kKeys}}},
              keys_to(kKeys));
    }
  };
  int64_t now_ns = 0;
  const auto beat = [&] {
    ps.effects.clear();
    ps.core.on_tick(now_ns += kSecond, ps.effects);
    REQUIRE(ps.effects.sends.size() == 1);
    return std::get<wire::Heartbeat>(ps.effects.sends[0].message.body);
  };
  pull(wire::Purpose::kTrain, 100);
  CHECK(beat().load_ns == 0);  // the start of this interval is not known
  pull(wire::Purpose::kTrain, 4000);
  for (int n = 0; n < 3; ++n) {
    const wire::Heartbeat without = beat();
    CHECK(without.load_ns == 0);
    CHECK(without.loads.empty());
  }
  const wire::Heartbeat with = beat();
  CHECK(with.load_ns == 4 * kSecond);
  REQUIRE(with.loads.size() == 4);
  uint64_t rows = 0;
  for (const wire::PartitionLoad& load : with.loads) {
    rows += load.rows;
    CHECK(load.bytes == load.rows * 4 * sizeof(float));
    CHECK(load.rows > 100'000);  // keys are distributed evenly
  }
  // One pull in eight is sampled to stand for all. Each row is counted again for its push.
  CHECK(double(rows) == Approx(2.0 * 4000 * kKeys).epsilon(0.15));
  pull(wire::Purpose::kEval, 4000);
  for (int n = 0; n < 3; ++n) beat();
  rows = 0;
  for (const wire::PartitionLoad& load : beat().loads) rows += load.rows;
  CHECK(double(rows) == Approx(1.0 * 4000 * kKeys).epsilon(0.15));
}

TEST_CASE("evaluations and predictions pull averages, and training pulls weights", "[ps][core]") {
  PsConfig config = small_config();
  config.tables[0].table_variables[0].optimizer.ema = 0.5F;
  PsHarness ps(config);
  wire::Push push = ps.push({0, 0, 0});
  push.sections = {{TableId{0}, 1}};
  for (uint32_t batch = 0; batch < 2; ++batch) {
    push.batch.batch = batch;
    const auto reply = ps.step(9, push, keys_to(1), Bytes::of(std::vector<float>{-1.0F, 0, 0, 0}));
    REQUIRE(std::holds_alternative<wire::PushReply>(reply.body));
  }
  const auto pulled = [&](wire::Purpose purpose) {
    const auto reply = ps.step(
        9, wire::Pull{.worker = Incarnation{9}, .purpose = purpose, .sections = {{TableId{0}, 1}}},
        keys_to(1));
    REQUIRE(std::get<wire::PullReply>(reply.body).status == wire::PullStatus::kOk);
    return reply.values.load<float>(0);
  };
  CHECK(pulled(wire::Purpose::kTrain) == 2.0F);
  const float average = 9.0F / 11 + 0.75F * (2.0F - 9.0F / 11);  // decays 2 / 11 and 3 / 12
  CHECK(pulled(wire::Purpose::kEval) == Approx(average));
  CHECK(pulled(wire::Purpose::kPredict) == Approx(average));
}

TEST_CASE("the epochs and shards that a peer opens are limited", "[ps][core]") {
  PsConfig config = small_config();
  config.limits.epochs_open_max = 2;
  config.limits.shards_open_max = 3;
  PsHarness ps(config);
  const auto applies = [&](uint32_t epoch, uint32_t shard) {
    const auto reply = ps.step(9, ps.push({epoch, shard, 0}));
    return std::holds_alternative<wire::PushReply>(reply.body);
  };
  CHECK(applies(1, 0));
  CHECK(applies(0, 0));
  CHECK_FALSE(applies(900, 0));  // and does not use up room of epochs that may be open
  CHECK_FALSE(applies(2, 0));
  CHECK(applies(1, 77));
  CHECK_FALSE(applies(1, 78));
  CHECK(applies(1, 0));  // already applied
}

TEST_CASE("a push of an epoch or shard that the job does not have is rejected", "[ps][core]") {
  PsConfig config = small_config();
  config.plan = {.epochs = 3, .shards = 10};
  PsHarness ps(config);
  const auto answer = [&](wire::Push push) {
    const auto reply = ps.step(9, std::move(push));
    const auto* reject = std::get_if<wire::Reject>(&reply.body);
    return reject != nullptr ? reject->what : std::string();
  };
  CHECK(answer(ps.push({2, 9, 0})).empty());
  CHECK_THAT(answer(ps.push({3, 0, 0})), Catch::Contains("the job has 3 epochs of 10 shards"));
  CHECK_THAT(answer(ps.push({0, 10, 0})), Catch::Contains("the job has 3 epochs of 10 shards"));
  CHECK_THAT(answer(ps.end({0, 10, 0})), Catch::Contains("the job has 3 epochs of 10 shards"));
  CHECK(ps.core.partitions().watermarks().rows() == 1);
  ps.core.set_plan({.epochs = 4, .shards = 10}, {});  // the run is resumed for one more epoch
  CHECK(answer(ps.push({3, 0, 0})).empty());
}

TEST_CASE("shards begun by one peer leave room for the shards of other peers", "[ps][core]") {
  PsConfig config = small_config();
  config.limits.shards_open_per_peer_max = 5;
  PsHarness ps(config);
  const auto applies = [&](PeerKey peer, BatchId batch) {
    return std::holds_alternative<wire::PushReply>(ps.step(peer, ps.push(batch)).body);
  };
  for (uint32_t shard = 0; shard < 20; ++shard) CHECK(applies(66, {0, shard, 0}) == shard < 5);
  CHECK(applies(9, {0, 100, 0}));
  CHECK(applies(9, {0, 0, 1}));  // of a shard that the other peer has begun
  wire::Push end = ps.end({0, 0, 2});
  end.counts = {.batches = 2, .read = 2, .applied = 2};
  ps.step(9, end);  // an ended shard makes room
  CHECK(applies(66, {0, 10, 0}));
  CHECK_FALSE(applies(66, {0, 11, 0}));
}

TEST_CASE("only a peer that names the run learns about the run", "[ps][core]") {
  PsHarness ps;
  wire::RandomMessages random(1);
  for (uint16_t kind = 1; kind <= wire::kKindMax; ++kind) {
    for (const uint64_t run : {0, 8}) {
      wire::Message message = random.next(wire::Kind(kind));
      message.envelope.run = run;
      ps.effects.clear();
      ps.core.on_message(0, 9, message, ps.effects);
      for (const Send& send : ps.effects.sends) {
        CHECK(send.message.envelope.run == 0);
        CHECK(send.message.envelope.view == ViewId{});
        CHECK(std::get<wire::Reject>(send.message.body).what == "this ps serves another run");
      }
    }
  }
}

TEST_CASE("no message on a worker's connection stops a core or the work of other peers",
          "[ps][core]") {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    PsConfig config = small_config();
    config.plan = {.epochs = 1, .shards = 10};
    PsHarness ps(config);
    wire::RandomMessages random(seed);
    Rng rng(seed);
    for (uint32_t batch = 0; batch < 50; ++batch) {
      for (int i = 0; i < 60; ++i) {
        wire::Message message = random.next(wire::Kind(1 + rng.below(wire::kKindMax)));
        if (rng.below(4) > 0) message.envelope.run = 7;
        if (auto* push = std::get_if<wire::Push>(&message.body); push != nullptr && i % 2 == 0) {
          push->covered = ps.all;
          push->batch = {uint32_t(rng.below(2)), uint32_t(3 + rng.below(9)),
                         uint32_t(rng.below(3))};
        }
        ps.effects.clear();
        ps.core.on_message(batch, 66 + rng.below(3), message, ps.effects);
        CHECK_FALSE(ps.effects.exit);
        for (const Send& send : ps.effects.sends)
          REQUIRE(testing::travel_fault(send.message).empty());
      }
      const auto reply = ps.step(9, ps.push({0, 0, batch}));
      REQUIRE(std::get<wire::PushReply>(reply.body).applied.size() == 4);
    }
    CHECK(ps.core.partitions().watermarks().rows() <= 10);
  }
}

TEST_CASE("a shortened status may list too many shards as begun, but never too few", "[ps][core]") {
  PsConfig config = small_config();
  config.limits.ended_told_max = 2;
  config.limits.begun_told_max = 3;
  config.limits.open_told_max = 1;
  PsHarness ps(config);
  for (const uint32_t shard : {0, 2, 4, 6}) ps.step(9, ps.end({0, shard, 0}));
  for (const uint32_t shard : {8, 10}) ps.step(9, ps.push({0, shard, 0}));
  const auto answer = ps.step(kChiefPeer, wire::StatusRequest{.round = 1, .shards = 20});
  const auto& reply = std::get<wire::StatusReply>(answer.body);
  CHECK(reply.ended == std::vector<wire::Interval>{{0, 1}, {2, 3}});
  CHECK(reply.begun == std::vector<wire::Interval>{{0, 1}, {2, 3}, {4, 11}});
  CHECK(reply.open == std::vector<wire::ShardWatermark>{{8, 1}});
}

TEST_CASE("the largest status fits a header", "[ps][core]") {
  constexpr uint32_t kPartitions = 4096;  // the most that a job may have
  const PsLimits limits;
  CHECK(limits.ended_told_max > limits.intervals_max);
  const auto intervals = [](uint32_t n) {
    std::vector<wire::Interval> all;
    for (uint32_t i = 0; i < n; ++i) all.push_back({4 * i, 4 * i + 1});
    return all;
  };
  const wire::ShardCounts counts{.batches = 1, .read = 1, .applied = 1, .end_offset = 1};
  wire::StatusReply reply{.round = 1, .epoch = 1, .view = {1, 1}};
  for (uint32_t p = 0; p < kPartitions; ++p) {
    reply.partitions.push_back({.partition = PartitionId(p),
                                .ownership_generation = {1, 1},
                                .version = 1,
                                .counts = counts});
  }
  reply.ended = intervals(limits.ended_told_max);
  reply.begun = intervals(limits.begun_told_max);
  reply.open.resize(limits.open_told_max, {1, 1});
  reply.metrics.resize(limits.outputs_max);
  reply.markers.resize(limits.markers_max);
  reply.failure = std::string(kKiB, 'x');
  wire::Codec codec;
  CHECK(codec.encode({.body = reply}).has_value());
}

TEST_CASE("staged fragments are limited per worker and in total", "[ps][core]") {
  PsConfig config = small_config();
  config.limits.staged_bytes_per_worker_max = 8 * kKiB;
  config.limits.staged_bytes_max = 16 * kKiB;
  PsHarness ps(config);
  for (uint64_t worker = 1; worker <= 50; ++worker) {
    for (uint32_t shard = 0; shard < 50; ++shard) {
      wire::Push push = ps.push({0, shard, 0});
      push.worker = Incarnation{worker};
      push.fragments = 3;
      push.sections = {{TableId{0}, 16}};
      const auto reply = ps.step(worker, push, keys_to(16), Bytes::of(std::vector<float>(64)));
      CHECK(std::get<wire::PushReply>(reply.body).others.at(0).status == wire::PartStatus::kStaged);
      CHECK(ps.core.staging().bytes() <= 16 * kKiB);
    }
  }
  wire::Push push = ps.push({0, 0, 0});
  push.fragments = 3;
  push.sections = {{TableId{0}, 600}};
  const auto reply = ps.step(9, push, keys_to(600), Bytes::of(std::vector<float>(2400)));
  CHECK(std::get<wire::Reject>(reply.body).code == ErrorCode::kUnavailable);
}

TEST_CASE("handles are limited by bytes per worker and in total", "[ps][core]") {
  PsConfig config = small_config();
  config.limits.handle_bytes_per_worker_max = 4 * kKiB;
  config.limits.handle_bytes_max = 10 * kKiB;
  PsHarness ps(config);
  for (uint64_t worker = 1; worker <= 20; ++worker) {
    for (int i = 0; i < 20; ++i) {
      ps.step(
          worker,
          wire::Pull{
              .worker = Incarnation{worker}, .keep_handle = true, .sections = {{TableId{0}, 32}}},
          keys_to(32));
      CHECK(ps.core.handles().bytes() <= 10 * kKiB);
    }
  }
  CHECK(ps.core.handles().size() > 4);
}

}  // namespace
}  // namespace downpour::ps
