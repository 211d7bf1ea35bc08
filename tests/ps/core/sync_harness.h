// SyncHarness: a ps core in synchronous training that owns all partitions.
#pragma once

#include "tests/ps/core/ps_harness.h"

namespace downpour::ps {

inline PsConfig sync_config(uint32_t replicas, StepDivisor divisor = StepDivisor::kNone) {
  PsConfig config = small_config();
  config.steps = StepRules{.replicas = replicas, .divisor = divisor};
  return config;
}

inline Bytes keys_of(std::vector<uint64_t> keys) { return Bytes::of(std::move(keys)); }
inline Bytes rows_of(size_t rows, float value) {
  return Bytes::of(std::vector<float>(4 * rows, value));
}

struct SyncHarness : PsHarness {
  explicit SyncHarness(const PsConfig& config) : PsHarness(config) {
    wire::View view{.id = {1, 1}};
    view.owners.push_back({.incarnation = config.incarnation, .endpoint = "inproc://ps"});
    for (uint32_t p = 0; p < 4; ++p) view.partitions.push_back({0, {1, 1}});
    step(kChiefPeer, view);
  }
  // Returns the push of one batch of a replica, whose shard has the same number.
  wire::Push part(uint32_t replica, uint32_t batch, uint64_t at_step, uint32_t keys) const {
    wire::Push push{.worker = Incarnation{9},
                    .batch = {0, replica, batch},
                    .records = 2,
                    .covered = all,
                    .sections = {{TableId{0}, keys}}};
    push.metrics = {OutputSums{.weight = 2}};
    push.step = at_step;
    push.replica = replica;
    return push;
  }
  wire::Message stage(uint32_t replica, uint32_t batch, uint64_t at_step,
                      std::vector<uint64_t> keys, float gradient) {
    const auto count = uint32_t(keys.size());
    return step(9 + replica, part(replica, batch, at_step, count), keys_of(std::move(keys)),
                rows_of(count, gradient));
  }
  wire::Message commit(uint64_t number, std::vector<wire::StepPart> parts) {
    return step(kChiefPeer, wire::Commit{.step = number, .parts = std::move(parts)});
  }
  float weight(uint64_t key) {
    const wire::Message reply = step(
        9, wire::Pull{.worker = Incarnation{9}, .sections = {{TableId{0}, 1}}}, keys_of({key}));
    return reply.values.load<float>(0);
  }
  std::vector<wire::PushReply> push_replies() const {
    std::vector<wire::PushReply> replies;
    for (const Send& send : effects.sends) {
      if (const auto* reply = std::get_if<wire::PushReply>(&send.message.body))
        replies.push_back(*reply);
    }
    return replies;
  }
};

inline const wire::StepPart kPartA{0, {0, 0, 0}}, kPartB{1, {0, 1, 0}};

}  // namespace downpour::ps
