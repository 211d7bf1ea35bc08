// Objects of a store: they give the same records as files with the same bytes.
#include "shared/base/units.h"
#include "shared/data/bytes/file.h"
#include "shared/data/formats/sniff.h"
#include "tests/shared/data/formats/example/tfrecord_support.h"
#include "tests/support/arrays.h"
#include "tests/support/memory_limit.h"
#include "tests/support/stub_store.h"

namespace downpour::data {
namespace {

using Catch::Contains;
using testing::StoreEnvironment;
using testing::StubReply;
using testing::StubRequest;
using testing::StubStore;

std::string libsvm_lines(int count) {
  std::string text;
  for (int i = 0; i < count; ++i)
    text +=
        std::to_string(i % 2) + " " + std::to_string(i) + ":1.5 " + std::to_string(i * 7) + ":2\n";
  return text;
}

/// Writes the same bytes to a file and to an object of a store.
struct Both {
  ScratchDir dir;
  StubStore stub;
  StoreEnvironment environment{stub.endpoint()};

  void write(const std::string& name, const std::string& bytes) {
    dir.write(name, bytes);
    stub.put("bucket/" + name, bytes);
  }
};

/// Returns the records of all shards of about `shard_bytes`. Adds their number of keys to `keys`.
std::vector<std::vector<float>> all_floats(const std::shared_ptr<ReadPlan>& plan,
                                           uint64_t shard_bytes, size_t& keys) {
  std::vector<std::vector<float>> floats;
  uint32_t index = 0;
  REQUIRE(find_cuts(plan->data, plan->data.source, shard_bytes, plan->files));
  for (const plan::ShardRange& range : plan::cut_shards(plan->files, shard_bytes)) {
    const ShardRead read = read_shard(plan, range, {0, index++}).value();
    floats.insert(floats.end(), read.floats.begin(), read.floats.end());
    for (const auto& record : read.keys)
      for (const auto& bag : record) keys += bag.size();
  }
  return floats;
}

TEST_CASE("the shards of an object have the same records as those of a file", "[data][objects]") {
  Both both;
  const std::string text = libsvm_lines(20'000);
  both.write("rows 1+é.svm", text);
  both.write("rows.svm.gz", gzipped(text));
  both.write("rows.svm.zst", zstd_compressed(text));
  for (const char* const name : {"rows 1+é.svm", "rows.svm.gz", "rows.svm.zst"}) {
    INFO(name);
    const auto local = plan_of(both.dir / name), remote = plan_of(str("s3://bucket/", name));
    for (const auto& plan : {local, remote}) reads_libsvm(*plan);
    CHECK(remote->files[0].path == str("s3://bucket/", name));
    CHECK(remote->files[0].bytes == local->files[0].bytes);
    CHECK(remote->files[0].splittable == local->files[0].splittable);
    size_t local_keys = 0, remote_keys = 0;
    const auto floats = all_floats(remote, 30'000, remote_keys);
    CHECK(floats.size() == 20'000);
    CHECK(floats == all_floats(local, 30'000, local_keys));
    CHECK(remote_keys == local_keys);
    CHECK(mean_record_bytes(remote->data, remote->files[0].path).value() ==
          mean_record_bytes(local->data, local->files[0].path).value());
  }
}

TEST_CASE("TFRecord objects are cut where records begin", "[data][objects]") {
  Both both;
  both.write("numbers.tfrecord", numbered_file(3000));
  const auto local = numbered_plan(both.dir / "numbers.tfrecord");
  const auto remote = numbered_plan("s3://bucket/numbers.tfrecord");
  size_t ignored = 0;
  CHECK(all_floats(remote, 20'000, ignored) == all_floats(local, 20'000, ignored));
  CHECK(remote->files[0].cuts.size() > 3);
  CHECK(remote->files[0].cuts == local->files[0].cuts);
}

TEST_CASE("single arrays and archives of a store can be read, folders cannot", "[data][objects]") {
  Both both;
  std::vector<float> values(4000);
  for (size_t i = 0; i < values.size(); ++i) values[i] = float(i);
  const std::string array = testing::floats_npy(values, "(1000, 4)");
  both.write("x.npy", array);
  both.write("stored.npz", testing::npz({{"x", array}}));
  both.write("deflated.npz", testing::npz({{"x", array}}, /*deflate=*/true));
  const auto floats = [](const std::string& path) {
    auto plan = plan_of(path, path.ends_with("npz") ? DataFormat::kNpz : DataFormat::kNpy);
    plan->data.fields = {{.name = "x", .shape = {4}}};
    plan->layout.floats = {{"x", 4}};
    return read_file(plan).value().floats;
  };
  for (const char* const name : {"x.npy", "stored.npz", "deflated.npz"}) {
    INFO(name);
    CHECK(floats(str("s3://bucket/", name)) == floats(both.dir / name));
    CHECK(floats(str("s3://bucket/", name)).size() == 1000);
  }
  const Error error =
      list_files({.format = DataFormat::kNpy}, {.paths = {"s3://bucket/train/"}}, "/").error();
  CHECK(error.code == ErrorCode::kUnsupported);
  CHECK_THAT(error.hint, Contains("copy the folder"));
}

TEST_CASE("sniff works for objects as for files", "[data][objects]") {
  Both both;
  both.write("clicks.csv", "age,city,label\n31,ulm,1\n22,bonn,0\n31,ulm,1\n22,bonn,0\n");
  const FileFacts facts = sniff("s3://bucket/clicks.csv").value();
  CHECK(facts.format == DataFormat::kCsv);
  CHECK(facts.target == "label");
  CHECK(facts.columns == std::vector<std::string>{"age", "city", "label"});
}

TEST_CASE("globs, lists and paths may name both objects and files", "[data][objects]") {
  Both both;
  for (const char* const name : {"part-2", "part-10", "part-1"}) both.write(name, "1 1:1\n");
  const std::string list = both.dir.write("list.txt", "part-1\ns3://bucket/part-1?\n");
  both.stub.put("bucket/lists/all.txt", "x\ns3://bucket/part-2\n");
  both.stub.put("bucket/lists/x", "1 1:1\n");
  const auto names = [&](const std::vector<std::string>& paths) {
    std::vector<std::string> out;
    const auto files = list_files({}, {.paths = paths}, both.dir.path()).value();
    for (const auto& file : files) out.push_back(file.path);
    return out;
  };
  using Names = std::vector<std::string>;
  CHECK(names({"s3://bucket/part-*"}) ==
        Names{"s3://bucket/part-1", "s3://bucket/part-10", "s3://bucket/part-2"});
  CHECK(names({"part-2", "s3://bucket/part-2"}) ==
        Names{both.dir / "part-2", "s3://bucket/part-2"});
  CHECK(names({"@list.txt"}) == Names{both.dir / "part-1", "s3://bucket/part-10"});
  CHECK(names({"@s3://bucket/lists/all.txt"}) ==
        Names{"s3://bucket/lists/x", "s3://bucket/part-2"});
  const Error none = list_files({}, {.paths = {"s3://bucket/prat-*"}}, "/").error();
  CHECK(none.code == ErrorCode::kNoInput);
  CHECK_THAT(none.hint, Contains("did you mean s3://bucket/part-"));
  both.stub.put("bucket/empty", "");
  CHECK_THAT(list_files({}, {.paths = {"s3://bucket/empty"}}, "/").error().what, Contains("empty"));
}

TEST_CASE("an object that changes during a job is an error that names it", "[data][objects]") {
  Both both;
  both.write("rows.svm", libsvm_lines(20'000));
  const auto plan = plan_of("s3://bucket/rows.svm");
  reads_libsvm(*plan);
  both.stub.put("bucket/rows.svm", libsvm_lines(20'000));  // the same bytes with a new ETag
  const Error before = error_of(plan);
  CHECK(before.code == ErrorCode::kBadData);
  CHECK_THAT(before.what,
             Contains("changed after the job started") && Contains("s3://bucket/rows.svm"));
  // The object changes between two windows of one reader.
  both.write("long.svm", libsvm_lines(200'000));
  const auto again = plan_of("s3://bucket/long.svm");
  reads_libsvm(*again);
  const auto reader =
      open_shard(again, Split::kAll, {}, plan::ShardRange{0, 0, again->files[0].bytes}, 0).value();
  Batch batch;
  REQUIRE(reader->next(batch).value());
  both.stub.put("bucket/long.svm", libsvm_lines(200'000));
  Result<bool> more = true;
  while (more && *more) more = reader->next(batch);
  REQUIRE_FALSE(more);
  CHECK_THAT(more.error().what, Contains("changed after the job started"));
}

TEST_CASE("objects of huge claimed sizes are rejected with little memory", "[data][objects]") {
  StubStore stub;
  const StoreEnvironment environment(stub.endpoint());
  std::atomic<uint64_t> claimed = uint64_t{1} << 50;
  stub.script([&](const StubRequest& request) -> std::optional<StubReply> {
    const std::string range = request.header("range").substr(6);
    const size_t begin = std::strtoull(range.c_str(), nullptr, 10);
    const size_t last = std::strtoull(range.c_str() + range.find('-') + 1, nullptr, 10);
    return StubReply{206,
                     {"ETag: \"t\"", str("Content-Range: bytes ", begin, "-", last, "/", claimed)},
                     std::string(last - begin + 1, begin == 0 ? '\n' : '1')};
  });
  std::vector<std::string> paths;
  for (int i = 0; i < 50; ++i) paths.push_back(str("s3://bucket/part-", i));
  DataSpec data{.source = {.paths = paths}, .format = DataFormat::kLibsvm};
  std::vector<plan::FileInfo> files = list_files(data, data.source, "/").value();
  CHECK(testing::fits_in_memory(64 * kMiB, [&] {
    const auto cut = find_cuts(data, data.source, kMiB, files);
    return !cut && cut.error().where == "data.shard_records";
  }));
  claimed = UINT64_MAX;
  const Error error = list_files(data, data.source, "/").error();
  CHECK(error.code == ErrorCode::kMalformed);
  CHECK_THAT(error.what, Contains("18,446,744,073,709,551,615 bytes"));
}

TEST_CASE("an error of the store is not reported as a changed file", "[data][objects]") {
  StubStore stub;
  const StoreEnvironment environment(stub.endpoint());
  stub.script([](const StubRequest&) { return StubReply{.status = 403}; });
  CHECK(File::open("s3://bucket/k").error().code == ErrorCode::kPermission);
}

}  // namespace
}  // namespace downpour::data
