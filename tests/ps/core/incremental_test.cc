// Incremental checkpoints of a core. Whatever is published, abandoned, dropped and restored, the
// newest published checkpoint equals the state of the core when it was copied.
#include <map>
#include <memory>

#include <catch2/catch.hpp>

#include "ps/core/ps_core.h"
#include "shared/base/hash.h"
#include "shared/base/rng.h"
#include "shared/checkpoint/build_on.h"

namespace downpour::ps {
namespace {

constexpr uint32_t kSavedPartitions = 8;
constexpr uint64_t kSavedKeys = 300;

using checkpoint::PartitionImage;

std::vector<TableSpec> tables() {
  VariableSpec deep{.name = "deep", .dim = 3, .init = {InitType::kNormal, 0.1F}};
  deep.optimizer = {.type = OptimizerType::kAdagrad, .learning_rate = 0.1F};
  VariableSpec wide{.name = "wide", .dim = 5, .init = {InitType::kNormal, 0.1F}};
  wide.optimizer.type = OptimizerType::kRowwiseAdagrad;
  VariableSpec dense{.name = "dense", .shape = {3 * kDenseBlockFloats - 100}};
  return {{"rows", TableKind::kEmbedding, {deep, wide}}, {"dense", TableKind::kDense, {dense}}};
}

/// A core, and a disk that keeps what the core stored, by checkpoint.
class Saving {
 public:
  explicit Saving(uint64_t seed, bool incremental = true) : rng_(seed) {
    PsConfig config{.incarnation = Incarnation{9}, .run = 7, .tables = tables()};
    config.partition_bits = 3;
    config.incremental_saves = incremental;
    core_ = std::make_unique<PsCore>(config);
    std::vector<PartitionId> all;
    for (uint32_t p = 0; p < kSavedPartitions; ++p) all.push_back(PartitionId(p));
    adopt(all, {});
  }

  void train(uint64_t keys) {
    wire::Push push{.worker = Incarnation{2}, .batch = {0, 0, batch_++}, .records = 1};
    for (uint32_t p = 0; p < kSavedPartitions; ++p) push.covered.insert(PartitionId(p));
    std::vector<uint64_t> rows;
    for (uint64_t k = 0; k < keys; ++k) rows.push_back(rng_.below(kSavedKeys) * 0x9e3779b97f4a7c15);
    std::vector<uint64_t> blocks;
    if (rng_.below(3) == 0) blocks.push_back(rng_.below(3));
    push.sections = {{TableId{0}, uint32_t(rows.size())}, {TableId{1}, uint32_t(blocks.size())}};
    size_t floats = rows.size() * (3 + 5);
    for (const uint64_t block : blocks) floats += tables()[1].row_floats(0, block);
    rows.insert(rows.end(), blocks.begin(), blocks.end());
    std::vector<float> gradients(floats);
    for (float& gradient : gradients) gradient = rng_.uniform() - 0.5F;
    send(2, push, Bytes::copy_of(rows.data(), rows.size() * 8), Bytes::of(gradients));
    REQUIRE(std::holds_alternative<wire::PushReply>(effects_.sends.at(0).message.body));
    REQUIRE(std::get<wire::PushReply>(effects_.sends[0].message.body).others.empty());
  }

  /// Copies all partitions, with pushes in between, or stops in the middle (`in_part`). Returns
  /// whether all are stored.
  bool save(ViewId base, bool in_part = false) {
    ++saves_;
    copied_.clear();
    send(kChiefPeer, wire::Save{.checkpoint = {1, saves_}, .folder = "f", .base = base});
    std::vector<wire::ImageRef> refs;
    while (core_->saves()) {
      if (in_part && refs.size() == kSavedPartitions / 2) return false;
      effects_.clear();
      core_->continue_save(effects_);
      for (Store& store : effects_.stores) {
        checkpoint::RowSorter().sort(store.image);
        const PartitionId p = store.image.partition;
        copied_[raw(p)] = core_->partitions().export_image(p);
        stored_[{saves_, raw(p)}] = store.image;
        refs.push_back({.partition = p,
                        .file = "f",
                        .checksum = uint64_t{saves_} << 32 | (raw(p) + 1),
                        .base = store.image.base});
        core_->on_image_written(store.checkpoint, std::move(store.image));
      }
      // A restored partition lacks batches, so a push would get "gap" there.
      if (!restored_ && rng_.below(2) == 0) train(1 + rng_.below(9));
    }
    effects_.clear();
    core_->on_stored({1, saves_}, refs, effects_);
    const auto& saved = std::get<wire::Saved>(effects_.sends.at(0).message.body);
    REQUIRE(saved.ok);
    refs_ = saved.images;
    rows_ = saved.rows;
    return true;
  }
  /// Makes the newest save the newest published checkpoint.
  void publish() {
    for (const wire::ImageRef& ref : refs_) {
      auto& chain = chains_[raw(ref.partition)];
      if (ref.base == 0) chain.clear();
      REQUIRE((ref.base == 0 || chain.back().checksum == ref.base));
      chain.push_back(ref);
    }
    published_ = copied_;
  }
  /// Trains `batches` batches, and publishes a checkpoint of whole images.
  void publish_whole(int batches) {
    for (int i = 0; i < batches; ++i) train(20);
    REQUIRE(save({}));
    publish();
  }
  ViewId id() const { return {1, saves_}; }
  uint64_t rows_told() const { return rows_; }

  PartitionImage read(uint32_t p) const {
    PartitionImage whole;
    for (const wire::ImageRef& ref : chains_.at(p)) {
      PartitionImage next = stored_.at({uint32_t(ref.checksum >> 32), p});
      if (ref.base == 0) {
        whole = std::move(next);
      } else {
        REQUIRE(checkpoint::build_on(whole, std::move(next), tables()));
      }
    }
    return whole;
  }
  /// Checks that the published checkpoint equals the state of the core when it was copied.
  void check() const {
    for (uint32_t p = 0; p < kSavedPartitions; ++p) CHECK(read(p) == published_.at(p));
  }
  uint64_t stored_rows() const {
    uint64_t rows = 0;
    for (uint32_t p = 0; p < kSavedPartitions; ++p) {
      for (const auto& table : stored_.at({saves_, p}).tables) rows += table.keys.size();
    }
    return rows;
  }
  uint32_t whole_images() const {
    uint32_t whole = 0;
    for (const wire::ImageRef& ref : refs_) whole += ref.base == 0 ? 1 : 0;
    return whole;
  }

  /// Loses some partitions and restores them from the published checkpoint.
  void restore(const std::vector<PartitionId>& partitions) {
    restored_ = true;
    std::vector<PartitionImage> images;
    for (const PartitionId p : partitions) images.push_back(read(raw(p)));
    adopt(partitions, std::move(images));
  }
  uint64_t rows() const { return core_->partitions().table(TableId{0}).rows(); }

 private:
  void adopt(const std::vector<PartitionId>& partitions, std::vector<PartitionImage> images) {
    wire::Adopt adopt{
        .ownership_generation = {1, ++view_}, .partitions = partitions, .folder = "f"};
    for (const PartitionImage& image : images)
      adopt.images.push_back({.partition = image.partition, .file = "f"});
    send(kChiefPeer, adopt);
    if (!images.empty()) {
      const uint64_t load = effects_.loads.at(0).id;
      effects_.clear();
      core_->on_loaded(load, std::move(images), effects_);
    }
    REQUIRE(std::get<wire::Adopted>(effects_.sends.at(0).message.body).ok);
  }
  void send(PeerKey from, wire::Body body, Bytes keys = {}, Bytes values = {}) {
    effects_.clear();
    core_->on_message(0, from,
                      {.envelope = {.run = 7, .view = {1, view_}, .request = RequestId{1}},
                       .body = std::move(body),
                       .keys = std::move(keys),
                       .values = std::move(values)},
                      effects_);
  }

  Rng rng_;
  std::unique_ptr<PsCore> core_;
  Effects effects_;
  uint32_t batch_ = 0, saves_ = 0, view_ = 0;
  uint64_t rows_ = 0;
  bool restored_ = false;
  std::map<uint32_t, PartitionImage> copied_, published_;
  std::map<std::pair<uint32_t, uint32_t>, PartitionImage> stored_;  // (checkpoint, partition)
  std::vector<wire::ImageRef> refs_;
  std::map<uint32_t, std::vector<wire::ImageRef>> chains_;
};

TEST_CASE("a chain of images equals the core's state, whatever happened to earlier checkpoints",
          "[ps][core]") {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    INFO("seed " << seed);
    Rng rng(seed * 1000);
    Saving saving(seed);
    ViewId published;
    uint32_t built = 0;
    for (int round = 0; round < 25; ++round) {
      for (uint64_t pushes = rng.below(4); pushes > 0; --pushes) saving.train(1 + rng.below(12));
      const ViewId base = rng.below(6) == 0 ? ViewId{} : published;
      const bool stored = saving.save(base, /*in_part=*/rng.below(5) == 0);
      if (!stored || rng.below(4) == 0) continue;  // abandoned or not published
      saving.publish();
      published = saving.id();
      built += kSavedPartitions - saving.whole_images();
      saving.check();
    }
    CHECK(built > 0);
  }
}

TEST_CASE("an image holds exactly the rows touched since the published one", "[ps][core]") {
  Saving saving(3);
  saving.publish_whole(200);
  const ViewId first = saving.id();
  CHECK(saving.whole_images() == kSavedPartitions);
  CHECK(saving.rows_told() == saving.rows());
  saving.train(5);
  REQUIRE(saving.save(first));  // never published: its rows are saved again
  const uint64_t after_one = saving.stored_rows();
  CHECK(after_one < 100);
  saving.train(5);
  REQUIRE(saving.save(first));
  CHECK(saving.stored_rows() >= after_one);
  CHECK(saving.rows_told() == saving.rows());  // of the whole core
  saving.publish();
  saving.check();
}

TEST_CASE("the first image of a restored partition is a whole image", "[ps][core]") {
  Saving saving(4);
  saving.publish_whole(50);
  const ViewId first = saving.id();
  saving.train(5);
  saving.restore({PartitionId(2), PartitionId(5)});
  REQUIRE(saving.save(first));
  CHECK(saving.whole_images() == 2);
  saving.publish();
  saving.check();
}

TEST_CASE("a partition that was restored during a checkpoint does not build on that checkpoint",
          "[ps][core]") {
  Saving saving(6);
  saving.publish_whole(50);
  saving.train(9);
  REQUIRE(saving.save(saving.id()));
  const ViewId second = saving.id();
  saving.restore({PartitionId(1)});  // from the first checkpoint: the second is not published yet
  saving.publish();
  REQUIRE(saving.save(second));
  CHECK(saving.whole_images() >= 1);
  saving.publish();
  saving.check();
}

TEST_CASE("a core without incremental_saves writes whole images even if the chief names a base",
          "[ps][core]") {
  Saving saving(5, /*incremental=*/false);
  saving.publish_whole(1);
  saving.train(3);
  REQUIRE(saving.save(saving.id()));
  CHECK(saving.whole_images() == kSavedPartitions);
}

}  // namespace
}  // namespace downpour::ps
