// Chains of images: incremental images read together with their base give the full state.
#include <cstdlib>
#include <map>
#include <set>

#include "shared/checkpoint/image_layout.h"
#include "shared/checkpoint/partition_reader.h"
#include "shared/checkpoint/run_file.h"
#include "shared/checkpoint/summary.h"
#include "tests/shared/checkpoint/lossy_storage.h"
#include "tests/shared/checkpoint/support.h"

namespace downpour::checkpoint {
namespace {

constexpr uint32_t kPartitions = 4;
const std::vector<TableSpec> kChainTables = test_tables();

/// A run that first saves everything, then only changed rows. It also keeps the expected full state
/// of each checkpoint.
class Saver {
 public:
  Saver(Storage& storage, std::string run_dir, uint64_t seed)
      : storage_(storage), run_dir_(std::move(run_dir)), rng_(seed) {
    for (uint32_t p = 0; p < kPartitions; ++p) whole_.push_back(random_image(p, 20, seed + p));
  }

  /// Changes some rows, adds some, and replaces everything except rows.
  void train() {
    for (uint32_t p = 0; p < kPartitions; ++p) {
      const PartitionImage drawn = random_image(p, rng_.below(6), rng_.next());
      PartitionImage next = drawn;
      if (next.tables.empty() || raw(next.tables[0].table) != 0) {
        touched_[p] = next;
        continue;
      }
      TableImage& rows = next.tables[0];
      // Half of the keys are known ones.
      std::set<uint64_t> keys(rows.keys.begin(), rows.keys.end());
      const auto& known = whole_[p].tables.at(0).keys;
      const size_t repeated = rows.keys.size();
      for (size_t i = 0; i < repeated; i += 2) keys.insert(known[rng_.below(known.size())]);
      rows.keys.assign(keys.begin(), keys.end());
      for (PageVector<float>& floats : rows.table_variables) floats.clear();
      for (size_t i = 0; i < rows.keys.size(); ++i) {
        for (int f = 0; f < 3; ++f) rows.table_variables[0].push_back(rng_.uniform());
        for (int f = 0; f < 8; ++f) rows.table_variables[1].push_back(rng_.uniform());
      }
      touched_[p] = next;
    }
  }

  /// Writes and publishes `id`; with `build`, as incremental images of the published checkpoint.
  /// Returns false if the disk died.
  bool save(ViewId id, bool build) {
    std::vector<PartitionImage> images;
    for (uint32_t p = 0; p < kPartitions; ++p) {
      const auto touched = touched_.find(p);
      if (touched != touched_.end()) {
        put(whole_[p], touched->second);
      }
      PartitionImage image = whole_[p];
      if (build && touched != touched_.end()) {
        image = touched->second;
        image.base = chains_.at(p).back().checksum;
      }
      images.push_back(std::move(image));
    }
    Manifest manifest = write_checkpoint(storage_, run_dir_, id, 0);
    const auto refs =
        write_images(storage_, checkpoint_folder(run_dir_, id), "ps.ckpt", images, kChainTables);
    if (!refs) return false;
    manifest.images = *refs;
    for (uint32_t p = 0; p < kPartitions; ++p) {
      if (manifest.images[p].base == 0) continue;
      manifest.bases.insert(manifest.bases.end(), chains_[p].begin(), chains_[p].end());
    }
    if (!publish(storage_, run_dir_, manifest)) return false;
    chains_ = chains_of(manifest);
    touched_.clear();
    return true;
  }

  /// Saves {1, 1} as whole images, then {1, 2} to {1, last} with what has been trained since.
  void save_series(uint32_t last) {
    REQUIRE(save({1, 1}, false));
    for (uint32_t n = 2; n <= last; ++n) {
      train();
      REQUIRE(save({1, n}, true));
    }
  }

  const std::vector<PartitionImage>& whole() const { return whole_; }
  const std::vector<std::vector<wire::ImageRef>>& chains() const { return chains_; }

 private:
  using Rows = std::map<uint64_t, std::vector<float>>;
  static void add_rows(const TableImage& from, size_t m, Rows& rows) {
    const TableSpec& spec = kChainTables[raw(from.table)];
    const uint32_t copies = *stored_copies(spec, m, from.keys, from.table_variables[m].size());
    const float* at = from.table_variables[m].data();
    for (const uint64_t key : from.keys) {
      const size_t floats = size_t{copies} * spec.row_floats(m, key);
      rows[key] = {at, at + floats};
      at += floats;
    }
  }
  /// A slow and simple implementation of build_on().
  static void put(PartitionImage& whole, const PartitionImage& next) {
    std::vector<TableImage> tables = whole.tables;
    for (const TableImage& table : next.tables) {
      const auto old = std::find_if(tables.begin(), tables.end(),
                                    [&](const TableImage& t) { return t.table == table.table; });
      REQUIRE(old != tables.end());
      TableImage merged{.table = table.table, .keys = {}, .table_variables = {}};
      for (size_t m = 0; m < table.table_variables.size(); ++m) {
        Rows rows;
        add_rows(*old, m, rows);
        add_rows(table, m, rows);
        merged.keys.clear();
        merged.table_variables.emplace_back();
        for (const auto& [key, floats] : rows) {
          merged.keys.push_back(key);
          merged.table_variables[m].insert(merged.table_variables[m].end(), floats.begin(),
                                           floats.end());
        }
      }
      *old = std::move(merged);
    }
    whole = next;
    whole.tables = std::move(tables);
  }

  Storage& storage_;
  std::string run_dir_;
  Rng rng_;
  std::vector<PartitionImage> whole_;
  std::map<uint32_t, PartitionImage> touched_;
  std::vector<std::vector<wire::ImageRef>> chains_;
};

/// A run folder, and the saver of its checkpoints.
struct SavedRun {
  explicit SavedRun(uint64_t seed) : saver(storage, folder.path, seed) {}
  const Folder folder;
  PosixStorage storage;
  Saver saver;
};

std::vector<PartitionImage> read_all(Storage& storage, const std::string& run_dir,
                                     const Manifest& manifest) {
  std::vector<PartitionImage> images;
  for (const auto& chain : chains_of(manifest)) {
    auto image =
        read_partition(storage, checkpoint_folder(run_dir, manifest.id), chain, manifest.tables);
    INFO((image ? std::string() : image.error().what));
    REQUIRE(image);
    images.push_back(std::move(*image));
  }
  return images;
}

TEST_CASE("a chain of images reads as the full image, bit for bit", "[checkpoint]") {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SavedRun run(seed);
    auto& [folder, storage, saver] = run;
    REQUIRE(saver.save({1, 1}, false));
    for (uint32_t n = 2; n <= 6; ++n) {
      saver.train();
      REQUIRE(saver.save({1, n}, true));
      const auto manifest = load_latest(storage, folder.path, nullptr, 1 << 20);
      REQUIRE(manifest);
      CHECK(manifest->bases.size() == (n - 1) * kPartitions);
      CHECK(read_all(storage, folder.path, *manifest) == saver.whole());
    }
  }
}

TEST_CASE("a manifest has the oldest format that can hold its content", "[checkpoint]") {
  const Folder folder;
  PosixStorage storage;
  Manifest manifest = write_checkpoint(storage, folder.path, {1, 2});
  CHECK(encode_manifest(manifest)[8] == 3);
  manifest.ownership_generations.clear();
  CHECK(encode_manifest(manifest)[8] == 1);
  manifest.bases = {manifest.images[0]};
  CHECK(encode_manifest(manifest)[8] == 2);
}

TEST_CASE("a flipped bit anywhere in a chain is refused, and nothing is read in part",
          "[checkpoint]") {
  SavedRun run(7);
  auto& [folder, storage, saver] = run;
  saver.save_series(2);
  const std::vector<wire::ImageRef> chain = saver.chains()[1];
  REQUIRE(chain.size() == 2);
  const std::string images = checkpoint_folder(folder.path, {1, 2});
  REQUIRE(read_partition(storage, images, chain, kChainTables));
  for (const wire::ImageRef& ref : chain) {
    const std::string path = image_path(images, ref);
    const Bytes good = *storage.read_file(path, 1 << 20);
    std::vector<uint8_t> bytes(good.data(), good.data() + good.size());
    for (uint64_t bit = ref.offset * 8; bit < (ref.offset + ref.bytes) * 8; bit += 13) {
      bytes[bit / 8] ^= uint8_t(1U << (bit % 8));
      REQUIRE(storage.write_file_atomic(path, bytes));
      bytes[bit / 8] ^= uint8_t(1U << (bit % 8));
      const auto read = read_partition(storage, images, chain, kChainTables);
      if (read) FAIL("bit " << bit << " of " << path);
      if (read.error().where.rfind(path, 0) != 0) FAIL(read.error().where);
    }
    REQUIRE(storage.write_file_atomic(path, bytes));
  }
}

TEST_CASE("a missing or damaged base is named, and the newest intact checkpoint is used",
          "[checkpoint]") {
  SavedRun run(3);
  auto& [folder, storage, saver] = run;
  REQUIRE(saver.save({1, 1}, false));
  REQUIRE(saver.save({1, 2}, false));
  saver.train();
  REQUIRE(saver.save({1, 3}, true));
  saver.train();
  REQUIRE(saver.save({1, 4}, true));
  const std::string base = checkpoint_folder(folder.path, {1, 2}) + "/ps.ckpt";
  const Bytes good = *storage.read_file(base, 1 << 20);
  std::vector<uint8_t> bytes(good.data(), good.data() + good.size());
  bytes[bytes.size() / 2] ^= 1;
  REQUIRE(storage.write_file_atomic(base, bytes));
  std::vector<std::string> skipped;
  CHECK(load_latest(storage, folder.path, &skipped, 1 << 20)->id == ViewId{1, 1});
  REQUIRE(skipped.size() == 3);
  CHECK(skipped[0].find(base) != std::string::npos);
  REQUIRE(storage.remove(base));
  skipped.clear();
  CHECK(load_latest(storage, folder.path, &skipped)->id == ViewId{1, 1});
  CHECK(skipped[0].find(base) != std::string::npos);
  CHECK(load_latest(storage, folder.path, nullptr, 0, {1, 1}).error().code == ErrorCode::kNoInput);
}

TEST_CASE("images are only read in the chain of the manifest", "[checkpoint]") {
  SavedRun run(5);
  auto& [folder, storage, saver] = run;
  saver.save_series(3);
  const std::string images = checkpoint_folder(folder.path, {1, 3});
  const std::vector<wire::ImageRef> chain = saver.chains()[2];
  REQUIRE(chain.size() == 3);
  REQUIRE(read_partition(storage, images, chain, kChainTables));
  const auto refused = [&](std::vector<wire::ImageRef> refs) {
    const auto read = read_partition(run.storage, images, refs, kChainTables);
    return !read && read.error().code == ErrorCode::kBadData && !read.error().where.empty();
  };
  CHECK(refused({}));
  CHECK(refused({chain[0], chain[2]}));
  CHECK(refused({chain[1], chain[2]}));
  CHECK(refused({chain[0], chain[2], chain[1]}));
  auto skips = chain;
  skips.erase(skips.begin() + 1);
  skips[1].base = skips[0].checksum;  // the image itself names another base
  CHECK(refused(skips));
  auto other = chain;
  other[1] = saver.chains()[3][1];
  CHECK(refused(other));
}

TEST_CASE("checkpoints that kept ones build on are kept with them", "[checkpoint]") {
  SavedRun run(9);
  auto& [folder, storage, saver] = run;
  for (uint32_t n = 1; n <= 7; ++n) {
    saver.train();
    REQUIRE(saver.save({1, n}, n != 1 && n != 3 && n != 6));  // 1-2, 3-4-5, 6-7
    REQUIRE(remove_old(storage, folder.path, 2));
    const auto manifest = load_latest(storage, folder.path, nullptr, 1 << 20);
    REQUIRE(manifest);
    CHECK(manifest->id == ViewId{1, n});
    CHECK(read_all(storage, folder.path, *manifest) == saver.whole());
  }
  CHECK(*storage.list(checkpoints_dir(folder.path)) ==
        std::vector<std::string>{"1-6", "1-7", "manifest-1-6.dpm", "manifest-1-7.dpm"});
}

TEST_CASE("the summary of a chain verifies all images and lists the bases", "[checkpoint]") {
  const Folder folder;
  PosixStorage storage;
  REQUIRE(write_run(storage, folder.path, {.id = 0x5eed, .job = "x"}));
  Saver saver(storage, folder.path, 11);
  REQUIRE(saver.save({1, 1}, false));
  CHECK(summarize(storage, folder.path)->bases.empty());
  for (uint32_t n = 2; n <= 3; ++n) {
    saver.train();
    REQUIRE(saver.save({1, n}, true));
  }
  const auto summary = summarize(storage, folder.path);
  REQUIRE(summary);
  CHECK(summary->bases == std::vector<ViewId>{{1, 1}, {1, 2}});
  CHECK(summary->images_max == 3);
  CHECK(summary->base_bytes > summary->bytes);
  uint64_t rows = 0;
  for (const PartitionImage& image : saver.whole()) {
    for (const TableImage& table : image.tables)
      rows += raw(table.table) == 0 ? table.keys.size() : 0;
  }
  CHECK(summary->rows == rows);
  REQUIRE(storage.remove(checkpoint_folder(folder.path, {1, 2}) + "/ps.ckpt"));
  CHECK(summarize(storage, manifest_path(folder.path, {1, 3})).error().where.find("1-2/ps.ckpt") !=
        std::string::npos);
}

TEST_CASE("a manifest whose bases do not form chains is neither published nor read",
          "[checkpoint]") {
  SavedRun run(13);
  auto& [folder, storage, saver] = run;
  saver.save_series(2);
  const Manifest good = *load_latest(storage, folder.path, nullptr);
  REQUIRE(validate_manifest(good));
  Manifest bad = good;
  bad.bases.erase(bad.bases.begin());
  CHECK_FALSE(validate_manifest(bad));
  bad = good, std::swap(bad.bases[0], bad.bases[1]);
  CHECK_FALSE(validate_manifest(bad));
  bad = good, bad.bases[0].checkpoint = {1, 2};
  CHECK_FALSE(validate_manifest(bad));
  bad = good, bad.bases[0].checkpoint = {};
  CHECK_FALSE(validate_manifest(bad));
  bad = good, bad.bases[0].checksum ^= 1;
  CHECK_FALSE(validate_manifest(bad));
  bad = good, bad.bases[0].file = "../x";
  CHECK_FALSE(validate_manifest(bad));
  bad = good, bad.bases.clear();
  CHECK_FALSE(validate_manifest(bad));
  bad = good, bad.images[0].checkpoint = {1, 1};
  CHECK_FALSE(validate_manifest(bad));
}

TEST_CASE("a power cut at any change of the disk leaves an intact chain, the old or the new one",
          "[checkpoint][durability]") {
  // 1-1 has full images, 1-2 and 1-3 build on it; then 2-1 builds on 1-3.
  const auto history = [](LossyStorage& disk) {
    auto saver = std::make_unique<Saver>(disk, "/run", 17);
    REQUIRE(saver->save({1, 1}, false));
    for (uint32_t n = 2; n <= 3; ++n) {
      saver->train();
      REQUIRE(saver->save({1, n}, true));
      REQUIRE(remove_old(disk, "/run", 2));
    }
    return saver;
  };
  const auto save = [](LossyStorage& disk, Saver& saver) {
    saver.train();
    return saver.save({2, 1}, true) && remove_old(disk, "/run", 2);
  };
  LossyStorage through;
  const auto reference = history(through);
  const std::vector<PartitionImage> old = reference->whole();
  const uint64_t before = through.changes();
  REQUIRE(save(through, *reference));
  const std::vector<PartitionImage> next = reference->whole();
  const uint64_t changes = through.changes() - before;
  REQUIRE(changes > 15);
  uint32_t olds = 0, news = 0;
  for (uint64_t at = 1; at <= changes; ++at) {
    LossyStorage dying;
    const auto saver = history(dying);
    dying.die_at(before + at);
    CHECK_FALSE(save(dying, *saver));
    for (const Survivors survivors :
         {Survivors::kNothing, Survivors::kEverything, Survivors::kSome, Survivors::kSome}) {
      INFO("change " << at << ": " << dying.log().back() << ", survivors " << int(survivors));
      LossyStorage found = dying.after_power_cut(survivors, at * 100 + olds + news);
      const auto manifest = load_latest(found, "/run", nullptr, 1 << 20);
      REQUIRE(manifest);
      const std::vector<PartitionImage> images = read_all(found, "/run", *manifest);
      CHECK(images == (manifest->id == ViewId{2, 1} ? next : old));
      ++(manifest->id == ViewId{2, 1} ? news : olds);
      // A full checkpoint follows. Afterwards only the kept files remain.
      Saver again(found, "/run", 19);
      REQUIRE(again.save({3, 1}, false));
      REQUIRE(remove_old(found, "/run", 1));
      CHECK(*found.list(checkpoints_dir("/run")) ==
            std::vector<std::string>{"3-1", "manifest-3-1.dpm"});
    }
  }
  CHECK(olds > 20);
  CHECK(news > 3);
}

/// Checks that the golden file of this name decodes to `manifest`.
void check_reads(const Manifest& manifest, const std::string& name) {
  PosixStorage storage;
  const auto read = load_manifest(storage, std::string(DP_GOLDEN_DIR) + "/" + name);
  REQUIRE(read);
  CHECK(*read == manifest);
}

/// Checks the same, and that `manifest` is encoded to the bytes of that file.
void check_reads_and_writes(const Manifest& manifest, const std::string& name) {
  const std::string path = std::string(DP_GOLDEN_DIR) + "/" + name;
  PosixStorage storage;
  if (std::getenv("DP_WRITE_GOLDEN") != nullptr) {
    REQUIRE(storage.write_file_atomic(path, encode_manifest(manifest)));
  }
  check_reads(manifest, name);
  const Bytes bytes = *storage.read_file(path, 1 << 20);
  CHECK(std::ranges::equal(bytes.span(), encode_manifest(manifest)));
}

/// Checks that the golden file of this name decodes to `image`. Images of older formats are no
/// longer written.
void check_image_reads(const PartitionImage& image, const std::string& image_name) {
  const std::string golden = DP_GOLDEN_DIR;
  PosixStorage storage;
  const Bytes image_bytes = *storage.read_file(golden + "/" + image_name, 1 << 20);
  CHECK(*decode_image(image_bytes.span(), kChainTables, "f", 0) == image);
}

/// Returns what the manifests of the golden files have in common.
Manifest golden_manifest(ViewId id) {
  Manifest manifest{.id = id,
                    .run = 0x0123456789abcdef,
                    .plan_hash = 42,
                    .job = "name = \"golden\"\n",
                    .partitions = 2};
  manifest.tables = kChainTables;
  manifest.images = {{PartitionId{0}, "ps-0-0-0000000000000001.ckpt", 0, 4096, 11, 9},
                     {PartitionId{1}, "ps-0-0-0000000000000001.ckpt", 4096, 64, 12}};
  manifest.build = "0.1.0", manifest.created_unix_s = 1'700'000'000;
  return manifest;
}

TEST_CASE("golden image and manifest of format 2", "[checkpoint][golden]") {
  PartitionImage image = random_image(1, 2, 42);
  image.base = 0x0123456789abcdef;
  image.markers.clear();
  Manifest manifest = golden_manifest({3, 18});
  manifest.bases = {{PartitionId{0}, "ps-1-0-0000000000000002.ckpt", 64, 128, 8, 0, {2, 7}},
                    {PartitionId{0}, "ps-1-0-0000000000000002.ckpt", 0, 64, 9, 8, {3, 17}}};
  check_image_reads(image, "image-v2.bin");
  check_reads(manifest, "manifest-3-18.dpm");
}

TEST_CASE("golden image and manifest of format 3", "[checkpoint][golden]") {
  PartitionImage image = random_image(1, 2, 43);
  image.markers = {{{2, 1, 3}, true, false}, {{2, 4, 0}, false, true}};
  Manifest manifest = golden_manifest({3, 19});
  manifest.bases = {{PartitionId{0}, "ps-1-0-0000000000000002.ckpt", 0, 64, 9, 0, {3, 17}}};
  manifest.ownership_generations = {{2, 7}, {3, 1}};
  manifest.given = {3, 4};
  check_image_reads(image, "image-v3.bin");
  check_reads(manifest, "manifest-3-19.dpm");  // written before manifests named the best checkpoint
  manifest.id = {3, 20};
  manifest.best = {3, 17};
  check_reads(manifest, "manifest-3-20.dpm");  // written before optimizers had rho
  manifest.id = {3, 21};
  check_reads_and_writes(manifest, "manifest-3-21.dpm");
}

}  // namespace
}  // namespace downpour::checkpoint
