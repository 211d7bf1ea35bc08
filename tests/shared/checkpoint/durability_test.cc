// Power cuts at every single change of the disk, and damage to every bit.
#include <algorithm>
#include <set>

#include "shared/checkpoint/image_layout.h"
#include "shared/checkpoint/partition_reader.h"
#include "tests/shared/checkpoint/lossy_storage.h"
#include "tests/shared/checkpoint/support.h"

namespace downpour::checkpoint {
namespace {

struct Recovered {
  Manifest manifest;
  std::vector<PartitionImage> images;
  bool operator==(const Recovered&) const = default;
};

Recovered recover(Storage& storage) {
  std::vector<std::string> skipped;
  auto manifest = load_latest(storage, "/run", &skipped);
  REQUIRE(manifest);
  Recovered recovered{.manifest = *manifest, .images = {}};
  for (const wire::ImageRef& ref : manifest->images) {
    auto image =
        read_image(storage, checkpoint_folder("/run", manifest->id), ref, manifest->tables);
    INFO((image ? std::string() : image.error().what));
    REQUIRE(image);
    recovered.images.push_back(std::move(*image));
  }
  return recovered;
}

/// Saves and publishes a checkpoint and removes old ones. Returns false if the power failed.
bool save(Storage& storage, ViewId id) {
  const Manifest next = write_checkpoint(storage, "/run", id);
  return publish(storage, "/run", next) && remove_old(storage, "/run", 2);
}

LossyStorage disk_with_history() {
  LossyStorage disk;
  for (uint32_t n = 1; n <= 3; ++n) REQUIRE(save(disk, {1, n}));
  write_checkpoint(disk, "/run", {1, 4});  // never published; the next save removes it
  return disk.after_power_cut(Survivors::kEverything, 1);
}

TEST_CASE("a power cut at any change of the disk leaves the old checkpoint or the new one",
          "[checkpoint][durability]") {
  LossyStorage before = disk_with_history();
  const Recovered old = recover(before);
  REQUIRE(old.manifest.id == ViewId{1, 3});
  LossyStorage through = disk_with_history();
  REQUIRE(save(through, {2, 1}));
  const Recovered next = recover(through);
  const uint64_t changes = through.changes();
  REQUIRE(changes > 20);
  std::set<std::string> kinds;
  for (const std::string& change : through.log()) kinds.insert(change.substr(0, change.find(' ')));
  REQUIRE(kinds == std::set<std::string>{"create", "fsync", "mkdir", "remove", "rename", "write"});

  uint32_t olds = 0, news = 0;
  for (uint64_t at = 1; at <= changes; ++at) {
    LossyStorage dying = disk_with_history();
    dying.die_at(at);
    CHECK_FALSE(save(dying, {2, 1}));
    for (const Survivors survivors : {Survivors::kNothing, Survivors::kEverything, Survivors::kSome,
                                      Survivors::kSome, Survivors::kSome, Survivors::kSome}) {
      INFO("change " << at << ": " << dying.log().back() << ", survivors " << int(survivors));
      LossyStorage found = dying.after_power_cut(survivors, at * 100 + olds + news);
      const Recovered recovered = recover(found);
      CHECK((recovered == old || recovered == next));
      ++(recovered == old ? olds : news);
      // The run continues: the next checkpoint is published, and leftovers are removed.
      REQUIRE(save(found, {3, 1}));
      const auto left = found.list(checkpoints_dir("/run"));
      REQUIRE(left);
      CHECK(left->size() == 4);  // two checkpoints, each with its manifest
      CHECK(std::none_of(left->begin(), left->end(), [](const auto& n) { return n[0] == '.'; }));
    }
  }
  CHECK(olds > 50);
  CHECK(news > 20);
}

TEST_CASE("a full disk at any write leaves the old checkpoint, and another attempt frees space",
          "[checkpoint][durability]") {
  for (uint64_t at = 1; at < 60; ++at) {
    LossyStorage disk = disk_with_history();
    disk.die_at(at);
    const bool saved = save(disk, {2, 1});
    disk.die_at(0);
    CHECK(recover(disk).manifest.id >= ViewId{1, 3});
    REQUIRE(save(disk, {2, 2}));
    CHECK(recover(disk).manifest.id == ViewId{2, 2});
    if (saved) return;
  }
  FAIL("it never went through");
}

std::vector<uint8_t> image_of_bytes(const std::string& folder, size_t wanted) {
  PosixStorage storage;
  for (uint64_t rows = wanted / 128;; ++rows) {
    const PartitionImage image = random_image(1, rows, 7);
    const auto refs =
        write_images(storage, folder, str("f", rows), std::span(&image, 1), test_tables());
    REQUIRE(refs);
    if (refs->at(0).bytes < wanted) continue;
    const Bytes bytes = *storage.read_file(str(folder, "/f", rows), 1 << 20);
    return {bytes.data(), bytes.data() + bytes.size()};
  }
}

/// Returns true if `bytes` are refused. The reference in the manifest would detect the damage, too.
bool refused(const std::vector<uint8_t>& bytes, size_t length) {
  const auto image = decode_image(std::span(bytes).first(length), test_tables(), "f", 0);
  return !image && !image.error().where.empty();
}

void check_damage(size_t image_bytes, size_t bit_step, size_t length_step) {
  const Folder folder;
  std::vector<uint8_t> bytes = image_of_bytes(folder.path, image_bytes);
  REQUIRE_FALSE(refused(bytes, bytes.size()));
  size_t undetected = 0, cases = 0;
  for (size_t bit = 0; bit < bytes.size() * 8; bit += bit_step, ++cases) {
    bytes[bit / 8] ^= uint8_t(1U << (bit % 8));
    undetected += refused(bytes, bytes.size()) ? 0 : 1;
    bytes[bit / 8] ^= uint8_t(1U << (bit % 8));
  }
  for (size_t length = 0; length < bytes.size(); length += length_step, ++cases) {
    undetected += refused(bytes, length) ? 0 : 1;
  }
  CHECK(undetected == 0);
  CHECK(cases >= (image_bytes * 8) / bit_step);
}

TEST_CASE("flipped bits and truncations of an image are refused (a sample, 64 KiB)",
          "[checkpoint][durability]") {
  check_damage(64 * 1024, 131, 37);
}

TEST_CASE("each of 524,288 flipped bits and every truncation is refused (64 KiB)",
          "[.][slow][checkpoint][durability]") {
  check_damage(64 * 1024, 1, 1);
}

}  // namespace
}  // namespace downpour::checkpoint
