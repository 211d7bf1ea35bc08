#include <catch2/catch.hpp>

#include "shared/base/bytes.h"
#include "shared/base/hash.h"
#include "shared/base/result.h"
#include "shared/base/rng.h"

namespace downpour {
namespace {

Result<int> half(int x) {
  if (x % 2 != 0) return Error{ErrorCode::kBadData, str(x, " is odd")};
  return x / 2;
}
Result<int> quarter(int x) {
  DP_TRY(const int h, half(x));
  DP_TRY(const int q, half(h).context("half of ", x));
  return q;
}

TEST_CASE("an error carries the context of every caller", "[base]") {
  CHECK(*quarter(8) == 2);
  CHECK(quarter(6).error().what == "half of 6: 3 is odd");
  CHECK(exit_code(quarter(7).error().code) == 65);
}

TEST_CASE("hashes are part of the format and never change", "[base]") {
  CHECK(mix64(1) == 0x910a2dec89025cc1ULL);
  CHECK(hash_string("") != hash_string(std::string_view("\0", 1)));
  CHECK(hash_string("abcdefgh") != hash_string("abcdefg"));
  CHECK(row_hash(TableId{0}, 1) != row_hash(TableId{1}, 1));
  for (uint64_t key = 0; key < 100; ++key) {
    for (const RowGroup group : {RowGroup::kSync, RowGroup::kAsync})
      CHECK(group_of(partition_of(row_hash(TableId{1}, key, group), 4), 16) == group);
  }
}

TEST_CASE("a string has the same hash at compile time and at run time", "[base]") {
  static constexpr char kText[] = "The quick brown fox, 0123456789";
  constexpr uint64_t kHashes[] = {
      hash_string({kText, 0}), hash_string({kText, 1}),  hash_string({kText, 2}),
      hash_string({kText, 3}), hash_string({kText, 4}),  hash_string({kText, 5}),
      hash_string({kText, 6}), hash_string({kText, 7}),  hash_string({kText, 8}),
      hash_string({kText, 9}), hash_string({kText, 15}), hash_string({kText, 16})};
  const size_t sizes[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 15, 16};
  // Values of the first release. The keys in checkpoints and the placement of rows depend on them.
  const uint64_t released[] = {0xa706dd2f4d197e6fULL, 0x48f3ada75cd83ea8ULL, 0xa1f967c9694e0221ULL,
                               0x539e793d4f1a7336ULL, 0x4ff5aba6d3bca35aULL, 0x99068507b6ee08e6ULL,
                               0x373c114d840d19b3ULL, 0x341ad25fc578b292ULL, 0x5a67e4e9e293647ULL,
                               0xbc00f8dda231a278ULL, 0xe5ce53e4ef4eebe5ULL, 0xbaa8f34991c6e0c2ULL};
  for (size_t i = 0; i < 12; ++i) {
    const std::string text(kText, sizes[i]);
    CHECK(hash_string(text) == kHashes[i]);
    CHECK(hash_string(text) == released[i]);
  }
  CHECK(hash_string({kText, 8}, 7) == 0x1a3dbe53c6ae160fULL);
  CHECK(hash_string({kText, 3}, 7) == 0x8bab88a1ffc27dffULL);
  CHECK(hash_string({kText, 31}, 7) == 0xd3e34b9b766a9201ULL);
}

TEST_CASE("row hashes fill the partitions evenly", "[base]") {
  for (const uint64_t stride : {uint64_t{1}, uint64_t{1} << 32, uint64_t{38461}}) {
    std::vector<int> count(256);
    for (uint64_t i = 0; i < 256 * 400; ++i)
      ++count[raw(partition_of(row_hash(TableId{3}, i * stride), 8))];
    // Expected 400, standard deviation 20: the bounds are seven standard deviations away.
    for (const int n : count) CHECK((n > 260 && n < 540));
  }
}

TEST_CASE("bytes keep their owner alive through slices", "[base]") {
  Bytes tail;
  {
    const Bytes all = Bytes::of(std::vector<float>{1.0F, 2.0F, 3.0F});
    tail = all.slice(4, 8);
  }
  CHECK(tail.load<float>(1) == 3.0F);
}

TEST_CASE("the uniform generator stays in its interval", "[base]") {
  Rng rng(7);
  for (int i = 0; i < 1000; ++i) {
    const float u = rng.uniform();
    CHECK((u >= 0.0F && u < 1.0F));
    CHECK(rng.below(10) < 10);
  }
}

TEST_CASE("skipping words of a stream is the same as drawing them", "[base]") {
  Rng drawn(7);
  Rng skipped(7);
  for (int i = 0; i < 6; ++i) drawn.normal();
  skipped.skip(12);
  CHECK(drawn.next() == skipped.next());
}

}  // namespace
}  // namespace downpour
