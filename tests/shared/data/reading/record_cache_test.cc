// RecordCache: replayed batches equal those from reading the files.
#include "shared/data/reading/record_cache.h"

#include <atomic>
#include <thread>

#include "tests/shared/data/support.h"

namespace downpour::data {
namespace {

constexpr uint64_t kRoom = 64 << 20;

std::shared_ptr<CacheStore> memory(uint64_t bytes = kRoom) {
  return make_cache_store(Cache::kMemory, bytes, "");
}

/// Returns a plan of two files with 700 lines of numbers, words and bags. It has transforms, random
/// ops, a cross and a filter.
std::shared_ptr<ReadPlan> rich_plan(const ScratchDir& dir) {
  std::vector<std::string> names;
  for (int file = 0; file < 2; ++file) {
    std::string text;
    for (int i = 0; i < 700; ++i) {
      text += str(i % 2, ",", file * 1000 + i, ",", i % 17 == 0 ? "" : str("w", i % 23), ",", i % 5,
                  " ", i % 7, "\n");
    }
    names.push_back(dir.write(str("part", file, ".csv"), text));
  }
  auto plan = plan_of(names[0], DataFormat::kCsv);
  plan->data.columns = {"label", "n", "word", "bag"};
  FieldSpec number{.name = "n"};
  number.transform = {ops::Log1p{}, ops::Noise{.stddev = .1}};
  FieldSpec word{.name = "word", .type = FieldType::kString, .fallback = ""};
  word.transform = {ops::Hash{.buckets = 1000}};
  FieldSpec bag{.name = "bag", .type = FieldType::kInt64, .shape = {-1}};
  bag.transform = {ops::Hash{.buckets = 50}, ops::Dropout{.rate = .3}};
  FieldSpec both{.name = "both"};
  both.transform = {ops::Cross{.buckets = 500, .fields = {"word", "bag"}}};
  plan->data.fields = {{.name = "label"}, number, word, bag, both};
  plan->data.filter = "n % 10 != 3";
  plan->data.shuffle = "shard";
  plan->data.source.paths = names;
  plan->files = list_files(plan->data, plan->data.source, "/").value();
  plan->layout.floats = {{"label", 1}, {"n", 1}};
  plan->layout.bags = {{"word", 0}, {"bag", 1}, {"both", 1}};
  plan->layout.tables = {TableId(0), TableId(1)};
  plan->batch_size = 64;
  return plan;
}

struct ReadBack {
  std::vector<Batch> batches;
  ShardTotals totals;
  bool kept = false;
};
ReadBack read(const std::shared_ptr<const ReadPlan>& plan, uint32_t epoch, Split part = Split::kAll,
              uint32_t first_batch = 0, size_t ranges = 1) {
  std::vector<plan::ShardRange> all = plan::cut_shards(plan->files, UINT64_MAX);
  all.resize(ranges);
  const auto reader = open_shard(plan, part, {epoch, 0}, all, first_batch).value();
  ReadBack told;
  for (Batch batch; reader->next(batch).value();) told.batches.push_back(batch);
  told.totals = reader->totals();
  told.kept = reader->is_kept();
  return told;
}
bool same(const ReadBack& a, const ReadBack& b) {
  const auto same_batch = [](const Batch& x, const Batch& y) {
    const auto same_floats = [](const FloatColumn& p, const FloatColumn& q) {
      return p.values == q.values;
    };
    const auto same_bag = [](const BagColumn& p, const BagColumn& q) {
      return p.keys == q.keys && p.offsets == q.offsets && p.values == q.values;
    };
    const auto same_keys = [](const TableKeys& p, const TableKeys& q) { return p.keys == q.keys; };
    return x.id == y.id && x.records_hash == y.records_hash && x.first_record == y.first_record &&
           x.counts.read == y.counts.read && x.counts.filtered == y.counts.filtered &&
           x.end_offset == y.end_offset && std::ranges::equal(x.floats, y.floats, same_floats) &&
           std::ranges::equal(x.bags, y.bags, same_bag) &&
           std::ranges::equal(x.tables, y.tables, same_keys);
  };
  return std::ranges::equal(a.batches, b.batches, same_batch) &&
         a.totals.records_hash == b.totals.records_hash &&
         a.totals.counts.read == b.totals.counts.read &&
         a.totals.counts.filtered == b.totals.counts.filtered &&
         a.totals.first_offset == b.totals.first_offset &&
         a.totals.end_offset == b.totals.end_offset;
}

}  // namespace

TEST_CASE("the cache gives the same batches as reading, in every epoch and for joined ranges",
          "[data]") {
  const ScratchDir dir;
  for (const size_t ranges : {size_t{1}, size_t{2}}) {
    for (const Cache where : {Cache::kMemory, Cache::kFile}) {
      const auto plain = rich_plan(dir);
      if (ranges > 1) plain->data.interleave = {.cycle = 2, .block = 3};
      const auto cached = with_cache(*plain, make_cache_store(where, kRoom, dir.path()));
      REQUIRE_FALSE(read(cached, 0, Split::kAll, 0, ranges).kept);
      for (uint32_t epoch = 0; epoch < 3; ++epoch) {
        INFO(ranges << " ranges, epoch " << epoch);
        const ReadBack told = read(cached, epoch, Split::kAll, 0, ranges);
        CHECK(told.kept);
        CHECK(told.batches.size() == (ranges * 630 + 63) / 64);
        CHECK(same(told, read(plain, epoch, Split::kAll, 0, ranges)));
      }
      // The same from a later first batch.
      CHECK(same(read(cached, 1, Split::kAll, 4, ranges), read(plain, 1, Split::kAll, 4, ranges)));
    }
  }
}

TEST_CASE("a range that is not read to its end, or has a quarantined batch, is not cached",
          "[data]") {
  const ScratchDir dir;
  const auto plain = rich_plan(dir);
  const auto cached = with_cache(*plain, memory());
  const std::vector<plan::ShardRange> all = plan::cut_shards(plain->files, UINT64_MAX);
  {
    const auto early = open_shard(cached, Split::kAll, {0, 0}, {all[0]}, 0).value();
    Batch batch;
    REQUIRE(early->next(batch).value());
  }
  CHECK_FALSE(read(cached, 0).kept);
  CHECK(read(cached, 1).kept);

  const auto quarantined = with_cache(*plain, memory());
  for (int i = 0; i < 2; ++i) {
    const auto reader = open_shard(quarantined, Split::kAll, {0, 0}, {all[0]}, 0, {2}).value();
    for (Batch batch; reader->next(batch).value();) {
    }
  }
  CHECK_FALSE(read(quarantined, 1).kept);
  CHECK(same(read(quarantined, 2), read(plain, 2)));
}

TEST_CASE("held-out and training records are cached separately", "[data]") {
  const ScratchDir dir;
  const auto plain = rich_plan(dir);
  plain->holdout = .3;
  const auto cached = with_cache(*plain, memory());
  for (const Split part : {Split::kTrain, Split::kHeldOut}) read(cached, 0, part);
  for (const Split part : {Split::kTrain, Split::kHeldOut}) {
    const ReadBack told = read(cached, 1, part);
    CHECK(told.kept);
    CHECK(same(told, read(plain, 1, part)));
  }
}

TEST_CASE("a range with bad records is not cached, and they are counted at each read", "[data]") {
  const ScratchDir dir;
  auto plan = plan_of(dir.write("x", "1 1:1\n1 x:1\n0 2:1\n"));
  reads_libsvm(*plan);
  plan->data.bad_records = BadRecords::kSkip;
  const auto cached = with_cache(*plan, memory());
  for (uint32_t epoch = 0; epoch < 2; ++epoch) {
    const ReadBack told = read(cached, epoch);
    CHECK_FALSE(told.kept);
    CHECK(told.totals.counts.skipped == 1);
    CHECK(told.totals.counts.read == 3);
  }
}

TEST_CASE("if the store has no room, nothing is cached and its memory is returned", "[data]") {
  const ScratchDir dir;
  const auto plain = rich_plan(dir);
  for (const uint64_t bytes :
       {uint64_t{0}, uint64_t{1} << 20}) {  // no room for columns; no room for rows
    const auto store = memory(bytes);
    const auto cached = with_cache(*plain, store);
    CHECK(same(read(cached, 0), read(plain, 0)));
    CHECK_FALSE(read(cached, 1).kept);
    CHECK(was_full(*store));
    CHECK(used_bytes(*store) == 0);
  }
  const auto nowhere = make_cache_store(Cache::kFile, kRoom, dir.path() + "/gone");
  const auto cached = with_cache(*plain, nowhere);
  CHECK(same(read(cached, 0), read(plain, 0)));
  CHECK(was_full(*nowhere));
}

TEST_CASE("a changed file is an error even if its records are cached", "[data]") {
  const ScratchDir dir;
  auto plan = plan_of(dir.write("x", "1 1:1\n0 2:1\n"));
  reads_libsvm(*plan);
  const auto cached = with_cache(*plan, memory());
  read(cached, 0);
  CHECK(read(cached, 1).kept);
  dir.write("x", "1 1:1\n0 3:1\n");
  const auto changed =
      open_shard(cached, Split::kAll, {0, 0}, plan::cut_shards(plan->files, UINT64_MAX), 0);
  REQUIRE_FALSE(changed);
  CHECK(changed.error().code == ErrorCode::kBadData);
}

TEST_CASE("readers on several threads fill and use one cache", "[data]") {
  const ScratchDir dir;
  const auto plain = rich_plan(dir);
  const auto store = memory();
  const auto cached = with_cache(*plain, store);
  const ReadBack wanted = read(plain, 0);
  std::vector<std::thread> threads;
  std::atomic<int> right = 0;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 5; ++i) right += same(read(cached, 0), wanted) ? 1 : 0;
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(right == 20);
  CHECK(read(cached, 0).kept);
}

}  // namespace downpour::data
