// Moves of partitions between real shells, over messages and real files, bit for bit.
#include <algorithm>
#include <filesystem>
#include <memory>
#include <thread>

#include <catch2/catch.hpp>

#include "ps/runtime/ps_node.h"
#include "shared/base/hash.h"
#include "shared/base/rng.h"
#include "shared/checkpoint/run_file.h"
#include "tests/support/kept_sends.h"
#include "tests/support/scratch_dir.h"

namespace downpour::ps {
namespace {

using Wire = testing::KeptSends;

constexpr uint64_t kRun = 7;
constexpr uint32_t kPartitions = 16;
constexpr transport::PeerId kWorker{2};

// Adam has two slots per weight.
constexpr const char* kJob = R"(
partitions = 16
data = { source = "x.svm", format = "libsvm" }
model.layers = [{ name = "rows", type = "embedding", inputs = ["features"], dim = 4, pool = "sum" },
                { name = "out", type = "dense", inputs = ["rows"], units = 1 }]
model.outputs = [{ name = "y", input = "out", loss = "logistic", target = "label" }]
optimizer = { type = "adam", learning_rate = 0.01 }
)";

struct Shell {
  Shell(uint32_t i, Storage& storage, const std::string& run_dir, uint64_t inline_bytes_max)
      : index(i) {
    PsOptions options;
    options.chief = options.endpoint = "inproc://x";
    options.incarnation = incarnation();
    options.touch_pages = false;
    options.inline_bytes_max = inline_bytes_max;
    node = std::make_unique<PsNode>(wire, storage, std::move(options));
    REQUIRE(node->start(0));
    tell(wire::Welcome{
        .index = index, .job = kJob, .base_dir = "/", .run_dir = run_dir, .heartbeat_ns = kSecond});
    REQUIRE(node->core() != nullptr);
  }
  Incarnation incarnation() const { return Incarnation{100 + index}; }
  void tell(wire::Body body, Bytes values = {}) {
    node->on_message(0, Wire::kConnected, Wire::kChief,
                     message_of(std::move(body), {}, std::move(values)));
  }
  wire::Message message_of(wire::Body body, Bytes keys, Bytes values) const {
    return {.envelope = {.run = kRun, .view = view, .request = RequestId{5}},
            .body = std::move(body),
            .keys = std::move(keys),
            .values = std::move(values)};
  }
  /// Waits until background work is done. Returns the answer of this kind.
  template <typename Body>
  wire::Message answer() {
    for (int turn = 0; turn < 5000; ++turn) {
      node->pump(0);
      for (const auto& [to, message] : wire.sent) {
        if (!std::holds_alternative<Body>(message.body)) continue;
        const wire::Message found = message;
        wire.sent.clear();
        return found;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    FAIL("no answer");
    return {};
  }
  const Partitions& partitions() const { return node->core()->partitions(); }

  uint32_t index;
  ViewId view;
  Wire wire;
  std::unique_ptr<PsNode> node;
};

class Cluster {
 public:
  explicit Cluster(uint64_t inline_bytes_max) {
    REQUIRE(checkpoint::write_run(storage_, dir_.path(), {.id = kRun}));
    for (uint32_t i = 0; i < 5; ++i) {
      shells_.push_back(std::make_unique<Shell>(i, storage_, dir_.path(), inline_bytes_max));
    }
    for (uint32_t p = 0; p < kPartitions; ++p) placements_.push_back({p % 3, {1, 1}});
    for (uint32_t i = 0; i < 3; ++i) {
      wire::Adopt adopt{.ownership_generation = {1, 1}};
      for (uint32_t p = i; p < kPartitions; p += 3) adopt.partitions.push_back(PartitionId(p));
      shells_[i]->tell(adopt);
    }
    publish();
  }

  /// Pushes a batch with some rows of each table to every owner.
  void push(uint32_t batch) {
    Rng rng(batch);
    for (const auto& shell : shells_) {
      wire::Push push{
          .worker = Incarnation{9}, .batch = {0, 3, batch}, .records = 2, .records_hash = batch};
      for (uint32_t p = 0; p < kPartitions; ++p) {
        if (placements_[p].owner == shell->index) push.covered.insert(PartitionId(p));
      }
      if (push.covered.words.empty()) continue;
      std::vector<uint64_t> keys;
      std::vector<float> values;
      for (size_t t = 0; t < shell->partitions().table_count(); ++t) {
        const TableId table{uint32_t(t)};
        const TableSpec& spec = shell->partitions().spec(table);
        const uint64_t end = spec.kind == TableKind::kDense ? spec.block_count() : 300;
        std::vector<uint64_t> own;
        for (uint64_t key = 0; key < end; ++key) {
          if (push.covered.contains(partition_of(row_hash(table, key), 4))) own.push_back(key);
        }
        push.sections.push_back({table, uint32_t(own.size())});
        for (size_t m = 0; m < spec.table_variables.size(); ++m) {
          for (const uint64_t key : own) {
            for (uint32_t f = 0; f < spec.row_floats(m, key); ++f)
              values.push_back(float(rng.uniform64()) - 0.5F);
          }
        }
        keys.insert(keys.end(), own.begin(), own.end());
      }
      shell->node->on_message(
          0, Wire::kBound, kWorker,
          shell->message_of(push, Bytes::of(std::move(keys)), Bytes::of(std::move(values))));
      const auto reply = std::get<wire::PushReply>(shell->answer<wire::PushReply>().body);
      REQUIRE(reply.others.empty());
    }
  }

  void move(uint32_t from, uint32_t to, const std::vector<PartitionId>& partitions) {
    const ViewId ownership_generation{1, ++n_};
    shells_[from]->tell(wire::Freeze{.ownership_generation = ownership_generation,
                                     .partitions = partitions,
                                     .folder = folder()});
    const wire::Message frozen = shells_[from]->answer<wire::Frozen>();
    const auto& body = std::get<wire::Frozen>(frozen.body);
    INFO(body.error);
    REQUIRE(body.ok);
    files_ += frozen.values.empty() ? 1 : 0;
    if (frozen.values.empty()) CHECK(std::filesystem::exists(folder() + "/" + body.images[0].file));
    shells_[to]->tell(wire::Adopt{.ownership_generation = ownership_generation,
                                  .partitions = partitions,
                                  .folder = folder(),
                                  .images = body.images},
                      frozen.values);
    const auto adopted = std::get<wire::Adopted>(shells_[to]->answer<wire::Adopted>().body);
    INFO(adopted.error);
    REQUIRE(adopted.ok);
    for (const PartitionId p : partitions) placements_[raw(p)] = {to, ownership_generation};
    publish();
  }

  std::vector<checkpoint::PartitionImage> images() const {
    std::vector<checkpoint::PartitionImage> images;
    for (uint32_t p = 0; p < kPartitions; ++p) {
      const Partitions& partitions = shells_[placements_[p].owner]->partitions();
      REQUIRE(partitions.serves(PartitionId(p)));
      images.push_back(partitions.export_image(PartitionId(p)));
    }
    return images;
  }
  std::vector<PartitionId> owned(uint32_t by) const {
    std::vector<PartitionId> owned;
    for (uint32_t p = 0; p < kPartitions; ++p) {
      if (placements_[p].owner == by) owned.push_back(PartitionId(p));
    }
    return owned;
  }
  /// Waits until the background has removed the files of the moves.
  bool folder_is_empty() {
    for (int turn = 0; turn < 5000; ++turn) {
      if (!std::filesystem::exists(folder()) || std::filesystem::is_empty(folder())) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return false;
  }
  uint32_t files() const { return files_; }

 private:
  std::string folder() const { return dir_ / "moves"; }
  void publish() {
    wire::View view{.id = {1, n_}, .owners = {}, .partitions = placements_};
    for (const auto& shell : shells_)
      view.owners.push_back(
          {.index = shell->index, .incarnation = shell->incarnation(), .endpoint = "x"});
    for (const auto& shell : shells_) {
      shell->view = view.id;
      shell->tell(view);
    }
  }

  testing::ScratchDir dir_;
  PosixStorage storage_;
  std::vector<std::unique_ptr<Shell>> shells_;
  std::vector<wire::Placement> placements_;
  uint32_t n_ = 1;
  uint32_t files_ = 0;
};

TEST_CASE(
    "moves from 3 to 5 and back to 3 ps keep every weight, slot, version and watermark bit for "
    "bit, over files and messages",
    "[ps][moves]") {
  for (const uint64_t inline_bytes_max : {uint64_t{0}, uint64_t{wire::kFrameBytesMax}}) {
    INFO("inline up to " << inline_bytes_max);
    Cluster cluster(inline_bytes_max);
    for (uint32_t batch = 0; batch < 3; ++batch) cluster.push(batch);
    const std::vector<checkpoint::PartitionImage> before = cluster.images();
    bool slots = false;
    for (const checkpoint::PartitionImage& image : before) {
      CHECK(image.version == 3);
      REQUIRE(image.shards.size() == 1);
      CHECK(image.shards[0].watermark == 3);
      for (const auto& table : image.tables)
        slots |= table.table_variables[0].size() >= 3 * 4 * table.keys.size();
    }
    REQUIRE(slots);
    for (const uint32_t joined : {3U, 4U}) {
      for (uint32_t from = 0; from < 3; ++from)
        cluster.move(from, joined, {cluster.owned(from).back()});
    }
    CHECK(cluster.images() == before);
    cluster.push(3);  // they continue where they were
    const std::vector<checkpoint::PartitionImage> between = cluster.images();
    for (const checkpoint::PartitionImage& image : between) CHECK(image.version == 4);
    for (const uint32_t leaves : {4U, 3U}) cluster.move(leaves, leaves % 3, cluster.owned(leaves));
    CHECK(cluster.images() == between);
    CHECK(cluster.files() == (inline_bytes_max == 0 ? 8U : 0U));
    CHECK(cluster.folder_is_empty());
    cluster.push(4);
  }
}

TEST_CASE("a ps joins only a chief whose run lies in the folder that the chief names",
          "[ps][links]") {
  const testing::ScratchDir dir;
  PosixStorage storage;
  REQUIRE(checkpoint::write_run(storage, dir / "mine", {.id = kRun}));
  REQUIRE(checkpoint::write_run(storage, dir / "other", {.id = kRun + 1}));
  std::filesystem::create_directory(dir / "linked");
  std::filesystem::create_symlink(dir / "mine/run", dir / "linked/run");
  const auto welcomed = [&](const std::string& run_dir) {
    PsOptions options;
    options.chief = options.endpoint = "inproc://x";
    options.incarnation = Incarnation{1};
    options.touch_pages = false;
    Wire wire;
    PosixStorage own;
    PsNode node(wire, own, std::move(options));
    REQUIRE(node.start(0));
    node.on_message(
        0, Wire::kConnected, Wire::kChief,
        {.envelope = {.run = kRun},
         .body = wire::Welcome{
             .job = kJob, .base_dir = "/", .run_dir = run_dir, .heartbeat_ns = kSecond}});
    if (node.core() == nullptr) CHECK(node.exit_code() != 0);
    return node.core() != nullptr ? std::string() : node.exit_reason();
  };
  CHECK(welcomed(dir / "mine").empty());
  CHECK_THAT(welcomed(dir / "other"), Catch::Contains("another run"));
  CHECK_THAT(welcomed(dir / "none"), Catch::Contains(dir / "none"));
  CHECK_THAT(welcomed(""),
             Catch::Contains("the chief did not send an absolute path of its run folder"));
  CHECK_THAT(welcomed("mine"),
             Catch::Contains("the chief did not send an absolute path of its run folder"));
  CHECK_THAT(welcomed(dir / "linked"), Catch::Contains("symbolic link"));
}

TEST_CASE("a ps repeats its Hello until a restarted chief welcomes it", "[ps]") {
  const testing::ScratchDir dir;
  PosixStorage storage;
  REQUIRE(checkpoint::write_run(storage, dir.path(), {.id = kRun}));
  Shell ps(0, storage, dir.path(), 0);
  const auto hellos = [&ps] {
    const auto count = std::count_if(
        ps.wire.sent.begin(), ps.wire.sent.end(),
        [](const auto& sent) { return std::holds_alternative<wire::Hello>(sent.message.body); });
    ps.wire.sent.clear();
    return count;
  };
  const auto pump_until = [&ps](int64_t begin_ns, int64_t end_ns) {
    for (int64_t now_ns = begin_ns; now_ns < end_ns; now_ns += 100 * kMillisecond)
      ps.node->pump(now_ns);
  };
  pump_until(0, kSecond);
  CHECK(hellos() == 1);  // the Hello that joined
  ps.node->on_message(kSecond, Wire::kConnected, Wire::kChief,
                      ps.message_of(wire::Reject{ErrorCode::kUnavailable, "say Hello"}, {}, {}));
  CHECK(hellos() == 1);
  pump_until(kSecond, 3 * kSecond);
  CHECK(hellos() == 3);  // one every half second
  ps.tell(wire::Welcome{
      .index = 0, .job = kJob, .base_dir = "/", .run_dir = dir.path(), .heartbeat_ns = kSecond});
  pump_until(3 * kSecond, 5 * kSecond);
  CHECK(hellos() == 0);
}

}  // namespace
}  // namespace downpour::ps
