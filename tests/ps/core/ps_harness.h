// PsHarness: one ps core that holds all partitions, and a way to send messages to it.
#pragma once

#include <catch2/catch.hpp>

#include "ps/core/ps_core.h"
#include "tests/support/travel.h"

namespace downpour::ps {

/// Returns a configuration with four partitions and one table of vectors with four elements, under
/// SGD with rate 1.
inline PsConfig small_config() {
  const OptimizerSpec sgd{.type = OptimizerType::kSgd, .learning_rate = 1.0F};
  PsConfig config;
  config.run = 7;
  config.incarnation = Incarnation{1};
  config.partition_bits = 2;
  config.tables = {{.name = "t", .table_variables = {{.name = "v", .dim = 4, .optimizer = sgd}}}};
  return config;
}

struct PsHarness {
  explicit PsHarness(const PsConfig& config = small_config()) : core(config) {
    wire::Adopt adopt{.ownership_generation = {1, 1}};
    for (uint32_t p = 0; p < uint32_t{1} << config.partition_bits; ++p) {
      adopt.partitions.push_back(PartitionId(p));
      all.insert(PartitionId(p));
    }
    step(kChiefPeer, adopt);
  }
  /// Begins with these images instead of empty partitions.
  PsHarness(const PsConfig& config, std::vector<checkpoint::PartitionImage> images) : core(config) {
    wire::Adopt adopt{.ownership_generation = {1, 1}, .folder = "checkpoint"};
    for (const checkpoint::PartitionImage& image : images) {
      adopt.partitions.push_back(image.partition);
      adopt.images.push_back({.partition = image.partition, .file = "a"});
      all.insert(image.partition);
    }
    step(kChiefPeer, adopt);
    REQUIRE(effects.loads.size() == 1);
    const uint64_t load = effects.loads[0].id;
    effects.clear();
    core.on_loaded(load, std::move(images), effects);
    REQUIRE(effects.sends.size() == 1);
    CHECK(std::get<wire::Adopted>(effects.sends[0].message.body).ok);
  }
  /// Sends one message through the codec, over a connection that proves `key`. Returns the last
  /// message that the core sends in answer.
  wire::Message step(PeerKey from, wire::Body body, Bytes keys = {}, Bytes values = {},
                     const wire::PeerIdentity& key = {}) {
    wire::Message message{.envelope = {.run = 7, .view = {1, 1}, .request = RequestId{++requests}},
                          .body = std::move(body),
                          .keys = std::move(keys),
                          .values = std::move(values)};
    auto arrived = testing::travel(message);
    INFO((arrived ? "" : arrived.error().what));
    REQUIRE(arrived);
    effects.clear();
    core.on_message(0, from, *arrived, effects, key);
    for (const Send& send : effects.sends) CHECK(testing::travel_fault(send.message).empty());
    return effects.sends.empty() ? wire::Message{} : effects.sends.back().message;
  }
  wire::Push push(BatchId batch) {
    return {.worker = Incarnation{9}, .batch = batch, .records = 1, .covered = all};
  }
  wire::Push end(BatchId batch) {
    return {.worker = Incarnation{9}, .batch = batch, .end = true, .covered = all};
  }

  PsCore core;
  Effects effects;
  wire::PartitionSet all;
  uint64_t requests = 0;
};

}  // namespace downpour::ps
