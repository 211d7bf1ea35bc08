// Support: small files and plans for the tests of shared/data.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <unistd.h>
#include <vector>

#include <catch2/catch.hpp>

#include "shared/data/reading/dataset.h"
#include "tests/support/compressed.h"
#include "tests/support/scratch_dir.h"

namespace downpour::data {

using testing::gzipped;
using testing::ScratchDir;
using testing::zlib_compressed;
using testing::zstd_compressed;

/// Returns an unshuffled plan over one file with batches of 4. Each test sets the fields that it is
/// about.
inline std::shared_ptr<ReadPlan> plan_of(const std::string& path,
                                         DataFormat format = DataFormat::kLibsvm) {
  auto plan = std::make_shared<ReadPlan>();
  plan->data.source.paths = {path};
  plan->data.format = format;
  plan->data.shuffle = "off";
  plan->batch_size = 4;
  plan->files = list_files(plan->data, plan->data.source, "/").value();
  return plan;
}
/// Sets the layout of a libsvm file: the label as a float, all features as one bag.
inline void reads_libsvm(ReadPlan& plan) {
  plan.layout.floats = {{"label", 1}};
  plan.layout.bags = {{"features", 0}};
  plan.layout.tables = {TableId(3)};
}

/// The content of one shard: float columns, keys and values per record, the batches, and the
/// totals.
struct ShardRead {
  std::vector<std::vector<float>> floats;                // per record: all columns in order
  std::vector<std::vector<std::vector<uint64_t>>> keys;  // per record, per bag
  std::vector<std::vector<std::vector<float>>> values;   // per record, per bag
  std::vector<Batch> batches;
  ShardTotals totals;
};

/// Reads a shard to its end. Fails the test if a float column of a batch has the wrong size.
inline Result<ShardRead> read_shard(std::shared_ptr<const ReadPlan> plan,
                                    const plan::ShardRange& range, ShardId shard = {},
                                    Split split = Split::kAll, uint32_t first_batch = 0) {
  DP_TRY(std::unique_ptr<ShardReader> reader, open_shard(plan, split, shard, range, first_batch));
  ShardRead out;
  Batch batch;
  for (;;) {
    DP_TRY(const bool more, reader->next(batch));
    if (!more) break;
    for (uint32_t r = 0; r < batch.records; ++r) {
      std::vector<float> floats;
      for (const FloatColumn& column : batch.floats) {
        REQUIRE(column.values.size() == size_t(batch.records) * column.width);
        floats.insert(floats.end(), column.values.begin() + r * column.width,
                      column.values.begin() + (r + 1) * column.width);
      }
      out.floats.push_back(floats);
      out.keys.emplace_back();
      out.values.emplace_back();
      for (const BagColumn& bag : batch.bags) {
        const uint32_t begin = bag.offsets.empty() ? r : bag.offsets[r],
                       end = bag.offsets.empty() ? r + 1 : bag.offsets[r + 1];
        auto& keys = out.keys.back().emplace_back();
        auto& values = out.values.back().emplace_back();
        for (uint32_t i = begin; i < end; ++i) {
          keys.push_back(batch.tables[bag.table_index].keys.at(bag.keys.at(i)));
          values.push_back(bag.values.empty() ? 1.0F : bag.values.at(i));
        }
      }
    }
    out.batches.push_back(batch);
  }
  out.totals = reader->totals();
  return out;
}
/// Reads the plan's first file as one shard.
inline Result<ShardRead> read_file(std::shared_ptr<const ReadPlan> plan) {
  return read_shard(plan, {0, 0, plan->files[0].bytes});
}
/// Returns the error of reading the whole file. Fails the test if there is none.
inline Error error_of(std::shared_ptr<const ReadPlan> plan) {
  auto read = read_file(plan);
  REQUIRE_FALSE(read);
  return std::move(read).error();
}

/// Returns the folder of the public data sets. Warns and returns "" if it does not exist.
inline std::string data_dir() {
  const char* const given = std::getenv("DOWNPOUR_DATA");
  const std::string path = given != nullptr ? given : DP_DATA_DIR;
  if (std::filesystem::is_directory(path)) return path;
  WARN("SKIPPED: no public data sets at " << path << "; set DOWNPOUR_DATA");
  return "";
}

inline std::string text_in(const std::string& path) {
  std::ifstream in(path);
  return (std::ostringstream() << in.rdbuf()).str();
}

}  // namespace downpour::data
