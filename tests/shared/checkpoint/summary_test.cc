#include "shared/checkpoint/summary.h"

#include <cmath>
#include <limits>

#include "shared/checkpoint/run_file.h"
#include "tests/shared/checkpoint/support.h"

namespace downpour::checkpoint {
namespace {

/// Writes two partitions with rows whose statistics can be calculated by hand.
Manifest small_run(Storage& storage, const std::string& run_dir) {
  REQUIRE(write_run(storage, run_dir, {.id = 0x5eed}));
  Manifest manifest{
      .id = {1, 1}, .run = 0x5eed, .partitions = 2, .tables = test_tables(), .rows = 3};
  std::vector<PartitionImage> images(2);
  images[0].version = 5, images[1].partition = PartitionId{1}, images[1].version = 7;
  images[0].steps_before = 9;
  const float inf = std::numeric_limits<float>::infinity();
  // wide: weight, z, n; deep: four weights, four accumulators
  images[0].tables = {
      {TableId{0}, {1, 2}, {{3, 9, 9, 0, 9, 9}, {1, 1, 1, 1, 9, 9, 9, 9, 0, 0, 0, 0, 9, 9, 9, 9}}}};
  images[1].tables = {{TableId{0}, {3}, {{-4, 9, 9}, {inf, 2, 0, 0, 9, 9, 9, 9}}}};
  images[0].epochs = {{.epoch = 1, .shards_ended = 4}};
  manifest.images =
      *write_images(storage, checkpoint_folder(run_dir, manifest.id), "f", images, manifest.tables);
  return manifest;
}

TEST_CASE("a summary has rows, bytes, norms and extremes of each variable", "[checkpoint]") {
  const Folder folder;
  PosixStorage storage;
  REQUIRE(publish(storage, folder.path, small_run(storage, folder.path)));
  const auto summary = summarize(storage, folder.path);
  REQUIRE(summary);
  REQUIRE(summary->variables.size() == 3);
  const VariableSummary& wide = summary->variables[0];
  CHECK(wide.spec.name == "wide");
  CHECK(wide.rows == 3);
  CHECK(wide.weight_bytes == 12);
  CHECK(wide.slot_bytes == 24);
  CHECK(wide.l2_norm == 5);
  CHECK(wide.min == -4);
  CHECK(wide.max == 3);
  CHECK(wide.zeros == 1);
  const VariableSummary& deep = summary->variables[1];
  CHECK(deep.non_finite == 1);
  CHECK(deep.l2_norm == Approx(std::sqrt(8)));
  CHECK(deep.max == 2);
  CHECK(deep.zeros == 6);
  CHECK(summary->variables[2].rows == 0);
  CHECK(summary->variables[2].min == 0);
  CHECK(summary->rows == 3);
  CHECK(summary->rows_min == 1);
  CHECK(summary->rows_max == 2);
  CHECK(summary->version_max == 7);
  CHECK(summary->steps_before_min == 0);
  CHECK(summary->steps_before_max == 9);
  CHECK(summary->open_epochs == std::vector<OpenEpochSummary>{{1, 0, 4}});
  CHECK(summary->files == 1);
  CHECK(summarize(storage, manifest_path(folder.path, {1, 1}))->variables == summary->variables);
}

TEST_CASE("a summary does not count the slot of a row as a weight", "[checkpoint]") {
  const Folder folder;
  PosixStorage storage;
  REQUIRE(write_run(storage, folder.path, {.id = 0x5eed}));
  Manifest manifest{.id = {1, 1}, .run = 0x5eed, .partitions = 2, .tables = test_tables()};
  manifest.tables[0].table_variables[1].optimizer.type = OptimizerType::kRowwiseAdagrad;
  manifest.rows = 2;
  std::vector<PartitionImage> images(2);
  images[0].tables = {{TableId{0}, {1, 2}, {PageVector<float>(6), {3, 1, 0, 1, 9, 1, 1, 1, 4, 9}}}};
  images[1].partition = PartitionId{1};
  manifest.images = *write_images(storage, checkpoint_folder(folder.path, manifest.id), "f", images,
                                  manifest.tables);
  REQUIRE(publish(storage, folder.path, manifest));
  const auto summary = summarize(storage, folder.path);
  REQUIRE(summary);
  const VariableSummary& deep = summary->variables[1];
  CHECK(deep.weight_bytes == 2 * 4 * sizeof(float));
  CHECK(deep.slot_bytes == 2 * sizeof(float));
  CHECK(deep.max == 4);
  CHECK(deep.zeros == 1);
}

TEST_CASE("a summary refuses a damaged image and wrong paths", "[checkpoint]") {
  const Folder folder;
  PosixStorage storage;
  const Manifest manifest = small_run(storage, folder.path);
  CHECK(summarize(storage, folder.path).error().what == "there is no checkpoint yet");
  REQUIRE(publish(storage, folder.path, manifest));
  CHECK(summarize(storage, folder.path + "/gone").error().code == ErrorCode::kNoInput);
  CHECK(summarize(storage, checkpoints_dir(folder.path)).error().what.find("not a run folder") !=
        std::string::npos);
  CHECK(summarize(storage, run_path(folder.path)).error().code == ErrorCode::kNoInput);
  const std::string file = checkpoint_folder(folder.path, {1, 1}) + "/f";
  const Bytes bytes = *storage.read_file(file, 1 << 20);
  std::vector<uint8_t> changed(bytes.data(), bytes.data() + bytes.size());
  changed.back() ^= 1;
  REQUIRE(storage.write_file_atomic(file, changed));
  const auto summary = summarize(storage, folder.path);
  CHECK(summary.error().code == ErrorCode::kBadData);
  CHECK(summary.error().where.rfind(file + ":", 0) == 0);
}

}  // namespace
}  // namespace downpour::checkpoint
