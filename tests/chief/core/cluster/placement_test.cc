#include "chief/core/cluster/placement.h"

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

TEST_CASE("with groups, each core gets a range of both halves of the partitions", "[chief][core]") {
  for (const uint32_t n : {1U, 2U, 3U, 5U, 8U, 20U}) {
    const auto ranges = even_ranges(16, n, /*grouped=*/true);
    REQUIRE(ranges.size() == n);
    size_t all = 0;
    for (const auto& range : ranges) {
      const auto lower = std::ranges::count_if(range, [](PartitionId p) { return raw(p) < 8; });
      CHECK(2 * size_t(lower) == range.size());
      all += range.size();
    }
    CHECK(all == 16);
  }
}

TEST_CASE("a checkpoint that lacks a partition, or has a chain without its whole image, is refused",
          "[chief][core]") {
  const wire::ImageRef zero{.partition = PartitionId(0), .file = "a", .checksum = 5},
      one{.partition = PartitionId(1), .file = "b", .checksum = 6},
      next{.partition = PartitionId(1), .file = "c", .checksum = 7, .base = 6};
  CHECK(check_images({}, 2));
  CHECK(check_images({{zero}, {one}}, 2));
  CHECK(check_images({{zero}, {one, next}}, 2));
  CHECK(check_images({{zero}}, 2).error().what ==
        "the checkpoint has images of 1 partitions, but this job has 2");
  for (const auto& second : std::vector<std::vector<wire::ImageRef>>{
           {}, {zero}, {next}, {one, zero}, {next, one}, {one, next, next}}) {
    CHECK(check_images({{zero}, second}, 2).error().what ==
          "the checkpoint has no valid image chain for partition 1");
  }
}

TEST_CASE("a manifest needs the owner's images of all partitions", "[chief][core]") {
  const wire::View view{.id = {1, 1},
                        .owners = {{.index = 0}, {.index = 1}},
                        .partitions = {{.owner = 0}, {.owner = 1}}};
  const wire::ImageRef a{.partition = PartitionId(0), .file = "a"},
      b{.partition = PartitionId(1), .file = "b"};
  const auto joined = join_images(view, {{a}, {b}});
  REQUIRE(joined);
  CHECK(*joined == std::vector{a, b});
  CHECK(*join_images(view, {{a, b}, {b}}) == std::vector{a, b});  // b is from a cancelled move
  CHECK_FALSE(join_images(view, {{a, {.partition = PartitionId(2), .file = "c"}}, {b}}));
  CHECK_FALSE(join_images(view, {{b}, {a}}));
  CHECK_FALSE(join_images(view, {{a}, {}}));
  CHECK_FALSE(join_images(view, {{a, a}, {b}}));
  for (const char* name : {"", ".hidden", "../x", "a/b", "-x", "a b"}) {
    CHECK_FALSE(join_images(view, {{{.partition = PartitionId(0), .file = name}}, {b}}));
  }
}

}  // namespace
}  // namespace downpour::chief
