// PushedCore: one ps core that owns all partitions, and a worker that pushes rows to it.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "ps/core/ps_core.h"

namespace downpour {

/// The core has one table. The caller handles and clears `effects` after each message.
struct PushedCore {
  static constexpr uint32_t kDim = 16, kKeysPerPush = 2000;
  static constexpr ps::PeerKey kWorker = 2;

  explicit PushedCore(OptimizerType optimizer, bool incremental_saves = false)
      : tables(
            {{.name = "rows",
              .table_variables = {{.name = "w", .dim = kDim, .optimizer = {.type = optimizer}}}}}),
        core({.incarnation = Incarnation{1},
              .run = kRun,
              .tables = tables,
              .incremental_saves = incremental_saves}) {
    wire::Adopt adopt{.ownership_generation = {1, 1}};
    wire::View view{.id = {1, 1}, .owners = {{.incarnation = Incarnation{1}}}};
    for (uint32_t p = 0; p < core.partitions().count(); ++p) {
      adopt.partitions.push_back(PartitionId{p});
      view.partitions.push_back({.owner = 0, .ownership_generation = {1, 1}});
      covered.insert(PartitionId{p});
    }
    send(ps::kChiefPeer, std::move(adopt));
    send(ps::kChiefPeer, std::move(view));
    effects.clear();
  }

  void send(ps::PeerKey from, wire::Body body, Bytes key_bytes = {}, Bytes values = {}) {
    wire::Message message;
    message.envelope = {.run = kRun, .view = {1, 1}};
    message.body = std::move(body);
    message.keys = std::move(key_bytes);
    message.values = std::move(values);
    core.on_message(0, from, std::move(message), effects);
  }
  /// Pushes gradients for `keys`.
  void push(BatchId batch) {
    send(kWorker,
         wire::Push{.worker = Incarnation{kWorker},
                    .batch = batch,
                    .records = kKeysPerPush,
                    .covered = covered,
                    .sections = {{TableId{0}, kKeysPerPush}}},
         Bytes::copy_of(keys.data(), keys.size() * sizeof(uint64_t)), gradients);
  }

  std::vector<TableSpec> tables;
  ps::PsCore core;
  ps::Effects effects;
  wire::PartitionSet covered;  // all partitions
  std::vector<uint64_t> keys = std::vector<uint64_t>(kKeysPerPush);
  Bytes gradients = Bytes::of(std::vector<float>(size_t{kKeysPerPush} * kDim, 0.01F));

 private:
  static constexpr uint64_t kRun = 1;
};

}  // namespace downpour
