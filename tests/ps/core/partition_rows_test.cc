#include "ps/core/partition_rows.h"

#include <algorithm>
#include <map>
#include <set>

#include <catch2/catch.hpp>

#include "shared/base/rng.h"

using namespace downpour;
using namespace downpour::ps;

namespace {

std::vector<RowRun> runs_of(const PartitionRows& rows, PartitionId partition) {
  std::vector<RowRun> runs;
  rows.for_each(partition, [&](RowRun run) { runs.push_back(run); });
  return runs;
}

}  // namespace

TEST_CASE("rows of a partition are listed as runs, the newest first", "[partition-rows]") {
  PartitionRows rows;
  CHECK_FALSE(rows.begun());
  rows.begin(4);
  CHECK(rows.begun());
  const PartitionId p{2};
  CHECK(runs_of(rows, p).empty());
  rows.add(p, 7);
  rows.add(p, 8);
  rows.add(p, 6);  // extends the run at its start
  rows.add(p, 20);
  CHECK(runs_of(rows, p) == std::vector<RowRun>{{20, 1}, {6, 3}});
  CHECK(runs_of(rows, PartitionId{1}).empty());

  uint32_t row = 0;
  CHECK_FALSE(rows.take(p, row));
  rows.open(p, 100, 3);
  CHECK(runs_of(rows, p) == std::vector<RowRun>{{20, 1}, {6, 3}});  // unused room is not listed
  REQUIRE(rows.take(p, row));
  CHECK(row == 100);
  rows.add(p, 4);  // for example a free row of another partition: the open run stays open
  rows.add(p, 3);
  REQUIRE(rows.take(p, row));
  CHECK(row == 101);
  CHECK(runs_of(rows, p) == std::vector<RowRun>{{100, 2}, {3, 2}, {20, 1}, {6, 3}});

  std::vector<RowRun> had;
  rows.drop(p, [&](RowRun run) { had.push_back(run); });
  CHECK(had == std::vector<RowRun>{{100, 3}, {3, 2}, {20, 1}, {6, 3}});  // includes the unused room
  CHECK(runs_of(rows, p).empty());
  CHECK_FALSE(rows.take(p, row));
  const uint64_t bytes = rows.bytes();
  for (uint32_t i = 0; i < 4; ++i) rows.add(PartitionId{i}, 50 + 2 * i);
  CHECK(rows.bytes() == bytes);  // dropped runs are reused
}

TEST_CASE("every row is in exactly one list after random takes, adds and drops",
          "[partition-rows]") {
  PartitionRows rows;
  rows.begin(8);
  Rng rng(5);
  std::map<uint32_t, uint32_t> owner;
  std::vector<uint32_t> free;
  uint32_t end = 0;
  for (int step = 0; step < 20000; ++step) {
    const auto p = uint32_t(rng.below(8));
    uint32_t row = 0;
    if (rng.below(400) == 0) {
      rows.drop(PartitionId{p}, [&](RowRun run) {
        for (uint32_t r = run.first; r < run.first + run.count; ++r) free.push_back(r);
      });
      std::erase_if(owner, [&](const auto& entry) { return entry.second == p; });
      continue;
    }
    if (!free.empty() && rng.below(2) == 0) {
      row = free.back();
      free.pop_back();
      rows.add(PartitionId{p}, row);
    } else if (!rows.take(PartitionId{p}, row)) {
      const auto room = uint32_t(1 + rng.below(20));
      rows.open(PartitionId{p}, end, room);
      end += room;
      REQUIRE(rows.take(PartitionId{p}, row));
    }
    REQUIRE(owner.emplace(row, p).second);
  }
  std::map<uint32_t, uint32_t> listed;
  for (uint32_t p = 0; p < 8; ++p) {
    rows.for_each(PartitionId{p}, [&](RowRun run) {
      for (uint32_t r = run.first; r < run.first + run.count; ++r) {
        CHECK(listed.emplace(r, p).second);
      }
    });
  }
  CHECK(listed == owner);
}
