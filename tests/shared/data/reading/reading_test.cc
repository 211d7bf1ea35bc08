// Shard reads: which records a shard has, their order, and their counts.
#include <algorithm>
#include <map>
#include <set>

#include "shared/base/rng.h"
#include "shared/data/reading/batch_reader.h"
#include "shared/data/reading/open_shard.h"
#include "tests/shared/data/support.h"

namespace downpour::data {
namespace {

/// Returns a libsvm file of lines of very different lengths with blank lines and comments, with or
/// without a final line break. Sets `records` to their number.
std::string random_file(Rng& rng, uint32_t& records) {
  std::string text = rng.below(4) == 0 ? "\xef\xbb\xbf" : "";
  records = 0;
  const char* const line_break = rng.below(3) == 0 ? "\r\n" : "\n";
  for (uint64_t i = 0; i < 1 + rng.below(40); ++i) {
    const uint64_t kind = rng.below(8);
    if (kind == 0) {
      text += line_break;
    } else if (kind == 1) {
      text += str("# note", line_break);
    } else {
      text += str(records++);
      for (uint64_t f = rng.below(kind == 2 ? 60 : 4); f > 0; --f)
        text += str(" ", rng.below(100), ":", rng.below(5));
      text += line_break;
    }
  }
  if (rng.below(2) == 0 && text.back() == '\n')
    text.erase(text.size() - (line_break[1] == '\0' ? 1 : 2));
  return text;
}

TEST_CASE(
    "for any cuts, every record is read exactly once and the shards cover the file without overlap",
    "[data]") {
  const ScratchDir dir;
  Rng rng(11);
  for (int round = 0; round < 300; ++round) {
    uint32_t records = 0;
    const std::string text = random_file(rng, records);
    if (records == 0) continue;
    INFO("round " << round << "\n" << text);
    auto plan = plan_of(dir.write(str("f", round), text));
    reads_libsvm(*plan);
    plan->data.shuffle = rng.below(2) == 0 ? "off" : "shard";
    std::multiset<float> labels;
    uint64_t at = 0;
    ReadCounts sum;
    for (const plan::ShardRange& range :
         plan::cut_shards(plan->files, 1 + rng.below(text.size()))) {
      const ShardRead shard = read_shard(plan, range).value();
      for (const auto& floats : shard.floats) labels.insert(floats[0]);
      REQUIRE(shard.totals.first_offset == at);
      REQUIRE(shard.totals.end_offset >= at);
      at = shard.totals.end_offset;
      sum.read += shard.totals.counts.read;
      REQUIRE(shard.totals.counts.read == shard.floats.size());
      REQUIRE(shard.totals.batches == shard.batches.size());
    }
    REQUIRE(at == text.size());
    REQUIRE(sum.read == records);
    REQUIRE(labels.size() == records);
    REQUIRE(std::set<float>(labels.begin(), labels.end()).size() == records);
  }
}

TEST_CASE("a header and skipped lines that fill the first shards are not records, but are covered",
          "[data]") {
  const ScratchDir dir;
  const std::string text = "a comment that is long\nlabel,value\n1,2\n3,4\n";
  auto plan = plan_of(dir.write("f.csv", text), DataFormat::kCsv);
  plan->data.header = true;
  plan->data.skip_lines = 1;
  plan->data.fields = {{.name = "value"}};
  plan->layout.floats = {{"value", 1}};
  std::vector<float> values;
  uint64_t at = 0;
  for (const plan::ShardRange& range : plan::cut_shards(plan->files, 5)) {
    const ShardRead shard = read_shard(plan, range).value();
    CHECK(shard.totals.first_offset == at);
    at = shard.totals.end_offset;
    for (const auto& floats : shard.floats) values.push_back(floats[0]);
  }
  CHECK(at == text.size());
  CHECK(values == std::vector<float>{2, 4});
}

std::string counting_file(uint32_t records) {
  std::string text;
  for (uint32_t i = 0; i < records; ++i) text += str(i, " ", i % 17, ":1 ", 1000 + i, ":0.5\n");
  return text;
}

std::vector<float> labels_of(const ShardRead& read) {
  std::vector<float> labels;
  for (const auto& floats : read.floats) labels.push_back(floats[0]);
  return labels;
}

TEST_CASE("a window of very short records ends at kWindowRecordsMax, and all records are read",
          "[data]") {
  const ScratchDir dir;
  constexpr size_t kLines = kWindowRecordsMax + 100'000;
  std::string text;
  for (size_t i = 0; i < kLines; ++i) text += i % 2 == 0 ? "0\n" : "1\n";
  auto plan = plan_of(dir.write("f", text));
  reads_libsvm(*plan);
  plan->data.shuffle = "shard";
  plan->batch_size = 1 << 20;
  Scratch::Text memory;
  const plan::ShardRange all{0, 0, text.size()};
  const ShardRecords records = open_records(*plan, 0, all, memory).value();
  Window window;
  REQUIRE(records.source->next(window).value());
  CHECK(window.records->size() == kWindowRecordsMax);
  REQUIRE(records.source->next(window).value());
  CHECK(window.records->size() == kLines - kWindowRecordsMax);
  CHECK_FALSE(records.source->next(window).value());
  CHECK(records.source->end_offset() == text.size());
  const auto reader = open_shard(plan, Split::kAll, {}, all, 0).value();
  Batch batch;
  double ones = 0;
  while (reader->next(batch).value())
    ones += double(std::count(batch.floats[0].values.begin(), batch.floats[0].values.end(), 1.0F));
  CHECK(reader->totals().counts.read == kLines);
  CHECK(ones == kLines / 2);
}

TEST_CASE("a shuffled shard is a permutation that depends on seed, epoch and shard", "[data]") {
  const ScratchDir dir;
  auto plan = plan_of(dir.write("f", counting_file(500)));
  reads_libsvm(*plan);
  const plan::ShardRange all{0, 0, plan->files[0].bytes};
  const std::vector<float> in_order = labels_of(read_shard(plan, all).value());
  CHECK(std::is_sorted(in_order.begin(), in_order.end()));
  plan->data.shuffle = "shard";
  const auto shuffled = [&](ShardId shard) {
    return labels_of(read_shard(plan, all, shard).value());
  };
  const std::vector<float> first = shuffled({0, 0});
  CHECK(first != in_order);
  CHECK(first == shuffled({0, 0}));
  CHECK(first != shuffled({1, 0}));
  CHECK(first != shuffled({0, 1}));
  CHECK(std::is_permutation(first.begin(), first.end(), in_order.begin(), in_order.end()));
  plan->seed = 2;
  CHECK(first != shuffled({0, 0}));
}

TEST_CASE("a batch id names the same records for any first batch of the read", "[data]") {
  const ScratchDir dir;
  auto plan = plan_of(dir.write("f", counting_file(99)));
  reads_libsvm(*plan);
  plan->data.shuffle = "shard";
  plan->holdout = 0.2;
  const plan::ShardRange all{0, 0, plan->files[0].bytes};
  const ShardRead whole = read_shard(plan, all, {2, 5}, Split::kTrain).value();
  for (uint32_t first = 0; first <= whole.batches.size(); ++first) {
    const ShardRead rest = read_shard(plan, all, {2, 5}, Split::kTrain, first).value();
    REQUIRE(rest.batches.size() == whole.batches.size() - first);
    for (size_t i = 0; i < rest.batches.size(); ++i) {
      const Batch &a = rest.batches[i], &b = whole.batches[first + i];
      CHECK(a.id == b.id);
      CHECK(a.id == BatchId{2, 5, uint32_t(first + i)});
      CHECK(a.records_hash == b.records_hash);
      CHECK(a.floats[0].values == b.floats[0].values);
      CHECK(a.tables[0].keys == b.tables[0].keys);
      CHECK(a.bags[0].keys == b.bags[0].keys);
      CHECK(a.counts == b.counts);
      CHECK(a.end_offset == b.end_offset);
    }
    CHECK(rest.totals.counts == whole.totals.counts);
    CHECK(rest.totals.records_hash == whole.totals.records_hash);
    CHECK(rest.totals.batches == whole.totals.batches);
  }
}

TEST_CASE(
    "holdout and training are disjoint and complete, and the same in every epoch and for any cuts",
    "[data]") {
  const ScratchDir dir;
  constexpr uint32_t kRecords = 4000;
  auto plan = plan_of(dir.write("f", counting_file(kRecords)));
  reads_libsvm(*plan);
  plan->holdout = 0.25;
  plan->data.shuffle = "shard";
  const auto labels = [&](Split part, uint32_t epoch, uint64_t target) {
    std::set<float> found;
    ReadCounts counts;
    for (const plan::ShardRange& range : plan::cut_shards(plan->files, target)) {
      const ShardRead read = read_shard(plan, range, {epoch, 0}, part).value();
      for (const float label : labels_of(read)) found.insert(label);
      CHECK(read.totals.counts.read == read.totals.counts.filtered + read.floats.size());
      counts.read += read.totals.counts.read;
    }
    CHECK(counts.read == kRecords);
    return found;
  };
  const std::set<float> train = labels(Split::kTrain, 0, 5000),
                        held_out = labels(Split::kHeldOut, 0, 5000);
  CHECK(train.size() + held_out.size() == kRecords);
  for (const float label : held_out) CHECK_FALSE(train.contains(label));
  // 1000 expected, standard deviation 27.
  CHECK(held_out.size() > 880);
  CHECK(held_out.size() < 1120);
  CHECK(held_out == labels(Split::kHeldOut, 3, 700));
  CHECK(labels(Split::kAll, 0, 5000).size() == kRecords);
}

TEST_CASE("a record stays on its side of the holdout when files are added or removed", "[data]") {
  const ScratchDir dir;
  const std::string old = dir.write("a", counting_file(400)),
                    kept = dir.write("b", counting_file(400));
  const auto held_out = [](std::vector<plan::FileInfo> files, uint32_t file) {
    auto plan = plan_of(files[0].path);
    reads_libsvm(*plan);
    plan->files = std::move(files);
    plan->holdout = 0.5;
    return labels_of(
        read_shard(plan, {file, 0, plan->files[file].bytes}, {0, 0}, Split::kHeldOut).value());
  };
  const plan::FileInfo a = plan_of(old)->files[0], b = plan_of(kept)->files[0];
  CHECK(held_out({a, b}, 1) == held_out({b}, 0));
  CHECK(held_out({b, b}, 1) == held_out({b, b}, 0));
  CHECK(held_out({a, b}, 0) != held_out({a, b}, 1));  // of the same records in another file
}

TEST_CASE("a short last batch is returned, or counted as dropped", "[data]") {
  const ScratchDir dir;
  auto plan = plan_of(dir.write("f", counting_file(10)));
  reads_libsvm(*plan);
  const ShardRead all = read_file(plan).value();
  CHECK(all.batches.size() == 3);
  CHECK(all.batches[2].records == 2);
  plan->drop_remainder = true;
  const ShardRead full = read_file(plan).value();
  CHECK(full.batches.size() == 2);
  CHECK(full.totals.counts == ReadCounts{.read = 10, .dropped = 2});
  CHECK(full.totals.records_hash == full.batches[0].records_hash + full.batches[1].records_hash);
  // Evaluations drop no records, because a shard often holds out less than a batch.
  CHECK(read_file(for_evaluation(*plan, plan->source, plan->files)).value().batches.size() == 3);
  plan->holdout = 0.999999;
  const ShardRead held_out =
      read_shard(plan, {0, 0, plan->files[0].bytes}, {}, Split::kHeldOut).value();
  CHECK(held_out.totals.counts == ReadCounts{.read = 10});
}

TEST_CASE("the totals include the batches and the records after the last batch", "[data]") {
  const ScratchDir dir;
  std::string text;
  for (uint32_t i = 0; i < 50; ++i) text += i % 7 == 3 ? "broken\n" : str(i, " 1:1\n");
  auto plan = plan_of(dir.write("f", text + "broken\nbroken"));
  reads_libsvm(*plan);
  plan->data.bad_records = BadRecords::kSkip;
  const ShardRead read = read_file(plan).value();
  ReadCounts sum;
  uint64_t records = 0, hash = 0, progress = 0;
  for (const Batch& batch : read.batches) {
    sum.read += batch.counts.read;
    sum.skipped += batch.counts.skipped;
    records += batch.records;
    hash += batch.records_hash;
    CHECK(batch.end_offset > progress);
    progress = batch.end_offset;
  }
  CHECK(read.totals.counts == ReadCounts{.read = 52, .skipped = 9});
  CHECK(records == 43);
  CHECK(sum.read <= 52);
  CHECK(hash == read.totals.records_hash);
  CHECK(progress <= plan->files[0].bytes);
}

TEST_CASE("the hash of the records depends on every byte, but not on their order", "[data]") {
  const ScratchDir dir;
  auto plan = plan_of(dir.write("f", "1 1:1\n2 2:2\n3 3:3\n"));
  reads_libsvm(*plan);
  const uint64_t hash = read_file(plan).value().totals.records_hash;
  plan->data.shuffle = "shard";
  for (uint64_t seed = 0; seed < 5; ++seed) {
    plan->seed = seed;
    CHECK(read_file(plan).value().totals.records_hash == hash);
  }
  auto other = plan_of(dir.write("g", "1 1:1\n2 2:2\n3 3:4\n"));
  reads_libsvm(*other);
  CHECK(read_file(other).value().totals.records_hash != hash);
}

TEST_CASE("records that span windows are read completely", "[data]") {
  const ScratchDir dir;
  std::string text;
  const std::string padding(300'000, ' ');
  for (uint32_t i = 0; i < 20; ++i)
    text += str(i, padding, i, ":2\n");  // 6 MB: several windows of 1 MiB
  auto plan = plan_of(dir.write("f", text));
  reads_libsvm(*plan);
  for (const uint64_t target : {uint64_t(text.size()), uint64_t{777'777}}) {
    std::vector<float> labels;
    for (const auto& range : plan::cut_shards(plan->files, target)) {
      for (const float label : labels_of(read_shard(plan, range).value())) labels.push_back(label);
    }
    REQUIRE(labels.size() == 20);
    CHECK(std::is_sorted(labels.begin(), labels.end()));
  }
}

TEST_CASE("the plan hash depends on everything that decides which records a batch has", "[data]") {
  const ScratchDir dir;
  const std::string path = dir.write("f", counting_file(100));
  const auto hash_with = [&](auto change) {
    auto plan = plan_of(path);
    reads_libsvm(*plan);
    change(*plan);
    return plan_hash(*plan, plan::cut_shards(plan->files, 400));
  };
  const uint64_t hash = hash_with([](ReadPlan&) {});
  CHECK(hash == hash_with([](ReadPlan&) {}));
  CHECK(hash != hash_with([](ReadPlan& p) { p.seed = 9; }));
  CHECK(hash != hash_with([](ReadPlan& p) { p.batch_size = 9; }));
  CHECK(hash != hash_with([](ReadPlan& p) { p.holdout = 0.5; }));
  CHECK(hash != hash_with([](ReadPlan& p) { p.drop_remainder = true; }));
  CHECK(hash != hash_with([](ReadPlan& p) { p.data.shuffle = "shard"; }));
  CHECK(hash == hash_with([](ReadPlan& p) { p.data.bad_records = BadRecords::kSkip; }));
  CHECK(hash != hash_with([](ReadPlan& p) { p.files[0].fingerprint ^= 1; }));
  CHECK(hash !=
        hash_with([](ReadPlan& p) { p.data.fields = {{.name = "label", .positive = {"1"}}}; }));
  auto plan = plan_of(path);
  reads_libsvm(*plan);
  CHECK(plan_hash(*plan, plan::cut_shards(plan->files, 400)) !=
        plan_hash(*plan, plan::cut_shards(plan->files, 500)));
}

}  // namespace
}  // namespace downpour::data
