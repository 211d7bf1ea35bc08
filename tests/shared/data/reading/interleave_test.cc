// Interleaving and shuffle windows: the order of records in a shard that joins several ranges.
#include <algorithm>
#include <set>

#include "tests/shared/data/support.h"

namespace downpour::data {
namespace {

/// Returns a plan of three files with 10, 4 and 7 lines. Record n of file f has the key 100 f + n.
std::shared_ptr<ReadPlan> three_files(const ScratchDir& dir, bool gzip = false) {
  std::vector<std::string> names;
  for (int f = 0; f < 3; ++f) {
    std::string text;
    const int lines[] = {10, 4, 7};
    for (int n = 0; n < lines[f]; ++n) text += "1 " + std::to_string(100 * f + n) + ":1\n";
    names.push_back(dir.write("f" + std::to_string(f), gzip ? gzipped(text) : text));
  }
  auto plan = plan_of(names[0]);
  plan->data.source.paths = names;
  plan->files = list_files(plan->data, plan->data.source, "/").value();
  plan->data.interleave = {.cycle = 3, .block = 2};
  reads_libsvm(*plan);
  return plan;
}

std::vector<plan::ShardRange> all_of(const ReadPlan& plan) {
  return plan::cut_shards(plan.files, UINT64_MAX);
}

struct Read {
  std::vector<uint64_t> keys;  // of every record, in order
  std::vector<Batch> batches;
  ShardTotals totals;
};

Read read_joined(const std::shared_ptr<const ReadPlan>& plan, std::vector<plan::ShardRange> ranges,
                 ShardId shard = {}, uint32_t first_batch = 0) {
  Read out;
  const auto reader = open_shard(plan, Split::kAll, shard, std::move(ranges), first_batch).value();
  Batch batch;
  while (reader->next(batch).value()) {
    const BagColumn& bag = batch.bags[0];
    for (const uint32_t i : bag.keys) out.keys.push_back(batch.tables[0].keys[i]);
    out.batches.push_back(batch);
  }
  out.totals = reader->totals();
  return out;
}

}  // namespace

TEST_CASE("ranges take turns with a block of records each; a range at its end is skipped",
          "[data]") {
  const ScratchDir dir;
  for (const bool gzip : {false, true}) {
    const auto plan = three_files(dir, gzip);
    const Read read = read_joined(plan, all_of(*plan));
    CHECK(read.keys == std::vector<uint64_t>{0,   1, 100, 101, 200, 201, 2, 3,   102, 103, 202,
                                             203, 4, 5,   204, 205, 6,   7, 206, 8,   9});
    CHECK(read.totals.counts.read == 21);
    CHECK(read.batches.back().end_offset == plan::bytes_of(all_of(*plan)));
  }
}

TEST_CASE("a range that begins inside a file is shuffled as a whole", "[data][order]") {
  const ScratchDir dir;
  constexpr uint64_t kLines = 40'000;
  std::string text;
  for (uint64_t i = 0; i < kLines; ++i) text += str("1 ", i, ":1\n");
  const auto plan = plan_of(dir.write("sorted", text));
  reads_libsvm(*plan);
  plan->data.shuffle = "shard";
  const std::vector<plan::ShardRange> halves = plan::cut_shards(plan->files, text.size() / 2 + 1);
  REQUIRE(halves.size() == 2);
  for (const bool joined : {false, true}) {
    INFO("joined " << joined);
    plan->data.interleave.cycle = joined ? 2 : 1;
    const auto ranges = joined ? halves : std::vector{halves[1]};
    const std::vector<uint64_t> keys = read_joined(plan, ranges).keys;
    const auto [low, high] = std::ranges::minmax(keys);
    const uint64_t last_quarter = high - (high - low) / 4;
    const auto begin = keys.end() - ptrdiff_t(keys.size() / 8);
    const auto late =
        std::count_if(begin, keys.end(), [&](uint64_t k) { return k > last_quarter; });
    CHECK(double(late) / double(keys.size() / 8) == Approx(0.25).margin(0.05));
  }
}

TEST_CASE("a shard read that starts at a later batch gives the same batches", "[data]") {
  const ScratchDir dir;
  const auto plan = three_files(dir);
  for (const char* shuffle : {"off", "shard", "5"}) {
    plan->data.shuffle = shuffle;
    const Read all = read_joined(plan, all_of(*plan), {2, 9});
    for (uint32_t first = 0; first < all.batches.size(); ++first) {
      const Read rest = read_joined(plan, all_of(*plan), {2, 9}, first);
      REQUIRE(rest.batches.size() == all.batches.size() - first);
      CHECK(rest.batches.front().id == all.batches[first].id);
      CHECK(rest.batches.front().records_hash == all.batches[first].records_hash);
      CHECK(rest.totals.records_hash == all.totals.records_hash);
    }
  }
}

TEST_CASE("records are shuffled only within their window", "[data]") {
  const ScratchDir dir;
  const auto plan = three_files(dir);
  const std::vector<uint64_t> in_order = read_joined(plan, all_of(*plan)).keys;
  plan->data.shuffle = "6";
  std::set<std::vector<uint64_t>> orders;
  for (uint32_t epoch = 0; epoch < 20; ++epoch) {
    const std::vector<uint64_t> keys = read_joined(plan, all_of(*plan), {epoch, 1}).keys;
    REQUIRE(keys.size() == in_order.size());
    for (size_t begin = 0; begin < keys.size(); begin += 6) {
      const size_t end = std::min(begin + 6, keys.size());
      CHECK(std::is_permutation(keys.begin() + ptrdiff_t(begin), keys.begin() + ptrdiff_t(end),
                                in_order.begin() + ptrdiff_t(begin)));
    }
    orders.insert(keys);
  }
  CHECK(orders.size() == 20);
  plan->data.shuffle = "1";
  CHECK(read_joined(plan, all_of(*plan)).keys == in_order);
}

TEST_CASE("shuffling by shard mixes all records of all ranges, also of different lengths",
          "[data]") {
  const ScratchDir dir;
  const auto plan = three_files(dir);
  const std::vector<uint64_t> in_order = read_joined(plan, all_of(*plan)).keys;
  plan->data.shuffle = "shard";
  std::set<uint64_t> first, last;
  for (uint32_t epoch = 0; epoch < 400; ++epoch) {
    const std::vector<uint64_t> keys = read_joined(plan, all_of(*plan), {epoch, 1}).keys;
    CHECK(std::is_permutation(keys.begin(), keys.end(), in_order.begin()));
    first.insert(keys.front());
    last.insert(keys.back());
  }
  CHECK(first.size() == 21);  // a record is missing with a probability of 1 in 10 million
  CHECK(last.size() == 21);
}

TEST_CASE("pieces of the parts of a mix have equally many records of any length", "[data]") {
  const ScratchDir dir;
  std::string lines, longer;
  for (int n = 0; n < 1000; ++n) {
    lines += "1 1:1\n";
    longer += "1 " + std::to_string(n + 1'000'000) + ":1" + std::string(40, ' ') + "\n";
  }
  DataSpec data{.format = DataFormat::kLibsvm};
  data.source = {.paths = {dir.write("a", lines), dir.write("b", longer)},
                 .parts = {{.paths = 1, .weight = 1}, {.paths = 1, .weight = 1}}};
  auto files = list_files(data, data.source, "/").value();
  REQUIRE(note_parts(data, files));
  REQUIRE(find_cuts(data, data.source, 60, files));
  CHECK(files[0].cuts.empty());
  CHECK(plan::cut_shards({files[0]}, 60).size() == 100);
  CHECK(plan::cut_shards({files[1]}, 60).size() == 100);
}

TEST_CASE("a single range is shuffled within each window", "[data]") {
  const ScratchDir dir;
  const auto plan = three_files(dir);
  plan->data.interleave = {};
  plan->data.shuffle = "4";
  const std::vector<uint64_t> keys =
      read_joined(plan, {{.file = 0, .end = plan->files[0].bytes}}).keys;
  REQUIRE(keys.size() == 10);
  for (size_t i = 0; i < 10; ++i) CHECK(keys[i] / 4 == i / 4);
}

TEST_CASE("every record is read once for ranges of any size and for any cycle", "[data]") {
  const ScratchDir dir;
  const auto plan = three_files(dir);
  for (const uint64_t target : {7ULL, 20ULL, 1000ULL}) {
    for (const uint32_t cycle : {2U, 3U, 5U}) {
      plan->data.interleave = {.cycle = cycle, .block = 3};
      const plan::ShardMap shards(plan::cut_shards(plan->files, target), 5, cycle);
      std::vector<uint64_t> keys;
      for (uint32_t place = 0; place < shards.count(); ++place) {
        const Read read = read_joined(plan, shards.at(1, place), {1, place});
        keys.insert(keys.end(), read.keys.begin(), read.keys.end());
      }
      CHECK(keys.size() == 21);
      CHECK(std::set<uint64_t>(keys.begin(), keys.end()).size() == 21);
    }
  }
}

TEST_CASE("the error for a bad record in a joined shard names its file and line", "[data]") {
  const ScratchDir dir;
  auto plan = three_files(dir);
  dir.write("f1", "1 100:1\n1 101:x\n");
  plan->files = list_files(plan->data, plan->data.source, "/").value();
  const auto reader = open_shard(plan, Split::kAll, {}, all_of(*plan), 0).value();
  Batch batch;
  Result<bool> more = reader->next(batch);
  while (more && *more) more = reader->next(batch);
  REQUIRE_FALSE(more);
  CHECK(more.error().where == plan->files[1].path + ":2");
}

TEST_CASE("an epoch ends after batches_max batches", "[data]") {
  const ScratchDir dir;
  const auto plan = three_files(dir, /*gzip=*/true);
  plan->data.interleave = {};
  plan->batches_max = 2;  // of 4 records each
  const Read read = read_joined(plan, {{.file = 0, .end = plan->files[0].bytes}});
  CHECK(read.keys == std::vector<uint64_t>{0, 1, 2, 3, 4, 5, 6, 7});
  CHECK(read.totals.batches == 2);
  CHECK(read.totals.counts.read == 8);
  CHECK(plan_hash(*plan, {}) != plan_hash(*three_files(dir, true), {}));
}

TEST_CASE("a mix draws from its parts by weight and gives every record once", "[data]") {
  const ScratchDir dir;
  std::string a, b;
  for (int n = 0; n < 900; ++n) a += "1 " + std::to_string(10'000 + n) + ":1\n";
  for (int n = 0; n < 100; ++n) b += "1 " + std::to_string(20'000 + n) + ":1\n";
  const auto plan = plan_of(dir.write("a", a));
  dir.write("b", b);
  plan->data.source = {.paths = {dir / "a", dir / "b"},
                       .parts = {{.paths = 1, .weight = 0.9}, {.paths = 1, .weight = 0.1}}};
  plan->files = list_files(plan->data, plan->data.source, "/").value();
  REQUIRE(note_parts(plan->data, plan->files));
  CHECK(plan->data.source.parts[1].files == 1);
  CHECK(plan->data.source.parts[1].record_bytes == 10);
  plan->source = plan->data.source;
  reads_libsvm(*plan);
  const std::vector<uint64_t> keys = read_joined(plan, all_of(*plan), {1, 2}).keys;
  CHECK(keys == read_joined(plan, all_of(*plan), {1, 2}).keys);
  CHECK(keys != read_joined(plan, all_of(*plan), {1, 3}).keys);
  CHECK(std::set<uint64_t>(keys.begin(), keys.end()).size() == 1000);
  uint64_t last_a = 0;
  size_t early_b = 0;
  for (size_t i = 0; i < keys.size(); ++i) {
    if (keys[i] < 20'000) {
      CHECK(keys[i] > last_a);  // each range in the order of its file
      last_a = keys[i];
    } else if (i < 500) {
      ++early_b;
    }
  }
  CHECK(early_b > 20);  // expected 50, within six standard deviations of 5
  CHECK(early_b < 80);
}

TEST_CASE("a list names files relative to its folder, and a repeated part lists them again",
          "[data]") {
  const ScratchDir dir;
  std::filesystem::create_directory(dir / "lists");
  for (const char* name : {"lists/x1", "lists/x2", "y"}) dir.write(name, "1 1:1\n");
  dir.write("lists/names.txt", "# files\n\n  x*  \n../y\n");
  DataSpec data{.format = DataFormat::kLibsvm};
  data.source.paths = {"@lists/names.txt", "y"};
  data.source.parts = {{.paths = 1, .repeat = 2}, {.paths = 1}};
  const auto names = [&] {
    std::vector<std::string> out;
    const auto files = list_files(data, data.source, dir.path()).value();
    for (const plan::FileInfo& file : files)
      out.push_back(file.path.substr(dir.path().size() + 1) + " " + std::to_string(file.part));
    return out;
  };
  CHECK(names() == std::vector<std::string>{"lists/x1 0", "lists/x2 0", "y 0", "lists/x1 0",
                                            "lists/x2 0", "y 0", "y 1"});
  data.source.parts.clear();
  const auto error = [&](const std::string& path) {
    data.source.paths = {path};
    return list_files(data, data.source, dir.path()).error();
  };
  dir.write("empty.txt", "# none\n");
  CHECK(error("@empty.txt").what == "the list contains no file");
  CHECK(error("@absent.txt").code == ErrorCode::kNoInput);
  dir.write("gone.txt", "z1\n");
  CHECK(error("@gone.txt").code == ErrorCode::kNoInput);
  dir.write("@odd", "1 1:1\n");  // a file of exactly this name is not a list
  data.source.paths = {"@odd"};
  CHECK(list_files(data, data.source, dir.path()).value().front().path == dir / "@odd");
}

}  // namespace downpour::data
