#include "chief/core/placement.h"

#include <map>

#include <catch2/catch.hpp>

namespace downpour::chief {
namespace {

std::vector<wire::Owner> owners(uint32_t n) {
  std::vector<wire::Owner> list;
  for (uint32_t i = 0; i < n; ++i) list.push_back({.index = i, .incarnation = Incarnation(i + 1)});
  return list;
}

TEST_CASE("partitions go to cores in contiguous ranges that differ by at most one",
          "[chief][core]") {
  for (const uint32_t n : {1U, 2U, 3U, 5U, 7U, 16U, 20U}) {
    const wire::View view = make_view({2, 1}, owners(n), 4);
    REQUIRE(view.partitions.size() == 16);
    std::map<uint32_t, uint32_t> count;
    uint32_t before = 0;
    for (const wire::Placement& placement : view.partitions) {
      CHECK(placement.since == ViewId{2, 1});
      CHECK((placement.owner == before || placement.owner == before + 1));
      before = placement.owner;
      ++count[placement.owner];
    }
    uint32_t least = 16, most = 0;
    for (const auto& [owner, c] : count) {
      least = std::min(least, c);
      most = std::max(most, c);
    }
    CHECK(count.size() == std::min(n, 16U));
    CHECK(most - least <= 1);
  }
}

TEST_CASE("any number of cores takes up a checkpoint, each its own images", "[chief][core]") {
  std::vector<wire::ImageRef> images;
  for (uint32_t p = 16; p-- > 0;)
    images.push_back({.partition = PartitionId(p), .file = str("f", p)});
  const wire::View view = make_view({1, 1}, owners(3), 4);
  const auto adopts = make_adopts(view, 2, "/c", images);
  REQUIRE(adopts);
  REQUIRE(adopts->size() == 3);
  uint32_t p = 0;
  for (const wire::Adopt& adopt : *adopts) {
    CHECK(adopt.sealed_epochs == 2);
    CHECK(adopt.folder == "/c");
    REQUIRE(adopt.images.size() == adopt.partitions.size());
    for (const wire::ImageRef& image : adopt.images) CHECK(image.file == str("f", p++));
  }
  CHECK(p == 16);
}

TEST_CASE("a checkpoint that lacks a partition, or has one twice, is refused by name",
          "[chief][core]") {
  const wire::View view = make_view({1, 1}, owners(1), 1);
  const wire::ImageRef zero{.partition = PartitionId(0), .file = "a"},
      two{.partition = PartitionId(2), .file = "a"};
  CHECK(make_adopts(view, 0, "/c", {zero}).error().what ==
        "the checkpoint has no image of partition 1");
  CHECK_FALSE(make_adopts(view, 0, "/c", {zero, zero}));
  CHECK_FALSE(make_adopts(view, 0, "/c", {zero, two}));
}

TEST_CASE("only the owner's images of all its partitions make a manifest", "[chief][core]") {
  const wire::View view = make_view({1, 1}, owners(2), 1);
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
