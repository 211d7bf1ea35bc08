// A ps core whose tables have reached their memory limit: no part is applied, and the chief learns
// why.
#include <numeric>

#include <catch2/catch.hpp>

#include "ps/core/memory_budget.h"
#include "ps/core/ps_core.h"
#include "tests/support/travel.h"

namespace downpour::ps {
namespace {

constexpr uint32_t kKeysPerPush = 1000;
constexpr uint32_t kDim = 16;

PsConfig config_with(uint64_t table_bytes_max) {
  const OptimizerSpec adagrad{.type = OptimizerType::kAdagrad, .learning_rate = 0.1F};
  PsConfig config;
  config.run = 7;
  config.incarnation = Incarnation{1};
  config.partition_bits = 2;
  const VariableSpec narrow{.name = "s", .dim = 1, .optimizer = adagrad};
  const VariableSpec wide{.name = "v", .dim = kDim, .optimizer = adagrad};
  config.tables = {{.name = "small", .table_variables = {narrow}},
                   {.name = "clicks", .table_variables = {wide}}};
  config.table_bytes_max = table_bytes_max;
  return config;
}

struct Growing {
  explicit Growing(const PsConfig& config) : core(config) {
    wire::Adopt adopt{.ownership_generation = {1, 1}};
    for (uint32_t p = 0; p < 4; ++p) adopt.partitions.push_back(PartitionId(p));
    send(kChiefPeer, adopt);
  }
  void send(PeerKey from, wire::Body body, Bytes keys = {}, Bytes values = {}) {
    const wire::Message message{
        .envelope = {.run = 7, .view = {1, 1}, .request = RequestId{++requests}},
        .body = std::move(body),
        .keys = std::move(keys),
        .values = std::move(values)};
    effects.clear();
    core.on_message(0, from, message, effects);
    for (const Send& sent : effects.sends) CHECK(testing::travel_fault(sent.message).empty());
  }
  /// Pushes batch `batch` of shard 0, with gradients for kKeysPerPush keys starting at `first`.
  /// Returns whether it was applied.
  bool push(uint32_t batch, uint64_t first) {
    wire::Push push{.worker = Incarnation{9}, .batch = {0, 0, batch}, .records = 1};
    for (uint32_t p = 0; p < 4; ++p) push.covered.insert(PartitionId(p));
    push.sections = {{TableId{1}, kKeysPerPush}};
    std::vector<uint64_t> keys(kKeysPerPush);
    std::iota(keys.begin(), keys.end(), first);
    std::vector<float> gradients(kKeysPerPush * kDim, 1.0F);
    send(2, push, Bytes::of(std::move(keys)), Bytes::of(std::move(gradients)));
    if (effects.sends.empty() || effects.sends[0].to == kChiefPeer) return false;
    return std::get<wire::PushReply>(effects.sends[0].message.body).others.empty();
  }
  /// Pushes new keys until a part is not applied. Returns the number of applied batches.
  uint32_t fill(uint32_t batches_max = 10'000) {
    uint32_t batch = 0;
    while (batch < batches_max && push(batch, uint64_t{batch} * kKeysPerPush)) ++batch;
    return batch;
  }
  uint32_t watermark() const {
    return core.partitions().watermarks().watermark({0, 0}, PartitionId(0));
  }
  wire::Failure failure() const { return core.heartbeat().failure; }

  PsCore core;
  Effects effects;
  uint64_t requests = 0;
};

TEST_CASE("a part that needs more memory than the limit is not applied, and the chief learns why",
          "[ps][core][memory]") {
  Growing ps(config_with(16 * kMiB));
  const uint32_t applied = ps.fill();
  const uint64_t rows = uint64_t{applied} * kKeysPerPush;
  CHECK(ps.core.partitions().rows() == rows);
  CHECK(ps.watermark() == applied);
  CHECK(ps.core.partitions().memory_bytes() <= 16 * kMiB);
  CHECK(ps.core.partitions().memory_bytes() >= 13 * kMiB);  // most of the limit
  // The worker gets no answer, so that the shard does not count as failed.
  REQUIRE(ps.effects.sends.size() == 1);
  CHECK(ps.effects.sends[0].to == kChiefPeer);
  const wire::Failure told = std::get<wire::Heartbeat>(ps.effects.sends[0].message.body).failure;
  CHECK(told.code == ErrorCode::kConfig);
  CHECK(told.id == "DP-2401");
  CHECK(told.what.find("16.0 MiB (cluster.ps_memory)") != std::string::npos);
  CHECK(told.what.find("the largest table is clicks (") != std::string::npos);
  CHECK(told.what.find(" rows, ") != std::string::npos);
  CHECK(told.hint.find("cluster.ps_memory") != std::string::npos);
  // No later part is applied either, and each heartbeat repeats the failure.
  CHECK_FALSE(ps.push(applied, 0));
  CHECK(ps.watermark() == applied);
  CHECK(ps.failure() == told);
}

TEST_CASE("at the memory limit a part without new keys is still applied", "[ps][core][memory]") {
  Growing full(config_with(16 * kMiB));
  const uint32_t fits = full.fill();
  Growing ps(config_with(16 * kMiB));
  REQUIRE(ps.fill(fits) == fits);
  for (uint32_t batch = fits; batch < fits + 100; ++batch) REQUIRE(ps.push(batch, 0));
  CHECK(ps.failure().what.empty());
}

TEST_CASE("without a limit in the job, the free memory of the machine is the limit",
          "[ps][core][memory]") {
  Growing ps(config_with(0));
  ps.core.on_free_memory(kGiB);
  REQUIRE(ps.fill(10) == 10);
  ps.core.on_free_memory(kMiB);
  const uint64_t held_bytes = ps.core.partitions().memory_bytes();
  uint32_t batch = 10;
  while (ps.push(batch, uint64_t{batch} * kKeysPerPush)) ++batch;
  CHECK(ps.core.partitions().memory_bytes() <= held_bytes + kMiB);
  CHECK(ps.failure().what.find("(the memory that this machine has left)") != std::string::npos);
}

TEST_CASE("images that need more memory than the limit are refused", "[ps][core][memory]") {
  Growing source(config_with(0));
  source.fill(20);
  std::vector<checkpoint::PartitionImage> images;
  for (uint32_t p = 0; p < 4; ++p) {
    images.push_back(source.core.partitions().export_image(PartitionId(p)));
  }
  for (const uint64_t bytes_max : {kMiB, 16 * kMiB}) {
    PsCore core(config_with(bytes_max));
    wire::Adopt adopt{.ownership_generation = {1, 2}, .folder = "/c"};
    for (uint32_t p = 0; p < 4; ++p) {
      adopt.partitions.push_back(PartitionId(p));
      adopt.images.push_back({.partition = PartitionId(p), .file = "f"});
    }
    Effects effects;
    const wire::Envelope envelope{.run = 7, .view = {1, 1}};
    core.on_message(0, kChiefPeer, {.envelope = envelope, .body = adopt}, effects);
    REQUIRE(effects.loads.size() == 1);
    const uint64_t load = effects.loads[0].id;
    effects.clear();
    core.on_loaded(load, images, effects);
    REQUIRE(effects.sends.size() == 1);
    const auto& adopted = std::get<wire::Adopted>(effects.sends[0].message.body);
    CHECK(adopted.ok == (bytes_max > kMiB));
    if (adopted.ok) continue;
    CHECK(adopted.code == ErrorCode::kConfig);
    CHECK(adopted.error.find("cluster.ps_memory") != std::string::npos);
    CHECK(core.partitions().rows() == 0);
  }
}

}  // namespace
}  // namespace downpour::ps
