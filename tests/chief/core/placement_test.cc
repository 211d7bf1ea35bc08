#include "chief/core/placement.h"

#include <map>

#include <catch2/catch.hpp>

namespace downpour::chief {
namespace {

TEST_CASE("partitions go to cores in contiguous ranges that differ by at most one",
          "[chief][core]") {
  for (const uint32_t n : {1U, 2U, 3U, 5U, 7U, 16U, 20U}) {
    const auto ranges = even_ranges(16, n);
    REQUIRE(ranges.size() == n);
    uint32_t next = 0;
    size_t least = 16, most = 0;
    for (const auto& range : ranges) {
      for (const PartitionId p : range) CHECK(raw(p) == next++);
      if (range.empty()) continue;
      least = std::min(least, range.size());
      most = std::max(most, range.size());
    }
    CHECK(next == 16);
    CHECK(most - least <= 1);
  }
}

TEST_CASE("a checkpoint that lacks a partition, or has one twice, is refused by name",
          "[chief][core]") {
  const wire::ImageRef zero{.partition = PartitionId(0), .file = "a"},
      one{.partition = PartitionId(1), .file = "b"}, two{.partition = PartitionId(2), .file = "a"};
  CHECK(*order_images({one, zero}, 2) == std::vector{zero, one});
  CHECK(order_images({}, 2)->empty());
  CHECK(order_images({zero}, 2).error().what == "the checkpoint has no image of partition 1");
  CHECK(order_images({zero, zero}, 2).error().what ==
        "the checkpoint names partition 0 twice or beyond the 2 of this job");
  CHECK_FALSE(order_images({zero, two}, 2));
  CHECK_FALSE(order_images({zero, one, two}, 2));
}

TEST_CASE("only the owner's images of all its partitions make a manifest", "[chief][core]") {
  const wire::View view{.id = {1, 1},
                        .owners = {{.index = 0}, {.index = 1}},
                        .partitions = {{.owner = 0}, {.owner = 1}}};
  const wire::ImageRef a{.partition = PartitionId(0), .file = "a"},
      b{.partition = PartitionId(1), .file = "b"};
  const auto joined = join_images(view, {{a}, {b}});
  REQUIRE(joined);
  CHECK(*joined == std::vector{a, b});
  CHECK_FALSE(join_images(view, {{b}, {a}}));
  CHECK_FALSE(join_images(view, {{a}, {}}));
  CHECK_FALSE(join_images(view, {{a, a}, {b}}));
  for (const char* name : {"", ".hidden", "../x", "a/b", "-x", "a b"}) {
    CHECK_FALSE(join_images(view, {{{.partition = PartitionId(0), .file = name}}, {b}}));
  }
}

}  // namespace
}  // namespace downpour::chief
