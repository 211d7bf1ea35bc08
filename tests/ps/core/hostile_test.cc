// Random messages: whatever a peer sends, a core neither stops nor holds unbounded state.
#include <utility>
#include <variant>
#include <vector>

#include <catch2/catch.hpp>

#include "shared/base/rng.h"
#include "tests/ps/core/ps_harness.h"
#include "tests/support/travel.h"

namespace downpour::ps {
namespace {

/// A body and payload of random shape, about half of them valid.
wire::Message random_message(Rng& rng, uint32_t views) {
  wire::Message m;
  const auto small = [&] { return uint32_t(rng.below(5)); };
  m.envelope = {.run = rng.below(20) == 0 ? 8U : 7U,
                .view = {1, rng.below(4) == 0 ? small() : 1000000},
                .request = RequestId{rng.below(8)}};
  std::vector<wire::Section> sections(rng.below(3));
  for (wire::Section& section : sections) section = {TableId{uint32_t(rng.below(3))}, small()};
  std::vector<uint64_t> keys(rng.below(6));
  for (uint64_t& key : keys) key = rng.below(2) == 0 ? rng.below(4) : rng.next();
  m.keys = Bytes::of(std::move(keys));
  if (m.keys.size() > 0 && rng.below(4) == 0) m.keys = m.keys.slice(0, m.keys.size() - 1);
  m.values = Bytes::of(std::vector<float>(rng.below(10), 1.0F));
  if (rng.below(2) == 0) {  // empty and well-formed
    sections.clear();
    m.keys = m.values = {};
  }
  wire::PartitionSet covered;
  for (uint32_t i = small(); i > 0; --i) covered.insert(PartitionId{uint32_t(rng.below(5))});
  const ViewId ownership_generation{1, uint32_t(rng.below(views))};
  switch (rng.below(60)) {
    case 0:
      m.body = wire::Adopt{.ownership_generation = ownership_generation,
                           .partitions = {PartitionId{small()}, PartitionId{small()}},
                           .images = std::vector<wire::ImageRef>(rng.below(2))};
      break;
    case 1: {
      wire::View view{.id = ownership_generation, .owners = std::vector<wire::Owner>(rng.below(3))};
      for (wire::Owner& owner : view.owners) owner.incarnation = Incarnation{rng.below(3)};
      view.partitions.resize(rng.below(8) == 0 ? 3 : 4);
      for (wire::Placement& p : view.partitions)
        p = {.owner = small(), .ownership_generation = {1, small()}};
      m.body = view;
      break;
    }
    case 2:
      m.body = wire::StatusRequest{.epoch = small(), .shards = uint32_t(rng.next())};
      break;
    case 3:
      if (rng.below(2) == 0) {
        m.body = wire::Save{.checkpoint = ownership_generation, .folder = "x"};
      } else {
        m.body = wire::Sealed{.epochs = rng.below(3) == 0 ? uint32_t(rng.next()) : small()};
      }
      break;
    case 4:
    case 5:
    case 6:
    case 7:
    case 8:
    case 9:
      m.body = wire::Pull{
          .worker = Incarnation{rng.below(3)}, .keep_handle = true, .sections = sections};
      break;
    default:
      m.body = wire::Push{
          .worker = Incarnation{rng.below(3)},
          .batch = {small(), small(), rng.below(30) == 0 ? uint32_t(rng.next()) : small()},
          .records = small(),
          .end = rng.below(4) == 0,
          .counts = {.batches = small()},
          .covered = covered,
          .handle = RequestId{rng.below(3) == 0 ? rng.below(8) : 0},
          .fragment = small() / 2,
          .fragments = small() / 2 + (rng.below(9) == 0 ? 0 : 1),
          .pulled_versions = std::vector<uint64_t>(rng.below(3), rng.below(9)),
          .sections = sections,
          .metrics = std::vector<OutputSums>(rng.below(3))};
  }
  if (auto* push = std::get_if<wire::Push>(&m.body); push != nullptr && rng.below(2) == 0) {
    push->covered = {{rng.below(15) + 1}};  // like a worker's push, so that the state advances
    push->batch.batch = uint32_t(rng.below(2));
    push->fragment = 0;
    push->fragments = 1;
    push->pulled_versions.clear();
    push->counts.batches = push->batch.batch;
  }
  return m;
}

TEST_CASE("nothing that a peer sends stops the core", "[ps][core]") {
  uint64_t applied = 0;
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    PsConfig config = small_config();
    config.tables.push_back(
        {.name = "d",
         .kind = TableKind::kDense,
         .table_variables = {
             {.name = "d", .shape = {5000}, .optimizer = {.type = OptimizerType::kSgd}}}});
    PsHarness ps(config);
    Rng rng(seed);
    for (int i = 0; i < 2000; ++i) {
      const wire::Message message = random_message(rng, uint32_t(i) + 4);
      if (i % 100 == 0) {
        wire::Adopt adopt{.ownership_generation = {1, uint32_t(i) + 5}};
        for (uint32_t p = 0; p < 4; ++p) adopt.partitions.push_back(PartitionId(p));
        ps.step(kChiefPeer, adopt);
      }
      const bool order = !std::holds_alternative<wire::Pull>(message.body) &&
                         !std::holds_alternative<wire::Push>(message.body);
      ps.effects.clear();
      ps.core.on_message(i, order ? kChiefPeer : 5, message, ps.effects);
      for (const Send& send : ps.effects.sends) {
        REQUIRE(testing::travel_fault(send.message).empty());
        if (const auto* reply = std::get_if<wire::PushReply>(&send.message.body))
          applied += reply->applied.size();
      }
      ps.core.continue_save(ps.effects);
      std::vector<Store> stores = std::move(ps.effects.stores);
      const std::vector<Load> loads = std::move(ps.effects.loads);
      for (Store& store : stores) {
        ps.core.on_image_written(store.checkpoint, std::move(store.image));
        if (store.last)
          ps.core.on_stored(store.checkpoint, std::vector<wire::ImageRef>{}, ps.effects);
      }
      for (const Load& load : loads)
        ps.core.on_loaded(load.id, std::vector<checkpoint::PartitionImage>{}, ps.effects);
    }
    CHECK(ps.core.partitions().watermarks().rows() <= 25);
  }
  CHECK(applied > 1000);  // otherwise most messages had no effect
}

}  // namespace
}  // namespace downpour::ps
