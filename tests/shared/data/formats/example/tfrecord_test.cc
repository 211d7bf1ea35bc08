// TFRecord files: framing, cuts, and damaged files.
#include <set>

#include "shared/base/rng.h"
#include "shared/data/formats/sniff.h"
#include "tests/shared/data/formats/example/tfrecord_support.h"

namespace downpour::data {
namespace {

using Catch::Contains;
using Catch::EndsWith;

/// Returns the ids of all shards of about `shard_bytes`, in file order. Sets `sum` to the total
/// counts and `shards` to the number of shards.
std::vector<int64_t> ids_by_shards(const std::shared_ptr<ReadPlan>& plan, uint64_t shard_bytes,
                                   ReadCounts& sum, size_t& shards) {
  for (plan::FileInfo& info : plan->files) info.cuts.clear(), info.splittable = false;
  REQUIRE(find_cuts(plan->data, plan->source, shard_bytes, plan->files));
  std::vector<int64_t> ids;
  uint64_t at = 0;
  const auto ranges = plan::cut_shards(plan->files, shard_bytes);
  shards = ranges.size();
  sum = {};
  for (const plan::ShardRange& range : ranges) {
    const ShardRead read = read_shard(plan, range).value();
    CHECK(read.totals.first_offset == at);
    at = read.totals.end_offset;
    for (const auto& row : read.floats) ids.push_back(int64_t(row[0]));
    sum.read += read.totals.counts.read;
    sum.skipped += read.totals.counts.skipped;
  }
  CHECK(at == plan->files[0].bytes);
  return ids;
}

std::vector<int64_t> up_to(int64_t count) {
  std::vector<int64_t> all(size_t(count), 0);
  for (int64_t i = 0; i < count; ++i) all[size_t(i)] = i;
  return all;
}

TEST_CASE("records are framed as by TensorFlow", "[data]") {
  // What tf.io.TFRecordWriter writes for b"abc".
  const std::string bytes(
      "\x03\0\0\0\0\0\0\0\x8a\xd1\x07\x5c"
      "abc\x11\xff\xae\xfa",
      19);
  const std::string ours = framed({"abc"});
  CHECK(ours.substr(0, 8) == bytes.substr(0, 8));
  CHECK(ours.size() == bytes.size());
  CHECK(masked_crc32c("123456789", 9) ==
        uint32_t(((0xe3069283U >> 15) | (0xe3069283U << 17)) + 0xa282ead8U));
}

TEST_CASE("shards cut at headers have every record once, for any size", "[data]") {
  const ScratchDir dir;
  const std::string text = numbered_file(3000);
  auto plan = numbered_plan(dir.write("f", text));
  CHECK_FALSE(plan->files[0].splittable);  // until find_cuts() has found the headers
  for (const uint64_t target :
       {uint64_t{1}, uint64_t{100}, uint64_t{777}, uint64_t{50'000}, uint64_t(text.size())}) {
    ReadCounts sum;
    size_t shards = 0;
    CHECK(ids_by_shards(plan, target, sum, shards) == up_to(3000));
    CHECK(sum == ReadCounts{.read = 3000});
    if (target == 50'000) CHECK(shards == (text.size() + target - 1) / target);
    if (target == 1) CHECK(shards == 3000);
  }
}

TEST_CASE("an index file gives the cuts without a scan, and a wrong one does not change them",
          "[data]") {
  const ScratchDir dir;
  std::string text, index;
  for (int64_t id = 0; id < 500; ++id) {
    const size_t begin = text.size();
    append_frame(text, numbered_example(id));
    index += str(begin, " ", text.size() - begin, "\n");
  }
  const std::string path = dir.write("f", text);
  const auto cuts = find_frame_cuts(path, 4000).value().cuts;
  CHECK(cuts.size() > 5);
  // A scan that ends after one record finds only one cut.
  const auto after_one_record = [&] { return find_frame_cuts(path, 4000, 1).value().cuts; };
  CHECK(after_one_record().size() == 1);
  dir.write("f.idx", index);
  CHECK(find_frame_cuts(path, 4000).value().cuts == cuts);
  CHECK(after_one_record() == cuts);
  // If an offset of the index has no valid header, the headers of the file are scanned.
  std::string damaged = text;
  damaged[cuts[2] + 1] = char(damaged[cuts[2] + 1] ^ 1);
  dir.write("f", damaged);
  CHECK(find_frame_cuts(path, 4000).value().cuts == cuts);
  CHECK(after_one_record().size() == 1);
  dir.write("f", text);
  for (const std::string& bad : {std::string("0 10\n"), index.substr(0, index.size() / 2),
                                 "7 " + index, std::string("x\n")}) {
    dir.write("f.idx", bad);
    CHECK(find_frame_cuts(path, 4000).value().cuts == cuts);
    CHECK(after_one_record().size() == 1);
  }
}

TEST_CASE("only the headers of taken records are read", "[data]") {
  const ScratchDir dir;
  std::string text;
  std::vector<uint64_t> places;
  for (int64_t id = 0; id < 5000; ++id) {
    places.push_back(text.size());
    append_frame(text, numbered_example(id));
  }
  const std::string path = dir.write("a.tfrecord", text);
  const RecordCuts all = find_frame_cuts(path, 4000).value();
  CHECK(all.records == 5000);
  const RecordCuts few = find_frame_cuts(path, 4000, 200).value();
  CHECK(few.records == 200);
  REQUIRE(few.cuts.size() >= 2);
  CHECK(few.cuts.back() == places[200]);
  CHECK(std::equal(few.cuts.begin(), few.cuts.end() - 1, all.cuts.begin()));
  CHECK(find_frame_cuts(path, 4000, 5000).value().cuts == all.cuts);

  // The first file is read completely, the second up to the last taken record, the third not at
  // all.
  const auto plan = std::make_shared<ReadPlan>();
  plan->data.format = DataFormat::kTfrecord;
  plan->data.shuffle = "off";
  plan->data.source.paths = {path, dir.write("b.tfrecord", text), dir.write("c.tfrecord", text)};
  plan->data.source.take = 6000;
  plan->source = plan->data.source;
  plan->files = list_files(plan->data, plan->source, "/").value();
  REQUIRE(find_cuts(plan->data, plan->source, 4000, plan->files));
  std::vector<plan::FileInfo> files = plan->files;
  REQUIRE(count_pieces(*plan, 4000, files));
  CHECK(files[0].cuts == all.cuts);
  CHECK(files[1].cuts.back() == places[1000]);
  CHECK(files[2].cuts.empty());
  const auto ranges = plan::cut_shards(files, 4000);
  CHECK(ranges.back().file == 1);
  CHECK(ranges.back().end == places[1000]);
}

TEST_CASE("records of a few bytes and of several mebibytes are found", "[data]") {
  const ScratchDir dir;
  ExampleBuilder builder;
  std::string text;
  const std::string blob(5'000'000, 'b');
  const std::string_view blobs[] = {blob};
  for (int64_t id = 0; id < 12; ++id) {
    const float x = 0;
    builder.clear();
    builder.add("id", std::span(&id, 1));
    builder.add("x", std::span(&x, 1));
    if (id % 3 == 1) builder.add("blob", blobs);
    append_frame(text, builder.bytes());
  }
  auto plan = numbered_plan(dir.write("f", text));
  for (const uint64_t target : {uint64_t{6'000'000}, uint64_t{1'000'000}}) {
    ReadCounts sum;
    size_t shards = 0;
    CHECK(ids_by_shards(plan, target, sum, shards) == up_to(12));
    CHECK(shards > 2);
  }
}

TEST_CASE("a compressed TFRecord file is one shard with the same records", "[data]") {
  const ScratchDir dir;
  const std::string text = numbered_file(5000);
  const ShardRead plain = read_file(numbered_plan(dir.write("plain", text))).value();
  for (const std::string& bytes : {gzipped(text), zlib_compressed(text), zstd_compressed(text)}) {
    auto plan = numbered_plan(dir.write("f", bytes));
    REQUIRE(find_cuts(plan->data, plan->source, 100, plan->files));
    CHECK_FALSE(plan->files[0].splittable);
    CHECK(plan::cut_shards(plan->files, 100).size() == 1);
    const ShardRead read = read_file(plan).value();
    CHECK(read.floats == plain.floats);
    CHECK(read.totals.records_hash == plain.totals.records_hash);
  }
}

TEST_CASE("the error for a changed record names its number and offset", "[data]") {
  const ScratchDir dir;
  const std::string text = numbered_file(100);
  std::string begin;
  for (int64_t id = 0; id < 41; ++id) append_frame(begin, numbered_example(id));
  std::string bad = text;
  bad[begin.size() + kFrameHeaderBytes + 3] ^= 1;
  for (const std::string& bytes : {bad, gzipped(bad)}) {
    const Error error = error_of(numbered_plan(dir.write("f", bytes)));
    CHECK(error.code == ErrorCode::kBadData);
    CHECK_THAT(error.what, Contains("checksum"));
    CHECK_THAT(error.where, Contains(str("/f:record 41 (byte ", begin.size())));
  }
  auto plan = numbered_plan(dir.write("f", bad));
  plan->data.bad_records = BadRecords::kSkip;
  const ShardRead read = read_file(plan).value();
  CHECK(read.totals.counts == ReadCounts{.read = 100, .skipped = 1});
}

TEST_CASE("after a damaged header at the end of a shard, the next record belongs to the next shard",
          "[data]") {
  const ScratchDir dir;
  std::string text = numbered_file(4);
  const std::string first = numbered_file(1);
  text[0] = char(text[0] ^ 1);
  auto plan = numbered_plan(dir.write("f", text));
  plan->data.bad_records = BadRecords::kSkip;
  plan->files[0].splittable = true;
  plan->files[0].cuts = {first.size()};
  const ShardRead before = read_shard(plan, {0, 0, first.size()}).value();
  CHECK(before.floats.empty());
  CHECK(before.totals.counts == ReadCounts{.read = 1, .skipped = 1});
  CHECK(before.totals.end_offset == first.size());
  const ShardRead behind = read_shard(plan, {0, first.size(), text.size()}).value();
  CHECK(behind.totals.first_offset == first.size());
  CHECK(behind.floats.size() == 3);
}

TEST_CASE("after a damaged header, reading continues at the next valid one", "[data]") {
  const ScratchDir dir;
  const std::string text = numbered_file(1000);
  std::string begin;
  for (int64_t id = 0; id < 500; ++id) append_frame(begin, numbered_example(id));
  for (const size_t at : {size_t{0}, size_t{5}, size_t{8}, size_t{11}}) {
    std::string bad = text;
    bad[begin.size() + at] ^= 0x40;
    auto plan = numbered_plan(dir.write("f", bad));
    CHECK_THAT(error_of(plan).what, Contains("has a header with a wrong checksum"));
    CHECK_THAT(error_of(plan).where, Contains("record 500"));
    plan->data.bad_records = BadRecords::kSkip;
    for (const uint64_t target : {uint64_t{300}, uint64_t{100'000}}) {
      ReadCounts sum;
      size_t shards = 0;
      std::vector<int64_t> wanted = up_to(1000);
      wanted.erase(wanted.begin() + 500);
      CHECK(ids_by_shards(plan, target, sum, shards) == wanted);
      CHECK(sum == ReadCounts{.read = 1000, .skipped = 1});
    }
  }
}

TEST_CASE("a file that ends inside a record is an error at every length", "[data]") {
  const ScratchDir dir;
  const std::string text = numbered_file(4);
  std::string begin;
  for (int64_t id = 0; id < 3; ++id) append_frame(begin, numbered_example(id));
  for (size_t size = begin.size() + 1; size < text.size(); ++size) {
    for (const bool gzip : {false, true}) {
      const std::string part = text.substr(0, size);
      auto plan = numbered_plan(dir.write("f", gzip ? gzipped(part) : part));
      const Error error = error_of(plan);
      CHECK_THAT(error.what, Contains("is truncated"));
      CHECK_THAT(error.where, Contains("record 3"));
      plan->data.bad_records = BadRecords::kSkip;
      const ShardRead read = read_file(plan).value();
      CHECK(read.totals.counts == ReadCounts{.read = 4, .skipped = 1});
    }
  }
}

TEST_CASE("a false length with a valid checksum is a bad record and takes no memory", "[data]") {
  const ScratchDir dir;
  for (const uint64_t length : {uint64_t{1} << 26, (uint64_t{1} << 26) + 1, uint64_t{1} << 40,
                                UINT64_MAX, UINT64_MAX - 15}) {
    std::string header(reinterpret_cast<const char*>(&length), 8);
    const uint32_t crc = masked_crc32c(header.data(), 8);
    header.append(reinterpret_cast<const char*>(&crc), 4);
    const std::string text = numbered_file(3) + header + numbered_file(3);
    for (const bool gzip : {false, true}) {
      auto plan = numbered_plan(dir.write("f", gzip ? gzipped(text) : text));
      CHECK_THAT(error_of(plan).where, Contains("record 3"));
      plan->data.bad_records = BadRecords::kSkip;
      const ShardRead read = read_file(plan).value();
      CHECK(read.floats.size() == 3);
      CHECK(read.totals.counts == ReadCounts{.read = 4, .skipped = 1});
    }
  }
}

TEST_CASE("after random damage, each record is read or counted as bad, the same for any cuts",
          "[data]") {
  const ScratchDir dir;
  constexpr int64_t kRecords = 40;
  const std::string text = numbered_file(kRecords);
  Rng rng(11);
  for (int turn = 0; turn < 400; ++turn) {
    std::string bad = text;
    for (uint64_t flips = 1 + rng.below(4); flips > 0; --flips)
      bad[rng.below(bad.size())] ^= char(1 << rng.below(8));
    if (turn % 4 == 0) bad.resize(rng.below(bad.size()) + 1);
    if (turn % 7 == 0) bad.insert(rng.below(bad.size()), std::string(rng.below(100), '\0'));
    auto plan = numbered_plan(dir.write("f", bad));
    plan->data.bad_records = BadRecords::kSkip;
    ReadCounts sum, whole;
    size_t shards = 0;
    const std::vector<int64_t> ids = ids_by_shards(plan, 300, sum, shards);
    CHECK(sum.read == sum.skipped + ids.size());
    CHECK(ids_by_shards(plan, UINT64_MAX / 2, whole, shards) == ids);
    CHECK(whole == sum);
    std::set<int64_t> seen;
    for (const int64_t id : ids) {
      CHECK((id >= 0 && id < kRecords));
      CHECK(seen.insert(id).second);
    }
  }
}

TEST_CASE("TFRecord: shuffling and holdout work as for other formats", "[data]") {
  const ScratchDir dir;
  auto plan = numbered_plan(dir.write("f", numbered_file(2000)));
  plan->data.shuffle = "shard";
  plan->holdout = 0.25;
  std::multiset<int64_t> ids;
  std::vector<int64_t> order;
  for (const Split part : {Split::kTrain, Split::kHeldOut}) {
    const ShardRead read = read_shard(plan, {0, 0, plan->files[0].bytes}, {}, part).value();
    for (const auto& row : read.floats) {
      ids.insert(int64_t(row[0]));
      if (part == Split::kTrain) order.push_back(int64_t(row[0]));
    }
  }
  CHECK(ids == [] {
    const auto all = up_to(2000);
    return std::multiset<int64_t>(all.begin(), all.end());
  }());
  CHECK_FALSE(std::is_sorted(order.begin(), order.end()));
  CHECK(order.size() > 1400);
  CHECK(order.size() < 1600);
}

TEST_CASE("TFRecord: a filter drops records by their features", "[data]") {
  const ScratchDir dir;
  auto plan = numbered_plan(dir.write("f", numbered_file(100)));
  plan->data.filter = "id >= 10 && x < 20";
  const ShardRead read = read_file(plan).value();
  CHECK(read.floats.size() == 30);
  CHECK(read.floats[0] == std::vector<float>{10, 5});
  CHECK(read.totals.counts == ReadCounts{.read = 100, .filtered = 70});
}

TEST_CASE("sniff: detects a TFRecord file by its first header, and fields by their values",
          "[data]") {
  const ScratchDir dir;
  std::string text;
  ExampleBuilder builder;
  Rng rng(3);
  for (int64_t i = 0; i < 300; ++i) {
    const int64_t label = i % 2, user = int64_t(rng.below(1000));
    const float price = float(rng.below(100)), vector[] = {1, 2, 3};
    const std::string_view city[] = {i % 3 == 0 ? "Rome" : "Oslo"},
                           image[] = {std::string_view("\x89\0\1", 3)};
    const std::vector<int64_t> bag(size_t(i % 4), 5);
    builder.clear();
    builder.add("label", std::span(&label, 1));
    builder.add("user", std::span(&user, 1));
    builder.add("price", std::span(&price, 1));
    builder.add("vector", vector);
    builder.add("city", city);
    builder.add("image", image);
    builder.add("bag", bag);
    append_frame(text, builder.bytes());
  }
  const FileFacts facts = sniff(dir.write("f", zstd_compressed(text))).value();
  CHECK(facts.format == DataFormat::kTfrecord);
  CHECK(facts.target == "label");
  CHECK(facts.classes == 2);
  CHECK_THAT(facts.reason, Contains("ignored: image"));
  std::vector<std::string> names;
  for (const FieldSpec& field : facts.fields) names.push_back(field.name);
  CHECK(names == std::vector<std::string>{"bag", "city", "price", "user", "vector", "label"});
  const FileFacts priced = sniff(dir.path() + "/f", {}, {.targets = {{"price", ""}}}).value();
  CHECK(priced.target == "price");
  CHECK(priced.classes == 0);
  CHECK(priced.fields.back().name == "price");
  CHECK(priced.fields.back().transform.empty());
  auto plan = example_plan(dir.write("g", text));
  plan->data.fields = facts.fields;
  plan->layout = {.floats = {{"price", 1}, {"vector", 3}, {"label", 1}},
                  .bags = {{"bag", 0}, {"city", 0}, {"user", 0}},
                  .tables = {TableId(0)}};
  CHECK(read_file(plan).value().totals.counts == ReadCounts{.read = 300});
  CHECK_THAT(sniff(dir.write("e", framed({"no Example"}))).error().what, Contains("without"));
}

}  // namespace
}  // namespace downpour::data
