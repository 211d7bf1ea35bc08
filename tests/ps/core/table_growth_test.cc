// Growing tables: memory stays close to the size of rows and slots, for one large table and for a
// thousand small ones.
#include <cmath>
#include <cstring>
#include <memory>
#include <vector>

#include <catch2/catch.hpp>

#include "ps/core/table.h"
#include "shared/base/hash.h"

namespace downpour::ps {
namespace {

constexpr double kRowBytes = 2 * 16 * sizeof(float);  // weights and Adagrad's accumulators

TableSpec adagrad_16(OptimizerType type = OptimizerType::kAdagrad) {
  VariableSpec variable{.name = "embedding", .dim = 16};
  variable.optimizer.type = type;
  return {.name = "t", .table_variables = {variable}};
}

void grow(Table& table, uint64_t begin, uint64_t end, const std::vector<float>& gradients) {
  std::vector<uint64_t> keys;
  for (uint64_t i = begin; i < end; ++i) keys.push_back(mix64(i));
  table.apply(keys.data(), keys.size(), nullptr, gradients.data(), {});
}

}  // namespace

TEST_CASE("a thousand tables of a thousand rows take at most 1.5 times their rows and slots",
          "[ps][table]") {
  std::vector<std::unique_ptr<Table>> tables;
  for (uint32_t t = 0; t < 1000; ++t)
    tables.push_back(std::make_unique<Table>(TableId{t}, adagrad_16(), 1, 8));
  const std::vector<float> gradients(100 * 16, 0.1F);
  for (uint64_t begin = 0; begin < 1000; begin += 100) {  // all tables in turn, as a job grows them
    for (auto& table : tables) grow(*table, begin, begin + 100, gradients);
  }
  double bytes = 0;
  for (auto& table : tables) {
    REQUIRE(table->rows() == 1000);
    bytes += double(table->memory().index_bytes + table->memory().row_bytes) + sizeof(Table);
  }
  CHECK(bytes / 1e6 <= 1.5 * kRowBytes);
}

TEST_CASE(
    "a growing table requests pages before it writes them, and withdraws all requests at its end",
    "[ps][table]") {
  struct Asked final : Prefault {
    struct Range {
      uintptr_t begin, end;
    };
    std::vector<Range> ranges;
    size_t forgotten = 0;
    void ask(void* begin, size_t bytes, bool) override {
      ranges.push_back({uintptr_t(begin), uintptr_t(begin) + bytes});
      std::memset(begin, 0, bytes);  // would destroy rows in use if a request came too late
    }
    void forget(void* begin, size_t bytes) override {
      const uintptr_t end = uintptr_t(begin) + bytes;
      forgotten += size_t(std::erase_if(ranges, [&](const Range& range) {
        return range.begin >= uintptr_t(begin) && range.end <= end;
      }));
    }
  } asked;
  {
    Table table(TableId{1}, adagrad_16(), 1, 8, {.prefault = &asked});
    constexpr uint64_t kRows = 200'000, kCall = 1000;
    const std::vector<float> gradients(kCall * 16, 0.1F);
    size_t bytes = 0;
    for (uint64_t begin = 0; begin < kRows; begin += kCall) {
      grow(table, begin, begin + kCall, gradients);
    }
    for (const auto& range : asked.ranges) bytes += range.end - range.begin;
    const ps::TableMemory memory = table.memory();
    CHECK(double(bytes) > .9 * double(memory.row_bytes));  // the first MiB is not requested
    CHECK(double(bytes) < 2.0 * double(memory.row_bytes + memory.index_bytes));
    CHECK(asked.forgotten == 0);  // rows do not move while the table doubles
    // Every row has its updates: no range below the rows in use was requested.
    for (uint32_t p = 0; p < 256; ++p) {
      const auto image = table.export_partition(PartitionId(p));
      for (size_t r = 0; r < image.keys.size(); ++r) {
        REQUIRE(image.table_variables[0][r * 32 + 16] > 0);
      }
    }
  }
  CHECK(asked.ranges.empty());
  CHECK(asked.forgotten > 0);
}

TEST_CASE("every row survives many splits of the index and moves of the arena", "[ps][table]") {
  Table table(TableId{7}, adagrad_16(), 1, 8);
  constexpr uint64_t kRows = 300'000;
  constexpr uint64_t kCall = 10'000;
  std::vector<float> gradients(kCall * 16);
  for (uint64_t begin = 0; begin < kRows; begin += kCall) {
    for (uint64_t i = 0; i < kCall; ++i) gradients[i * 16] = float(begin + i);
    grow(table, begin, begin + kCall, gradients);
  }
  CHECK(table.rows() == kRows);
  CHECK(double(table.memory().row_bytes + table.memory().index_bytes) / double(kRows) <=
        1.5 * kRowBytes);
  size_t rows = 0;
  for (uint32_t p = 0; p < 256; ++p) {
    const auto image = table.export_partition(PartitionId(p));
    for (size_t r = 0; r < image.keys.size(); ++r) {
      const float* const row = image.table_variables[0].data() + r * 32;
      // The accumulator shows which key the row belongs to.
      const float gradient = std::sqrt(std::max(0.0F, row[16] - 0.1F));
      REQUIRE(mix64(uint64_t(std::lround(gradient))) == image.keys[r]);
    }
    rows += image.keys.size();
  }
  CHECK(rows == kRows);
}

TEST_CASE("with row-wise Adagrad a row has one accumulator, and nothing is padded", "[ps][table]") {
  constexpr uint64_t kRows = 300'000, kCall = 10'000;
  Table table(TableId{7}, adagrad_16(OptimizerType::kRowwiseAdagrad), 1, 8);
  std::vector<float> gradients(kCall * 16);
  for (uint64_t begin = 0; begin < kRows; begin += kCall) {
    // The accumulator shows which key the row belongs to.
    for (uint64_t i = 0; i < kCall * 16; ++i) gradients[i] = float(begin + i / 16);
    grow(table, begin, begin + kCall, gradients);
  }
  CHECK(double(table.memory().row_bytes) / double(kRows) <
        17 * sizeof(float) + sizeof(uint64_t) + 3);
  Table copy(TableId{7}, adagrad_16(OptimizerType::kRowwiseAdagrad), 99, 8);
  size_t rows = 0;
  for (uint32_t p = 0; p < 256; ++p) {
    const auto image = table.export_partition(PartitionId(p));
    REQUIRE(image.table_variables[0].size() == image.keys.size() * 17);
    for (size_t r = 0; r < image.keys.size(); ++r) {
      const float gradient =
          std::sqrt(std::max(0.0F, image.table_variables[0][r * 17 + 16] - 0.1F));
      REQUIRE(mix64(uint64_t(std::lround(gradient))) == image.keys[r]);
    }
    rows += image.keys.size();
    REQUIRE(copy.import_partition(PartitionId(p), image));
    REQUIRE(copy.export_partition(PartitionId(p)) == image);
  }
  CHECK(rows == kRows);
}

}  // namespace downpour::ps
