// Shared by the checkpoint tests: a temporary folder, random images, a small run.
#pragma once

#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "shared/base/rng.h"
#include "shared/checkpoint/image.h"
#include "shared/checkpoint/manifest.h"
#include "shared/checkpoint/partition_writer.h"
#include "shared/checkpoint/paths.h"
#include "shared/env/storage.h"
#include "tests/support/crashing_storage.h"
#include "tests/support/scratch_dir.h"

namespace downpour::checkpoint {

using testing::CrashingStorage;

/// In memory, because the tests call fsync thousands of times.
struct Folder {
  testing::ScratchDir dir{/*in_memory=*/true};
  const std::string& path = dir.path();
};

/// Returns a table with a wide weight and an embedding, and a dense variable of three blocks, the
/// last one short.
inline std::vector<TableSpec> test_tables() {
  VariableSpec wide{.name = "wide", .dim = 1, .optimizer = {.type = OptimizerType::kFtrl}};
  VariableSpec deep{.name = "deep", .dim = 4, .init = {InitType::kNormal, 0.1F}};
  deep.optimizer = {.type = OptimizerType::kAdagrad, .learning_rate = 0.05F};
  VariableSpec dense{
      .name = "hidden/weights", .shape = {100, 91}, .optimizer = {.type = OptimizerType::kSgd}};
  return {{"features", TableKind::kEmbedding, {wide, deep}},
          {"hidden", TableKind::kDense, {dense}}};
}

inline wire::ShardCounts random_counts(Rng& rng) {
  wire::ShardCounts counts{.batches = uint32_t(rng.below(64))};
  counts.applied = rng.below(1000), counts.skipped = rng.below(9), counts.filtered = rng.below(7);
  counts.read = counts.applied + counts.skipped + counts.filtered;
  counts.first_offset = rng.next(), counts.end_offset = rng.next();
  return counts;
}

/// Returns an image with `rows` embedding rows and some blocks. Floats have random bits, but no
/// NaN, so that == works.
inline PartitionImage random_image(uint32_t partition, uint64_t rows, uint64_t seed) {
  Rng rng(seed);
  const std::vector<TableSpec> tables = test_tables();
  PartitionImage image{
      .partition = PartitionId(partition), .version = rng.next(), .sealed_epochs = 1};
  for (uint32_t e = 1; e < 3; ++e) {
    EpochImage epoch{
        .epoch = e, .shards_ended = uint32_t(rng.below(100)), .counts = random_counts(rng)};
    epoch.metrics.push_back(
        {.weight = rng.uniform64(), .loss = rng.normal(), .correct = rng.uniform64()});
    epoch.ended = {{0, 5}, {7, 8 + uint32_t(rng.below(9))}};
    image.epochs.push_back(epoch);
  }
  for (uint32_t s = 0; s < rng.below(5); ++s) {
    image.shards.push_back({.shard = {2, s},
                            .watermark = uint32_t(rng.below(64)),
                            .records = rng.next(),
                            .records_hash = rng.next(),
                            .counts = random_counts(rng)});
  }
  const auto floats = [&](uint64_t n) {
    PageVector<float> values(n);
    for (float& value : values) value = rng.uniform() < 0.1F ? 0.0F : float(rng.normal());
    return values;
  };
  if (rows > 0) {
    TableImage features{.table = TableId{0}};
    for (uint64_t r = 0, key = 0; r < rows; ++r)
      features.keys.push_back(key += 1 + rng.below(1 << 30));
    features.table_variables = {floats(rows * 1 * 3), floats(rows * 4 * 2)};
    image.tables.push_back(std::move(features));
  }
  if (partition == 0) {
    TableImage hidden{.table = TableId{1}, .keys = {0, 2}};
    hidden.table_variables = {floats(tables[1].row_floats(0, 0) + tables[1].row_floats(0, 2))};
    image.tables.push_back(std::move(hidden));
  }
  for (uint32_t b = 0; b < rng.below(3); ++b) {
    image.markers.push_back({{2, 1, b}, rng.below(2) == 1, rng.below(2) == 1});
  }
  return image;
}

/// Writes four partitions into two files under `id`, and returns a manifest for them.
inline Manifest write_checkpoint(Storage& storage, const std::string& run_dir, ViewId id,
                                 uint64_t rows = 3) {
  Manifest manifest{
      .id = id, .run = 0x5eed, .plan_hash = 77, .job = "name = \"test\"\n", .partitions = 4};
  manifest.tables = test_tables();
  manifest.completed_epochs = 2, manifest.sealed_epochs = 1;
  manifest.epochs = {
      {0, 10, {.batches = 64, .read = 640, .applied = 639, .skipped = 1}, R"({"loss":0.5})"}};
  manifest.build = "test", manifest.created_unix_s = 1'700'000'000;
  for (uint32_t file = 0; file < 2; ++file) {
    const std::vector<PartitionImage> images = {
        random_image(2 * file, rows, id.n + 2 * file),
        random_image(2 * file + 1, rows, id.n + 2 * file + 1)};
    const auto refs =
        write_images(storage, checkpoint_folder(run_dir, id),
                     image_file_name(file, 0, Incarnation{0xabc}), images, manifest.tables);
    if (refs) manifest.images.insert(manifest.images.end(), refs->begin(), refs->end());
    manifest.rows += 2 * rows;
  }
  manifest.ownership_generations = {{1, 2}, {1, 2}, {1, 7}, {2, 1}};
  manifest.given = {2, 3};
  return manifest;
}

}  // namespace downpour::checkpoint
