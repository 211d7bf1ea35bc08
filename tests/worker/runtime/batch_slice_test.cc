// BatchSlice: consecutive records of a batch as a batch of their own.
#include "worker/runtime/batch_slice.h"

#include <catch2/catch.hpp>

namespace downpour::worker {
namespace {

/// Returns four records: a vector of two floats, a bag of keys with values, and one key each of the
/// same table.
Batch four_records() {
  Batch batch;
  batch.id = {1, 2, 3};
  batch.records = 4;
  batch.floats = {{2, {0, 1, 2, 3, 4, 5, 6, 7}}};
  batch.tables = {{TableId{0}, {100, 101, 102, 103}}};
  batch.bags = {{0, {0, 2, 2, 5, 6}, {3, 0, 1, 3, 1, 2}, {1, 2, 3, 4, 5, 6}},
                {0, {}, {2, 1, 0, 3}, {}}};
  return batch;
}

TEST_CASE("a slice has the records' columns, and their keys in the order of their first use",
          "[worker]") {
  BatchSlice slice;
  slice.cut(four_records(), 1, 3, {1, 2, 7});
  const Batch& batch = slice.batch();
  CHECK(batch.id == BatchId{1, 2, 7});
  CHECK(batch.records == 2);
  CHECK(batch.floats[0].width == 2);
  CHECK(batch.floats[0].values == std::vector<float>{2, 3, 4, 5});
  CHECK(batch.bags[0].offsets == std::vector<uint32_t>{0, 0, 3});
  CHECK(batch.bags[0].keys == std::vector<uint32_t>{0, 1, 0});
  CHECK(batch.bags[0].values == std::vector<float>{3, 4, 5});
  CHECK(batch.bags[1].offsets.empty());
  CHECK(batch.bags[1].keys == std::vector<uint32_t>{0, 2});
  CHECK(batch.tables[0].keys == std::vector<uint64_t>{101, 103, 100});
  CHECK(slice.rows(0) == std::vector<uint32_t>{1, 3, 0});
}

TEST_CASE("a slice does not depend on earlier slices, of the same batch or of another one",
          "[worker]") {
  const Batch all = four_records();
  BatchSlice slice, fresh;
  slice.cut(all, 0, 2, {});
  slice.cut(all, 2, 4, {});
  fresh.cut(all, 2, 4, {});
  CHECK(slice.batch().tables[0].keys == fresh.batch().tables[0].keys);
  CHECK(slice.batch().bags[0].keys == fresh.batch().bags[0].keys);
  Batch other = all;
  other.tables[0].keys = {200, 201, 202, 203, 204};
  other.bags[1].keys = {4, 4, 4, 4};
  slice.cut(other, 1, 2, {});
  CHECK(slice.batch().tables[0].keys == std::vector<uint64_t>{204});
  CHECK(slice.batch().bags[0].offsets == std::vector<uint32_t>{0, 0});
  CHECK(slice.batch().bags[1].keys == std::vector<uint32_t>{0});
}

}  // namespace
}  // namespace downpour::worker
