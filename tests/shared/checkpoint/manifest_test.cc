#include <algorithm>
#include <variant>

#include "shared/checkpoint/framed_file.h"
#include "shared/checkpoint/partition_reader.h"
#include "shared/checkpoint/schema_codec.h"
#include "tests/shared/checkpoint/support.h"

namespace downpour::checkpoint {
namespace {

Manifest published(Storage& storage, const std::string& run_dir, ViewId id) {
  Manifest manifest = write_checkpoint(storage, run_dir, id);
  REQUIRE(publish(storage, run_dir, manifest));
  return manifest;
}

void flip(const std::string& path, size_t byte) {
  PosixStorage storage;
  const Bytes bytes = *storage.read_file(path, 1 << 20);
  std::vector<uint8_t> changed(bytes.data(), bytes.data() + bytes.size());
  changed[byte] ^= 4;
  REQUIRE(storage.write_file_atomic(path, changed));
}

/// A run folder with the checkpoints {1, 1} and {1, 2}.
struct TwoCheckpoints {
  const Folder folder;
  PosixStorage storage;
  Manifest newest;

  TwoCheckpoints() {
    published(storage, path(), {1, 1});
    newest = published(storage, path(), {1, 2});
  }
  const std::string& path() const { return folder.path; }
};

TEST_CASE("a published manifest is read back unchanged", "[checkpoint]") {
  const Folder folder;
  PosixStorage storage;
  const Manifest manifest = published(storage, folder.path, {1, 2});
  std::vector<std::string> skipped;
  const auto latest = load_latest(storage, folder.path, &skipped);
  REQUIRE(latest);
  CHECK(*latest == manifest);
  CHECK(skipped.empty());
}

TEST_CASE("the highest manifest is used, ordered by term, then by number", "[checkpoint]") {
  const Folder folder;
  PosixStorage storage;
  for (const ViewId id : {ViewId{2, 9}, ViewId{10, 1}, ViewId{2, 10}, ViewId{9, 99}}) {
    published(storage, folder.path, id);
  }
  CHECK(load_latest(storage, folder.path, nullptr)->id == ViewId{10, 1});
}

TEST_CASE("a checkpoint is not used if an image file has other bytes after its last image",
          "[checkpoint]") {
  TwoCheckpoints run;
  const std::string file = checkpoint_folder(run.path(), {1, 2}) + "/" + run.newest.images[0].file;
  const Bytes whole = *run.storage.read_file(file, 1 << 20);
  const auto latest_with = [&](std::span<const uint8_t> more) {
    std::vector<uint8_t> bytes(whole.data(), whole.data() + whole.size());
    bytes.insert(bytes.end(), more.begin(), more.end());
    REQUIRE(run.storage.write_file_atomic(file, bytes));
    return load_latest(run.storage, run.path(), nullptr)->id;
  };
  CHECK(latest_with({}) == ViewId{1, 2});
  for (const size_t zeros : {1, 64, 4096})
    CHECK(latest_with(std::vector<uint8_t>(zeros)) == ViewId{1, 1});
  // An image that the manifest does not name may follow, for example of a partition that has moved.
  const auto image = whole.span().subspan(run.newest.images[1].offset, run.newest.images[1].bytes);
  CHECK(latest_with(image) == ViewId{1, 2});
  CHECK(latest_with(image.first(image.size() - 64)) == ViewId{1, 1});
}

TEST_CASE("only the heads of images are checked if the images are too large to read at the start",
          "[checkpoint]") {
  TwoCheckpoints run;
  const auto latest = [&](uint64_t verified) {
    return load_latest(run.storage, run.path(), nullptr, verified)->id;
  };
  CHECK(latest(1) == ViewId{1, 2});
  const std::string file = checkpoint_folder(run.path(), {1, 2}) + "/" + run.newest.images[0].file;
  const wire::ImageRef& second = run.newest.images[1];
  flip(file, second.offset + second.bytes - 100);  // in a section
  CHECK(latest(1) == ViewId{1, 2});
  CHECK(latest(1 << 30) == ViewId{1, 1});
  flip(file, second.offset + 60);
  CHECK(latest(0) == ViewId{1, 2});
  CHECK(latest(1) == ViewId{1, 1});
}

TEST_CASE("a torn newest manifest is skipped, with name and reason", "[checkpoint]") {
  const Folder folder;
  PosixStorage storage;
  published(storage, folder.path, {1, 1});
  published(storage, folder.path, {1, 2});
  published(storage, folder.path, {1, 3});
  flip(manifest_path(folder.path, {1, 3}), 100);
  const Bytes bytes = *storage.read_file(manifest_path(folder.path, {1, 2}), 1 << 20);
  REQUIRE(storage.write_file_atomic(manifest_path(folder.path, {1, 2}),
                                    bytes.span().first(bytes.size() / 2)));
  std::vector<std::string> skipped;
  CHECK(load_latest(storage, folder.path, &skipped)->id == ViewId{1, 1});
  REQUIRE(skipped.size() == 2);
  CHECK(skipped[0].find("manifest-1-3.dpm: damaged") == 0);
  CHECK(skipped[1].find("manifest-1-2.dpm: cut off") == 0);
}

TEST_CASE("a manifest whose image files are missing or too short is skipped", "[checkpoint]") {
  TwoCheckpoints run;
  const std::string file = checkpoint_folder(run.path(), {1, 2}) + "/" + run.newest.images[3].file;
  const uint64_t bytes = *run.storage.file_bytes(file);
  REQUIRE(run.storage.write_file_atomic(file, run.storage.read_range(file, 0, bytes - 64)->span()));
  CHECK(load_latest(run.storage, run.path(), nullptr)->id == ViewId{1, 1});
  REQUIRE(run.storage.remove(file));
  CHECK(load_latest(run.storage, run.path(), nullptr)->id == ViewId{1, 1});
}

TEST_CASE("if images are verified, a checkpoint with one flipped bit is skipped, with its place",
          "[checkpoint]") {
  TwoCheckpoints run;
  const wire::ImageRef& image = run.newest.images[3];
  const std::string file = checkpoint_folder(run.path(), {1, 2}) + "/" + image.file;
  flip(file, image.offset + image.bytes / 2);
  CHECK(load_latest(run.storage, run.path(), nullptr)->id == ViewId{1, 2});
  std::vector<std::string> skipped;
  CHECK(load_latest(run.storage, run.path(), &skipped, 1 << 20)->id == ViewId{1, 1});
  REQUIRE(skipped.size() == 1);
  CHECK(skipped[0].find(str(file, ':')) != std::string::npos);
  // too large to verify
  CHECK(load_latest(run.storage, run.path(), nullptr, 100)->id == ViewId{1, 2});
}

TEST_CASE("a manifest with the name of another one is refused", "[checkpoint]") {
  const Folder folder;
  PosixStorage storage;
  const Manifest manifest = published(storage, folder.path, {1, 1});
  REQUIRE(storage.write_file_atomic(manifest_path(folder.path, {7, 7}), encode_manifest(manifest)));
  CHECK(load_manifest(storage, manifest_path(folder.path, {7, 7})).error().code ==
        ErrorCode::kBadData);
  CHECK(load_latest(storage, folder.path, nullptr)->id == ViewId{1, 1});
}

TEST_CASE("having no checkpoint and having no intact checkpoint are different errors",
          "[checkpoint]") {
  const Folder folder;
  PosixStorage storage;
  CHECK(load_latest(storage, folder.path, nullptr).error().code == ErrorCode::kNoInput);
  published(storage, folder.path, {1, 1});
  flip(manifest_path(folder.path, {1, 1}), 40);
  const auto latest = load_latest(storage, folder.path, nullptr);
  CHECK(latest.error().code == ErrorCode::kBadData);
  CHECK(latest.error().where.find("manifest-1-1.dpm") != std::string::npos);
}

TEST_CASE("manifests are never overwritten", "[checkpoint]") {
  const Folder folder;
  PosixStorage storage;
  Manifest manifest = published(storage, folder.path, {1, 1});
  manifest.job = "another";
  CHECK(publish(storage, folder.path, manifest).error().code == ErrorCode::kCannotCreate);
  CHECK(load_latest(storage, folder.path, nullptr)->job == "name = \"test\"\n");
}

TEST_CASE("a manifest that lacks a partition or a file is not published", "[checkpoint]") {
  const Folder folder;
  PosixStorage storage;
  const Manifest good = write_checkpoint(storage, folder.path, {1, 1});
  Manifest manifest = good;
  manifest.images.pop_back();
  CHECK_FALSE(publish(storage, folder.path, manifest));
  manifest = good, manifest.images[1].partition = PartitionId{0};
  CHECK_FALSE(publish(storage, folder.path, manifest));
  manifest = good, manifest.images[1].file = "gone.ckpt";
  CHECK_FALSE(publish(storage, folder.path, manifest));
  manifest = good, manifest.images[1].file = "../../etc/passwd";
  CHECK_FALSE(publish(storage, folder.path, manifest));
  manifest = good,
  manifest.tables[1].table_variables[0].shape = {UINT32_MAX, UINT32_MAX, UINT32_MAX};
  CHECK_FALSE(publish(storage, folder.path, manifest));
  manifest = good, manifest.ownership_generations.pop_back();
  CHECK_FALSE(publish(storage, folder.path, manifest));
  manifest = good, manifest.given = {};
  CHECK_FALSE(publish(storage, folder.path, manifest));
  manifest = good, manifest.best = {1, 2};
  CHECK_FALSE(publish(storage, folder.path, manifest));
  manifest = good, manifest.partitions = 3;
  CHECK_FALSE(publish(storage, folder.path, manifest));
  CHECK(publish(storage, folder.path, good));
}

TEST_CASE("if a chief stops at any point while publishing, the old or the new checkpoint is read",
          "[checkpoint]") {
  for (int crash_at = 1;; ++crash_at) {
    const Folder folder;
    PosixStorage disk;
    const Manifest old = published(disk, folder.path, {1, 1});
    CrashingStorage crashing(crash_at);
    const Manifest next = write_checkpoint(crashing, folder.path, {1, 2});
    const bool complete = bool(publish(crashing, folder.path, next));
    const auto latest = load_latest(disk, folder.path, nullptr);
    REQUIRE(latest);
    CHECK((*latest == old || *latest == next));
    for (const wire::ImageRef& ref : latest->images) {
      CHECK(read_image(disk, checkpoint_folder(folder.path, latest->id), ref, latest->tables));
    }
    if (complete) {
      CHECK(*latest == next);
      CHECK(crash_at > 10);
      break;
    }
  }
}

TEST_CASE(
    "if the removal of old checkpoints stops at any point, the newest stay, and the next removal "
    "finishes",
    "[checkpoint]") {
  for (int crash_at = 1;; ++crash_at) {
    const Folder folder;
    PosixStorage disk;
    for (uint32_t n = 1; n <= 4; ++n) published(disk, folder.path, {1, n});
    write_checkpoint(disk, folder.path, {2, 1});  // never published, because its chief died
    published(disk, folder.path, {3, 1});
    const Manifest newest = published(disk, folder.path, {3, 2});
    write_checkpoint(disk, folder.path, {3, 3});  // still being written
    REQUIRE(disk.write_file_atomic(checkpoints_dir(folder.path) + "/.manifest-1-4.dpm.tmp-1-1",
                                   as_bytes("x")));
    CrashingStorage crashing(crash_at);
    const bool complete = bool(remove_old(crashing, folder.path, 2));
    CHECK(*load_latest(disk, folder.path, nullptr) == newest);
    CHECK(load_manifest(disk, manifest_path(folder.path, {3, 1})));
    REQUIRE(remove_old(disk, folder.path, 2));
    CHECK(*disk.list(checkpoints_dir(folder.path)) ==
          std::vector<std::string>{"3-1", "3-2", "3-3", "manifest-3-1.dpm", "manifest-3-2.dpm"});
    if (complete) break;
    REQUIRE(crash_at < 100);
  }
}

TEST_CASE("the best checkpoint is kept as long as a kept manifest names it", "[checkpoint]") {
  const Folder folder;
  PosixStorage storage;
  for (uint32_t n = 1; n <= 5; ++n) {
    Manifest manifest = write_checkpoint(storage, folder.path, {1, n});
    manifest.best = n == 5 ? ViewId{1, 4} : n >= 2 ? ViewId{1, 2} : ViewId{};
    REQUIRE(publish(storage, folder.path, manifest));
    if (n == 4) {
      REQUIRE(remove_old(storage, folder.path, 1));
      CHECK(*storage.list(checkpoints_dir(folder.path)) ==
            std::vector<std::string>{"1-2", "1-4", "manifest-1-2.dpm", "manifest-1-4.dpm"});
      const Manifest newest = *load_latest(storage, folder.path, nullptr);
      CHECK(load_best(storage, folder.path, newest)->id == ViewId{1, 2});
    }
  }
  REQUIRE(remove_old(storage, folder.path, 1));
  CHECK(*storage.list(checkpoints_dir(folder.path)) ==
        std::vector<std::string>{"1-4", "1-5", "manifest-1-4.dpm", "manifest-1-5.dpm"});
}

TEST_CASE("instead of a damaged or missing best checkpoint the newest is used, with a reason",
          "[checkpoint]") {
  const Folder folder;
  PosixStorage storage;
  published(storage, folder.path, {1, 1});
  Manifest newest = write_checkpoint(storage, folder.path, {1, 2});
  newest.best = {1, 1};
  REQUIRE(publish(storage, folder.path, newest));
  std::vector<std::string> reasons;
  CHECK(load_used(storage, folder.path, newest, &reasons).id == ViewId{1, 1});
  CHECK(reasons.empty());
  flip(manifest_path(folder.path, {1, 1}), 50);
  CHECK(load_best(storage, folder.path, newest).error().code == ErrorCode::kBadData);
  CHECK(load_used(storage, folder.path, newest, &reasons).id == ViewId{1, 2});
  REQUIRE(reasons.size() == 1);
  CHECK(reasons[0].starts_with("the best checkpoint, 1.1, can't be read: "));
  REQUIRE(storage.remove(manifest_path(folder.path, {1, 1})));
  CHECK(load_best(storage, folder.path, newest).error().code == ErrorCode::kNoInput);
  CHECK(load_used(storage, folder.path, newest, nullptr).id == ViewId{1, 2});
}

TEST_CASE("damaged checkpoints do not count as kept ones", "[checkpoint]") {
  const Folder folder;
  PosixStorage storage;
  for (uint32_t n = 1; n <= 4; ++n) published(storage, folder.path, {1, n});
  flip(manifest_path(folder.path, {1, 3}), 50);
  flip(manifest_path(folder.path, {1, 4}), 50);
  REQUIRE(remove_old(storage, folder.path, 2));
  CHECK(load_latest(storage, folder.path, nullptr)->id == ViewId{1, 2});
  CHECK(load_manifest(storage, manifest_path(folder.path, {1, 1})));
}

TEST_CASE("any flipped bit and every truncation of a manifest is refused, with its path",
          "[checkpoint]") {
  const Folder folder;
  PosixStorage storage;
  std::vector<uint8_t> bytes = encode_manifest(write_checkpoint(storage, folder.path, {1, 1}));
  REQUIRE(decode_manifest(bytes, "m"));
  for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    bytes[bit / 8] ^= uint8_t(1 << bit % 8);
    const auto decoded = decode_manifest(bytes, "some/manifest");
    bytes[bit / 8] ^= uint8_t(1 << bit % 8);
    if (decoded || decoded.error().where.rfind("some/manifest", 0) != 0) FAIL("bit " << bit);
    if (decoded.error().code != ErrorCode::kBadData)
      FAIL("bit " << bit << ": " << decoded.error().what);
  }
  for (size_t size = 0; size < bytes.size(); ++size) {
    if (decode_manifest(std::span(bytes).first(size), "m")) FAIL("cut at " << size);
  }
  bytes.push_back(0);
  CHECK_FALSE(decode_manifest(bytes, "m"));
}

TEST_CASE("manifest bodies of random words never crash the decoder", "[checkpoint]") {
  const Folder folder;
  PosixStorage storage;
  const std::vector<uint8_t> good =
      encode_placed_manifest_body(write_checkpoint(storage, folder.path, {1, 1}));
  Rng rng(1);
  for (int i = 0; i < 20'000; ++i) {
    std::vector<uint8_t> body = good;
    for (uint64_t changes = 1 + rng.below(4); changes > 0; --changes) {
      body[rng.below(body.size())] = rng.below(2) == 0 ? uint8_t(rng.next()) : uint8_t(0xff);
    }
    (void)decode_manifest(frame("DPMANIF", kPlacedManifestFormat, body), "m");
  }
  CHECK_FALSE(decode_placed_manifest_body({}));
  CHECK_FALSE(decode_placed_manifest_body(std::span(good).first(9)));
  CHECK_FALSE(decode_manifest(frame("DPMANIF", 1, std::vector<uint8_t>(800)),
                              // all zeros are a valid message
                              "m"));
  CHECK(decode_manifest(frame("DPMANIF", 4, good), "m").error().code == ErrorCode::kUnsupported);
}

TEST_CASE("every setting of every optimizer is stored, and an unknown optimizer is refused",
          "[checkpoint]") {
  for (const OptimizerInfo& info : kOptimizers) {
    for (const OptimizerSetting& setting : info.settings) {
      Manifest manifest{.tables = test_tables()};
      OptimizerSpec& spec = manifest.tables[0].table_variables[0].optimizer;
      spec = info.defaults;
      if (const auto* number = std::get_if<float OptimizerSpec::*>(&setting.member)) {
        spec.** number = 0.625F;
      } else {
        spec.*std::get<bool OptimizerSpec::*>(setting.member) = true;
      }
      const auto decoded = decode_manifest_body(encode_manifest_body(manifest));
      INFO(info.name << '.' << setting.key);
      REQUIRE(decoded);
      CHECK(decoded->tables[0].table_variables[0].optimizer == spec);
    }
  }
  Manifest later{.tables = test_tables()};
  later.tables[0].table_variables[0].optimizer.type = OptimizerType(kOptimizers.size());
  const auto refused = decode_manifest_body(encode_manifest_body(later));
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == ErrorCode::kUnsupported);
}

TEST_CASE("golden manifest of format 1", "[checkpoint][golden]") {
  const std::string path = std::string(DP_GOLDEN_DIR) + "/manifest-3-17.dpm";
  PosixStorage storage;
  Manifest manifest{.id = {3, 17},
                    .run = 0x0123456789abcdef,
                    .plan_hash = 42,
                    .job = "name = \"golden\"\n",
                    .partitions = 2};
  manifest.tables = test_tables();
  manifest.images = {{PartitionId{0}, "ps-0-0-0000000000000001.ckpt", 0, 4096, 11},
                     {PartitionId{1}, "ps-0-0-0000000000000001.ckpt", 4096, 64, 12}};
  manifest.completed_epochs = 2, manifest.sealed_epochs = 2;
  manifest.epochs = {{0, 4, {.batches = 8, .read = 80, .applied = 80}, R"({"loss":0.5})"}};
  manifest.rows = 5, manifest.build = "0.1.0", manifest.created_unix_s = 1'700'000'000;
  const auto golden = load_manifest(storage, path);
  REQUIRE(golden);
  CHECK(*golden == manifest);
}

}  // namespace
}  // namespace downpour::checkpoint
