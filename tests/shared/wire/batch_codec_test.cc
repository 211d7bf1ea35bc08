#include "shared/wire/batch_codec.h"

#include <cstring>

#include <catch2/catch.hpp>

#include "tests/shared/wire/random_batch.h"

namespace downpour::wire {
namespace {

std::vector<uint8_t> bytes_of(const Batch& batch) {
  const Result<Bytes> bytes = encode_batch(batch);
  REQUIRE(bytes);
  return {bytes->data(), bytes->data() + bytes->size()};
}

/// A batch of two records with a column of each kind.
Batch sample() {
  Batch batch;
  batch.id = {1, 2, 3};
  batch.records = 2;
  batch.floats = {{.width = 2, .values = {1, 2, 3, 4}}};
  batch.tables = {{TableId(5), {70, 71, 72}}};
  batch.bags = {{.table_index = 0, .offsets = {0, 2, 3}, .keys = {0, 2, 1}, .values = {1, 2, 3}},
                {.table_index = 0, .keys = {2, 0}}};
  return batch;
}

constexpr size_t kHeadBytes = 112;
constexpr size_t kRecordsAt = 20, kFloatsAt = 96, kBagsAt = 100, kTablesAt = 104;

std::string why_refused(const std::vector<uint8_t>& bytes) {
  Batch batch;
  const Result<void> decoded = decode_batch(bytes, batch);
  if (decoded) return "accepted";
  CHECK(decoded.error().code == ErrorCode::kMalformed);
  return decoded.error().what;
}

std::string why_refused_with(size_t at, uint32_t value) {
  std::vector<uint8_t> bytes = bytes_of(sample());
  std::memcpy(bytes.data() + at, &value, sizeof(value));
  return why_refused(bytes);
}

}  // namespace

TEST_CASE("a batch comes back field by field, also into used vectors", "[wire]") {
  Rng rng(1);
  Batch out;
  for (int round = 0; round < 500; ++round) {
    const Batch batch = random_batch(rng, round % 7 == 0 ? 3000 : 20, round % 50 == 0 ? 70000 : 40);
    const std::vector<uint8_t> bytes = bytes_of(batch);
    CHECK(bytes.size() % 4 == 0);
    REQUIRE(decode_batch(bytes, out));
    REQUIRE(same_batch(batch, out));
  }
}

TEST_CASE("a large batch is cut into frames that together are its bytes", "[wire]") {
  Batch batch = sample();
  batch.records = 400'000;
  batch.bags.clear();
  batch.floats[0].values.assign(800'000, 1.5F);
  const Result<Bytes> bytes = encode_batch(batch);
  REQUIRE(bytes);
  const std::vector<Bytes> pieces = cut_batch(*bytes);
  REQUIRE(pieces.size() == 4);
  std::vector<uint8_t> whole;
  for (const Bytes& piece : pieces) {
    CHECK(piece.size() <= kFrameBytesMax);
    CHECK(piece.size() % 4 == 0);
    whole.insert(whole.end(), piece.data(), piece.data() + piece.size());
  }
  Batch out;
  REQUIRE(decode_batch(whole, out));
  CHECK(same_batch(batch, out));
  CHECK(cut_batch(Bytes::of(bytes_of(sample()))).size() == 1);
}

TEST_CASE("a quarantined batch travels without columns, even if its vectors hold some", "[wire]") {
  Batch batch = sample();
  batch.quarantined = true;
  batch.records = 0;
  batch.counts.quarantined = 2;
  const std::vector<uint8_t> bytes = bytes_of(batch);
  CHECK(bytes.size() == kHeadBytes);
  Batch out = sample();
  REQUIRE(decode_batch(bytes, out));
  CHECK(out.quarantined);
  CHECK(out.counts.quarantined == 2);
  CHECK(out.floats.empty());
}

TEST_CASE("keys of small tables take two bytes, keys of large tables take four", "[wire]") {
  Batch batch;
  batch.records = 1000;
  batch.tables = {{TableId(0), std::vector<uint64_t>(65536)}};
  batch.bags = {{.table_index = 0, .keys = std::vector<uint32_t>(1000, 65535)}};
  const size_t narrow = bytes_of(batch).size();
  batch.tables[0].keys.resize(65537);
  CHECK(bytes_of(batch).size() == narrow + 8 + 2000);
}

TEST_CASE("the decoder rejects bytes that are no batch, and names the fault", "[wire]") {
  CHECK(why_refused({}) == "batch: too short");
  CHECK(why_refused_with(0, 1) == "batch: wrong magic number");
  CHECK(why_refused_with(4, 2) == "batch: unknown flags");
  CHECK(why_refused_with(4, 1) == "batch: a quarantined batch with records");
  CHECK(why_refused_with(kFloatsAt, 65537) == "batch: too many columns");
  CHECK(why_refused_with(kFloatsAt, 65536) == "batch: truncated in its columns");
  CHECK(why_refused_with(kBagsAt, 65536).starts_with("batch: "));
  CHECK(why_refused_with(kTablesAt, 0) == "batch: a bag of an unknown table");
  CHECK(why_refused_with(kRecordsAt, UINT32_MAX) ==
        "batch: a bag without offsets does not have one key per record");
  constexpr size_t kWidthAt = kHeadBytes, kFirstBagAt = kWidthAt + 4, kTableAt = kFirstBagAt + 24,
                   kOffsetsAt = kTableAt + 8 + 16, kKeysAt = kOffsetsAt + 12;
  CHECK(why_refused_with(kWidthAt, UINT32_MAX) == "batch: truncated in numbers");
  CHECK(why_refused_with(kFirstBagAt, 1) == "batch: a bag of an unknown table");
  CHECK(why_refused_with(kFirstBagAt + 4, 4) == "batch: unknown flags of a bag");
  CHECK(why_refused_with(kFirstBagAt + 8, UINT32_MAX) == "batch: truncated in keys");
  CHECK(why_refused_with(kFirstBagAt + 8, 2) == "batch: offsets are out of order");
  CHECK(why_refused_with(kTableAt + 4, 2) == "batch: a key is outside its table");
  CHECK(why_refused_with(kTableAt + 4, UINT32_MAX).starts_with("batch: truncated in"));
  CHECK(why_refused_with(kOffsetsAt, 1) == "batch: offsets are out of order");
  CHECK(why_refused_with(kOffsetsAt + 4, 9) == "batch: offsets are out of order");
  CHECK(why_refused_with(kKeysAt, 3) == "batch: a key is outside its table");
  std::vector<uint8_t> longer = bytes_of(sample());
  longer.resize(longer.size() + 4);
  CHECK(why_refused(longer) == "batch: bytes after its end");
}

TEST_CASE("every truncation of a batch is refused", "[wire]") {
  const std::vector<uint8_t> bytes = bytes_of(sample());
  Batch out;
  for (size_t size = 0; size < bytes.size(); ++size)
    REQUIRE_FALSE(decode_batch(std::span(bytes).first(size), out));
}

TEST_CASE("mutated batches never crash, and an accepted one can be encoded again", "[wire]") {
  Rng rng(5);
  Batch out;
  size_t taken = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::vector<uint8_t> bytes = bytes_of(random_batch(rng, 20, 40));
    for (uint64_t n = 1 + rng.below(4); n > 0; --n) {
      const size_t at = rng.below(2) == 0 ? rng.below(std::min<size_t>(bytes.size(), 160))
                                          : rng.below(bytes.size());
      bytes[at] =
          rng.below(2) == 0 ? uint8_t(bytes[at] ^ (1U << rng.below(8))) : uint8_t(rng.next());
    }
    if (!decode_batch(bytes, out)) continue;
    ++taken;
    Batch again;
    REQUIRE(decode_batch(bytes_of(out), again));
  }
  CHECK(taken > 1000);
}

TEST_CASE("a batch beyond the limit is not sent", "[wire]") {
  Batch batch;
  batch.records = 1;
  batch.floats = {{.width = uint32_t(kBatchBytesMax / 4), .values = {}}};
  batch.floats[0].values.resize(kBatchBytesMax / 4);
  const Result<Bytes> bytes = encode_batch(batch);
  REQUIRE_FALSE(bytes);
  CHECK(bytes.error().code == ErrorCode::kUnsupported);
}

}  // namespace downpour::wire
