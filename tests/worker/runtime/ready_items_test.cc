#include "worker/runtime/ready_items.h"

#include <catch2/catch.hpp>

namespace downpour::worker {
namespace {

ReadItem batch_of(uint64_t shard_read, uint32_t n) {
  auto batch = std::make_shared<PreparedBatch>();
  batch->batch.id.batch = n;
  return {.shard_read = shard_read, .batch = std::move(batch)};
}
ReadItem end_of(uint64_t shard_read) {
  return {.shard_read = shard_read, .end = ShardEnd{.shard_read = shard_read}, .last = true};
}

TEST_CASE("a shard read that fills its part of the queue leaves room for the others", "[worker]") {
  constexpr ReaderLimits kLimits{.shards = 2, .batches = 4};
  ReadyItems items(/*by_shard=*/true);
  for (const uint32_t n : {0U, 1U}) {
    CHECK(items.has_room(1, kLimits));
    items.push(batch_of(1, n));
  }
  items.push(end_of(1));  // an end needs no room
  CHECK_FALSE(items.has_room(1, kLimits));
  CHECK(items.has_room(2, kLimits));
  CHECK(items.has_room(2, {.shards = 8, .batches = 4}));  // at least one batch
  items.drop(1);
  CHECK(items.empty());
  CHECK(items.batches() == 0);
  CHECK(items.has_room(1, kLimits));
}

TEST_CASE("a batch that is not wanted holds up only the later items of its own shard", "[worker]") {
  const auto wants_second = [](uint64_t shard_read) { return shard_read == 2; };
  for (const bool by_shard : {false, true}) {
    ReadyItems items(by_shard);
    items.push(batch_of(1, 0));
    items.push(end_of(1));
    items.push(batch_of(2, 0));
    ReadItem item;
    CHECK(items.try_pop(wants_second, item) == by_shard);
    if (!by_shard) continue;
    CHECK(item.shard_read == 2);
    CHECK_FALSE(items.try_pop(wants_second, item));
    const auto wants_all = [](uint64_t) { return true; };
    REQUIRE(items.try_pop(wants_all, item));
    CHECK(item.batch != nullptr);
    REQUIRE(items.try_pop(wants_second, item));
    CHECK(item.end.has_value());
    CHECK(items.empty());
  }
}

}  // namespace
}  // namespace downpour::worker
