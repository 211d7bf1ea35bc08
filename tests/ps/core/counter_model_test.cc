// The counter model: a linear model, one feature per record, gradient -1, SGD with learning rate 1.
// After E epochs every weight is exactly E, whatever is lost, repeated, reordered, rolled back or
// processed twice.
#include <array>

#include <catch2/catch.hpp>

#include "ps/core/ps_core.h"
#include "shared/base/hash.h"
#include "shared/base/rng.h"

namespace downpour::ps {
namespace {

constexpr size_t kPartStatuses = size_t(wire::PartStatus::kOtherStep) + 1;
constexpr uint32_t kBits = 4;
constexpr uint32_t kPartitions = 1U << kBits;
constexpr uint32_t kShards = 6;
constexpr uint32_t kBatches = 5;
constexpr uint32_t kRecords = 7;  // per batch
constexpr uint32_t kEpochs = 3;
constexpr uint32_t kKeys = kShards * kBatches * kRecords;

struct Cluster {
  explicit Cluster(uint64_t seed) : rng(seed) {
    for (uint32_t c = 0; c < 2; ++c) start(c, {1, 1}, {});
  }

  static bool owns(uint32_t core, uint32_t p) { return p % 2 == core; }

  void start(uint32_t c, ViewId ownership_generation,
             const std::vector<checkpoint::PartitionImage>& images) {
    PsConfig config;
    config.run = 7;
    config.incarnation = Incarnation{100 + rng.below(1U << 30)};
    config.partition_bits = kBits;
    config.tables = {
        {.name = "w",
         .table_variables = {{.name = "w",
                              .dim = 1,
                              .optimizer = {.type = OptimizerType::kSgd, .learning_rate = 1.0F}}}}};
    cores[c] = std::make_unique<PsCore>(config);
    wire::Adopt adopt{.ownership_generation = ownership_generation, .sealed_epochs = sealed};
    for (uint32_t p = 0; p < kPartitions; ++p) {
      if (owns(c, p)) adopt.partitions.push_back(PartitionId{p});
    }
    for (const auto& image : images)
      adopt.images.push_back({.partition = image.partition, .file = "f"});
    view = ownership_generation;
    send(c, kChiefPeer, adopt);
    for (const Load& load : std::vector<Load>(effects.loads)) {
      effects.clear();
      cores[c]->on_loaded(load.id, images, effects);
      REQUIRE(std::get<wire::Adopted>(effects.sends.at(0).message.body).ok);
    }
  }

  void send(uint32_t c, PeerKey from, wire::Body body, Bytes keys = {}, Bytes values = {}) {
    effects.clear();
    cores[c]->on_message(0, from,
                         {.envelope = {.run = 7, .view = view, .request = RequestId{++request}},
                          .body = std::move(body),
                          .keys = std::move(keys),
                          .values = std::move(values)},
                         effects);
    for (const Send& sent : effects.sends) {
      const auto* reply = std::get_if<wire::PushReply>(&sent.message.body);
      if (reply == nullptr) continue;
      for (const wire::PartReply& part : reply->others) ++met[size_t(part.status)];
    }
  }

  /// Pushes a batch (or shard-end marker) to one core, sometimes for only some of its partitions or
  /// in two fragments.
  void push(uint32_t c, BatchId batch, uint64_t worker) {
    const bool end = batch.batch == kBatches;
    wire::Push push{.worker = Incarnation{worker},
                    .batch = batch,
                    .records = end ? 0 : kRecords,
                    .records_hash = uint64_t{batch.shard} * 100 + batch.batch,
                    .end = end};
    const uint64_t half = rng.below(3);
    for (uint32_t p = 0; p < kPartitions; ++p) {
      if (owns(c, p) && (half == 2 || p / 2 % 2 == half)) push.covered.insert(PartitionId{p});
    }
    if (end) {
      push.records_hash = 0;
      for (uint32_t b = 0; b < kBatches; ++b) push.records_hash += uint64_t{batch.shard} * 100 + b;
      push.counts = {
          .batches = kBatches, .read = kBatches * kRecords, .applied = kBatches * kRecords};
      return send(c, worker, push);
    }
    std::vector<uint64_t> keys;
    for (uint32_t r = 0; r < kRecords; ++r) {
      const uint64_t key = (uint64_t{batch.shard} * kBatches + batch.batch) * kRecords + r;
      if (push.covered.contains(partition_of(row_hash(TableId{0}, key), kBits)))
        keys.push_back(key);
    }
    if (rng.below(3) == 0 && keys.size() > 1) {
      push.fragments = 2;
      const size_t first = rng.below(2);
      for (size_t f = 0; f < 2; ++f) {
        push.fragment = uint32_t((first + f) % 2);
        const size_t begin = push.fragment == 0 ? 0 : keys.size() / 2;
        const size_t until = push.fragment == 0 ? keys.size() / 2 : keys.size();
        send_keys(c, push,
                  {keys.begin() + std::ptrdiff_t(begin), keys.begin() + std::ptrdiff_t(until)});
      }
      return;
    }
    if (rng.below(2) == 0) {  // by handle, if the handle of the pull still exists
      send(c, worker,
           wire::Pull{.worker = Incarnation{worker},
                      .keep_handle = true,
                      .sections = {{TableId{0}, uint32_t(keys.size())}}},
           Bytes::copy_of(keys.data(), keys.size() * 8));
      push.handle = RequestId{rng.below(8) == 0 ? 1 : request};
      push.sections = {{TableId{0}, uint32_t(keys.size())}};
      return send(c, worker, push, {}, Bytes::of(std::vector<float>(keys.size(), -1.0F)));
    }
    send_keys(c, push, keys);
  }

  void send_keys(uint32_t c, wire::Push push, const std::vector<uint64_t>& keys) {
    push.sections = {{TableId{0}, uint32_t(keys.size())}};
    send(c, raw(push.worker), push, Bytes::copy_of(keys.data(), keys.size() * 8),
         Bytes::of(std::vector<float>(keys.size(), -1.0F)));
  }

  wire::StatusReply status(uint32_t c, uint32_t epoch) {
    send(c, kChiefPeer, wire::StatusRequest{.epoch = epoch, .shards = kShards});
    return std::get<wire::StatusReply>(effects.sends.at(0).message.body);
  }

  std::vector<checkpoint::PartitionImage> save(uint32_t c) {
    send(c, kChiefPeer, wire::Save{.checkpoint = {1, ++saves}, .folder = "f"});
    std::vector<checkpoint::PartitionImage> images;
    while (cores[c]->saves()) {
      cores[c]->continue_save(effects);
      for (Store& store : effects.stores) {
        checkpoint::RowSorter().sort(store.image);
        images.push_back(store.image);
        cores[c]->on_image_written(store.checkpoint, std::move(store.image));
      }
      effects.stores.clear();
    }
    cores[c]->on_stored({1, saves}, std::vector<wire::ImageRef>{}, effects);
    return images;
  }

  Rng rng;
  std::unique_ptr<PsCore> cores[2];
  Effects effects;
  ViewId view;
  std::array<uint64_t, kPartStatuses> met{};  // number of answers, by PartStatus
  uint32_t sealed = 0, saves = 0;
  uint64_t request = 0;
};

void run(uint64_t seed, std::array<uint64_t, kPartStatuses>& met) {
  INFO("seed " << seed);
  Cluster cluster(seed);
  std::vector<checkpoint::PartitionImage> saved[2];
  for (uint32_t epoch = 0; epoch < kEpochs; ++epoch) {
    for (bool complete = false; !complete;) {
      // A burst of pushes in any order from several workers, with repeated and late ones.
      for (int i = 0; i < 400; ++i) {
        const uint32_t late = epoch > 0 && cluster.rng.below(10) == 0 ? 1 : 0;
        cluster.push(uint32_t(cluster.rng.below(2)),
                     {epoch - late, uint32_t(cluster.rng.below(kShards)),
                      uint32_t(cluster.rng.below(kBatches + 1))},
                     1 + cluster.rng.below(3));
      }
      const auto c = uint32_t(cluster.rng.below(2));
      if (cluster.rng.below(4) == 0) saved[c] = cluster.save(c);
      if (cluster.rng.below(4) == 0) {  // a core dies and returns with its newest checkpoint
        cluster.start(c, {1, cluster.view.n + 1}, saved[c]);
      }
      complete = true;
      for (uint32_t core = 0; core < 2; ++core) {
        const wire::StatusReply reply = cluster.status(core, epoch);
        REQUIRE(reply.failure.empty());
        complete = complete && reply.ended == std::vector<wire::Interval>{{0, kShards}};
        for (const wire::PartitionStatus& p : reply.partitions) {
          CHECK(p.counts.applied == uint64_t{p.shards_ended} * kBatches * kRecords);
        }
      }
    }
    for (uint32_t core = 0; core < 2; ++core) saved[core] = cluster.save(core);
    cluster.sealed = epoch + 1;
    for (uint32_t core = 0; core < 2; ++core)
      cluster.send(core, kChiefPeer, wire::Sealed{.epochs = epoch + 1});
  }
  size_t rows = 0;
  for (const auto& core : cluster.cores) {
    for_each(core->partitions().owned(), [&](PartitionId p) {
      for (const checkpoint::TableImage& table : core->partitions().export_image(p).tables) {
        for (const float weight : table.table_variables[0]) CHECK(weight == float(kEpochs));
        rows += table.keys.size();
      }
    });
  }
  CHECK(rows == kKeys);
  for (size_t status = 0; status < kPartStatuses; ++status) met[status] += cluster.met[status];
}

TEST_CASE("every weight of the counter model is the number of epochs", "[ps][core]") {
  std::array<uint64_t, kPartStatuses> met{};
  for (uint64_t seed = 1; seed <= 20; ++seed) run(seed, met);
  // Otherwise the random order was too tame to show anything.
  for (const wire::PartStatus status :
       {wire::PartStatus::kAlreadyApplied, wire::PartStatus::kGap, wire::PartStatus::kUnknownPull,
        wire::PartStatus::kStaged}) {
    CHECK(met[size_t(status)] > 100);
  }
}

}  // namespace
}  // namespace downpour::ps
