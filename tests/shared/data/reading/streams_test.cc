// Records chosen by number: skip, take and shard of a source, and streams of every n-th record.
#include <algorithm>
#include <set>

#include "shared/base/rng.h"
#include "tests/shared/data/support.h"

namespace downpour::data {
namespace {

/// Returns a plan of files with `sizes` records, cut into pieces of about `shard_bytes`. The labels
/// count the records of all files from 0.
std::shared_ptr<ReadPlan> counted(const ScratchDir& dir, const std::vector<uint32_t>& sizes,
                                  uint64_t shard_bytes, const SourceSpec& part,
                                  bool compressed = false) {
  SourceSpec source = part;
  uint32_t label = 0;
  for (size_t f = 0; f < sizes.size(); ++f) {
    std::string text = "# a note\n\n";
    for (uint32_t i = 0; i < sizes[f]; ++i) text += str(label++, " 1:1\n");
    const std::string path = compressed ? dir.write(str("f", f, ".svm.gz"), gzipped(text))
                                        : dir.write(str("f", f, ".svm"), text);
    source.paths.push_back(path);
  }
  auto plan = plan_of(source.paths[0]);
  plan->data.source = plan->source = source;
  plan->files = list_files(plan->data, source, "/").value();
  reads_libsvm(*plan);
  std::vector<plan::FileInfo> files = plan->files;
  REQUIRE(count_pieces(*plan, shard_bytes, files));
  plan->files = files;
  return plan;
}

std::vector<uint32_t> labels(const std::shared_ptr<ReadPlan>& plan, uint64_t shard_bytes,
                             const plan::StreamSpec& streams, uint32_t stream) {
  std::vector<uint32_t> out;
  for (const auto& range : plan::cut_streams(plan->files, shard_bytes, streams)) {
    if (range.stream != stream) continue;
    const ShardRead read = read_shard(plan, range).value();
    CHECK(read.totals.counts.read == read.floats.size());  // counts only chosen records
    for (const auto& floats : read.floats) out.push_back(uint32_t(floats[0]));
  }
  return out;
}

}  // namespace

TEST_CASE("record i is in stream i mod n for any cuts, plain or compressed", "[data]") {
  const ScratchDir dir;
  Rng rng(3);
  for (int round = 0; round < 30; ++round) {
    const uint64_t shard_bytes = 1 + rng.below(300);
    const uint32_t n = 1 + uint32_t(rng.below(5));
    const auto plan = counted(dir, {7, 1, 40}, shard_bytes, {}, round % 3 == 0);
    for (uint32_t stream = 0; stream < n; ++stream) {
      std::vector<uint32_t> wanted;
      for (uint32_t i = stream; i < 48; i += n) wanted.push_back(i);
      CHECK(labels(plan, shard_bytes, {plan::StreamPolicy::kRecords, n}, stream) == wanted);
    }
  }
}

TEST_CASE("skip, take and shard choose by number over all files, in this order", "[data]") {
  const ScratchDir dir;
  for (const uint64_t shard_bytes : {1, 50, 100000}) {
    const auto plan =
        counted(dir, {10, 10, 10}, shard_bytes,
                {.paths = {}, .skip = 5, .take = 20, .shard_count = 3, .shard_index = 1});
    const std::vector<uint32_t> wanted = {6, 9, 12, 15, 18, 21, 24};
    CHECK(labels(plan, shard_bytes, {}, 0) == wanted);
    // Streams are made of the chosen records.
    const plan::StreamSpec two{plan::StreamPolicy::kRecords, 2};
    CHECK(labels(plan, shard_bytes, two, 0) == std::vector<uint32_t>{6, 12, 18, 24});
    CHECK(labels(plan, shard_bytes, two, 1) == std::vector<uint32_t>{9, 15, 21});
  }
}

TEST_CASE("skip and take may choose no records or reach past the end", "[data]") {
  const ScratchDir dir;
  CHECK(labels(counted(dir, {5}, 10, {.paths = {}, .skip = 9}), 10, {}, 0).empty());
  CHECK(labels(counted(dir, {5}, 10, {.paths = {}, .skip = 3, .take = 9}), 10, {}, 0) ==
        std::vector<uint32_t>{3, 4});
}

TEST_CASE("pieces before skip and after take are no shards, and files after take are not read",
          "[data]") {
  const ScratchDir dir;
  // Pieces of about 20 bytes: 2 to 4 records each.
  const auto plan = counted(dir, {40, 40, 40}, 20, {.paths = {}, .skip = 30, .take = 20});
  const auto ranges = plan::cut_shards(plan->files, 20);
  CHECK(ranges.size() <= 10);
  CHECK(labels(plan, 20, {}, 0).size() == 20);
  CHECK(ranges.front().file == 0);
  CHECK(ranges.front().begin > 0);
  CHECK(ranges.back().file == 1);
  CHECK(ranges.back().end < plan->files[1].bytes);
  CHECK(plan->files[2].leaves_out());
  CHECK(ranges.front().records_before > 24);
}

TEST_CASE("pieces after the last taken record are stored as one", "[data]") {
  const ScratchDir dir;
  const auto plan = counted(dir, {400, 400, 400}, 20, {.paths = {}, .take = 10});
  for (size_t file : {1, 2})
    CHECK(plan->files[file].records_before == std::vector<uint64_t>{plan::kNotChosen});
  CHECK(plan->files[0].records_before.size() < 8);
  CHECK(plan->files[0].records_before.back() == plan::kNotChosen);
  CHECK(labels(plan, 20, {}, 0).size() == 10);
}

TEST_CASE("a piece without records is not left out if nothing is skipped", "[data]") {
  const ScratchDir dir;
  // The comment before the first record is longer than a piece.
  const auto plan = counted(dir, {9}, 2, {.paths = {}, .shard_count = 2});
  CHECK(plan->files[0].records_before.front() == 0);
  CHECK_FALSE(plan->files[0].leaves_out());
}

TEST_CASE("a compressed file is read only up to the last taken record", "[data]") {
  const ScratchDir dir;
  std::string text;
  Rng rng(5);
  for (int i = 0; i < 600'000; ++i) text += str(i, " ", 1 + rng.below(1'000'000), ":1\n");
  std::string packed = gzipped(text);
  packed.resize(packed.size() / 2);  // reading further is an error, because the file is truncated
  auto plan = plan_of(dir.write("a.svm.gz", packed));
  plan->data.source = plan->source = {.paths = {dir / "a.svm.gz"}, .skip = 5, .take = 100};
  reads_libsvm(*plan);
  std::vector<plan::FileInfo> files = plan->files;
  REQUIRE(count_pieces(*plan, 1 << 20, files));
  plan->files = files;
  const ShardRead read = read_shard(plan, plan::cut_shards(files, 1 << 20).front()).value();
  REQUIRE(read.floats.size() == 100);
  CHECK(read.floats.front()[0] == 5);
  CHECK(read.floats.back()[0] == 104);
  plan->source.take = 500'000;
  CHECK_FALSE(read_shard(plan, plan::cut_shards(files, 1 << 20).front()));
}

TEST_CASE("with the default seed the shards of a shuffled source have each record once", "[data]") {
  const ScratchDir dir;
  std::multiset<uint32_t> all;
  for (uint32_t index = 0; index < 4; ++index) {
    auto plan = counted(dir, {33, 20}, 64, {.paths = {}, .shard_count = 4, .shard_index = index});
    plan->data.shuffle = "shard";
    for (const uint32_t label : labels(plan, 64, {}, 0)) all.insert(label);
  }
  CHECK(all.size() == 53);
  CHECK(std::set<uint32_t>(all.begin(), all.end()).size() == 53);
}

TEST_CASE("the plan hash depends on the chosen records and on the stream policy", "[data]") {
  const ScratchDir dir;
  std::set<uint64_t> hashes;
  for (const SourceSpec& part :
       {SourceSpec{}, SourceSpec{.paths = {}, .skip = 1}, SourceSpec{.paths = {}, .take = 1},
        SourceSpec{.paths = {}, .shard_count = 2},
        SourceSpec{.paths = {}, .shard_count = 2, .shard_index = 1}}) {
    const auto plan = counted(dir, {9}, 20, part);
    for (const auto policy : {plan::StreamPolicy::kOne, plan::StreamPolicy::kFiles,
                              plan::StreamPolicy::kRecords, plan::StreamPolicy::kCopies}) {
      hashes.insert(plan_hash(*plan, plan::cut_streams(plan->files, 20, {policy, 2})));
    }
  }
  CHECK(hashes.size() == 5 * 3);  // with one file, kFiles equals kOne
}

}  // namespace downpour::data
