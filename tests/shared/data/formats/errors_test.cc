// Bad input: its errors, and that bad records can be skipped.
#include "tests/shared/data/support.h"

namespace downpour::data {
namespace {

using Catch::Contains;
using Catch::EndsWith;

/// Returns the error of reading a libsvm file whose third line is `line`.
Error libsvm_error(const ScratchDir& dir, const std::string& line,
                   TargetRule rule = {"label", TargetKind::kAny}) {
  auto plan = plan_of(dir.write("f", "1 1:1\n\n" + line + "\n0 2:1\n"));
  reads_libsvm(*plan);
  plan->targets = {rule};
  const Error error = error_of(plan);
  CHECK(error.code == ErrorCode::kBadData);
  CHECK_THAT(error.where, EndsWith("/f:3"));
  CHECK_FALSE(error.hint.empty());
  // If the job skips bad records, the line is counted and has no effect on the other records.
  plan->data.bad_records = BadRecords::kSkip;
  const ShardRead read = read_file(plan).value();
  CHECK(read.totals.counts == ReadCounts{.read = 3, .skipped = 1});
  CHECK(read.keys == std::vector<std::vector<std::vector<uint64_t>>>{{{1}}, {{2}}});
  return error;
}

TEST_CASE("libsvm: the error for each kind of bad line names the file, the line and the text",
          "[data]") {
  const ScratchDir dir;
  CHECK_THAT(libsvm_error(dir, "abc 1:1").what, Contains("\"abc 1:1\"") && Contains("label"));
  CHECK_THAT(libsvm_error(dir, "1:1 2:1").what, Contains("label"));
  CHECK_THAT(libsvm_error(dir, "nan 1:1").what, Contains("label"));
  CHECK_THAT(libsvm_error(dir, "1 7:1 8").what, Contains("\"8\" is not index:value"));
  CHECK_THAT(libsvm_error(dir, "1 7:1 8:x").what, Contains("\"8:x\""));
  CHECK_THAT(libsvm_error(dir, "1 7:1 8:nan").what, Contains("\"8:nan\""));
  CHECK_THAT(libsvm_error(dir, "1 7:1 8:1e99").what, Contains("\"8:1e99\""));
  CHECK_THAT(libsvm_error(dir, "1 7:1 -8:1").what, Contains("\"-8:1\""));
  CHECK_THAT(libsvm_error(dir, "1 7:1 8:1:1").what, Contains("\"8:1:1\""));
  CHECK_THAT(libsvm_error(dir, "1 7:1 18446744073709551616:1").what,
             Contains("18446744073709551616"));
  CHECK_THAT(libsvm_error(dir, "1 qid:3 1:1").what, Contains("ranking"));
  CHECK_THAT(libsvm_error(dir, std::string("1 7:1 \0 8:1", 11)).what, Contains("index:value"));
  CHECK_THAT(libsvm_error(dir, "1 7:1 a\x1b[31mb").what, Contains("a\\x1b[31mb"));
}

TEST_CASE("a target out of range is a bad record", "[data]") {
  const ScratchDir dir;
  CHECK_THAT(libsvm_error(dir, "2 1:1", {"label", TargetKind::kBinary}).what,
             Contains("field label \"2\"") && Contains("out of range"));
  CHECK_THAT(libsvm_error(dir, "0.5 1:1", {"label", TargetKind::kBinary}).what, Contains("0.5"));
  CHECK_THAT(libsvm_error(dir, "3 1:1", {"label", TargetKind::kClass, 3}).what, Contains("class"));
  CHECK_THAT(libsvm_error(dir, "-1 1:1", {"label", TargetKind::kClass, 3}).what, Contains("class"));
  CHECK_THAT(libsvm_error(dir, "1.5 1:1", {"label", TargetKind::kClass, 3}).what,
             Contains("class"));
}

std::shared_ptr<ReadPlan> csv_plan(const ScratchDir& dir, const std::string& text) {
  auto plan = plan_of(dir.write("f.csv", text), DataFormat::kCsv);
  plan->data.columns = {"x", "n", "s"};
  plan->data.fields = {{.name = "x"},
                       {.name = "n", .type = FieldType::kInt64},
                       {.name = "s", .type = FieldType::kString}};
  plan->layout = {.floats = {{"x", 1}, {"n", 1}}, .bags = {{"s", 0}}, .tables = {TableId(0)}};
  return plan;
}

TEST_CASE("CSV: the error for each kind of bad line names the file, the line and the text",
          "[data]") {
  const ScratchDir dir;
  const auto csv_error = [&](const std::string& line) {
    auto plan = csv_plan(dir, "1,2,a\n" + line + "\n3,4,b\n");
    const Error error = error_of(plan);
    CHECK(error.code == ErrorCode::kBadData);
    CHECK_THAT(error.where, EndsWith("/f.csv:2"));
    plan->data.bad_records = BadRecords::kSkip;
    const ShardRead read = read_file(plan).value();
    CHECK(read.totals.counts == ReadCounts{.read = 3, .skipped = 1});
    CHECK(read.floats == std::vector<std::vector<float>>{{1, 2}, {3, 4}});
    return error.what;
  };
  CHECK_THAT(csv_error("1,2"), Contains("fewer columns"));
  CHECK_THAT(csv_error("1,2,a,b"), Contains("more columns"));
  CHECK_THAT(csv_error("x,2,a"), Contains("field x \"x\" is not a finite number"));
  CHECK_THAT(csv_error("1e,2,a"), Contains("field x \"1e\""));
  CHECK_THAT(csv_error("inf,2,a"), Contains("field x"));
  CHECK_THAT(csv_error("1,2.5,a"), Contains("field n \"2.5\" is not an integer"));
  CHECK_THAT(csv_error(",2,a"), Contains("field x is missing"));
  CHECK_THAT(csv_error("1,2,"), Contains("field s is missing"));
  CHECK_THAT(csv_error("1,2,\"a"), Contains("line break inside quotes"));
  CHECK_THAT(csv_error("1,2,\"a\"b"), Contains("quote"));
}

TEST_CASE("log1p of a number below -1 is a bad record", "[data]") {
  const ScratchDir dir;
  auto plan = csv_plan(dir, "-7,2,a\n");
  plan->data.fields[0].transform = {ops::Log1p{}};
  const Error error = error_of(plan);
  CHECK_THAT(error.what, Contains("field x \"-7\"") && Contains("finite"));
  CHECK_THAT(error.hint, Contains("clip"));
}

TEST_CASE("the first bad record above bad_records_max is an error", "[data]") {
  const ScratchDir dir;
  auto plan = csv_plan(dir, "1,2,a\nbad\n1,2,a\nbad\n1,2,a\nbad\n");
  plan->data.bad_records = BadRecords::kSkip;
  plan->data.bad_records_max = 2;
  const Error error = error_of(plan);
  CHECK_THAT(error.where, EndsWith(":6"));
  CHECK_THAT(error.what, Contains("bad_records_max = 2"));
  plan->data.bad_records_max = 3;
  CHECK(read_file(plan).value().totals.counts.skipped == 3);
}

TEST_CASE("the line number in an error includes the lines before the shard, also in gzip",
          "[data]") {
  const ScratchDir dir;
  std::string text;
  for (int i = 0; i < 1000; ++i) text += "1 1:1\r\n";
  text += "1 oops\n";
  for (const bool gzip : {false, true}) {
    auto plan = plan_of(dir.write(gzip ? "g.gz" : "g", gzip ? gzipped(text) : text));
    reads_libsvm(*plan);
    plan->data.shuffle = "shard";
    const auto read = read_shard(plan, plan::cut_shards(plan->files, 3000).back());
    REQUIRE_FALSE(read);
    CHECK_THAT(Result(read).error().where, EndsWith(":1001"));
  }
}

TEST_CASE("a line of more than 16 MiB is a bad record, for any cuts", "[data]") {
  const ScratchDir dir;
  const std::string text = "1 1:1\n1 2:1" + std::string(17'000'000, ' ') + "\n0 3:1\n";
  auto plan = plan_of(dir.write("f", text));
  reads_libsvm(*plan);
  const Error error = error_of(plan);
  CHECK_THAT(error.what, Contains("16 MiB"));
  CHECK_THAT(error.where, EndsWith("/f:2"));
  plan->data.bad_records = BadRecords::kSkip;
  for (const uint64_t target : {uint64_t{40'000'000}, uint64_t{3'000'000}}) {
    ReadCounts sum;
    uint64_t at = 0;
    for (const auto& range : plan::cut_shards(plan->files, target)) {
      const ShardRead read = read_shard(plan, range).value();
      CHECK(read.totals.first_offset == at);
      at = read.totals.end_offset;
      sum.read += read.totals.counts.read;
      sum.skipped += read.totals.counts.skipped;
    }
    CHECK(at == text.size());
    CHECK(sum == ReadCounts{.read = 3, .skipped = 1});
  }
}

TEST_CASE("a file that has changed since it was listed is an error that names it", "[data]") {
  const ScratchDir dir;
  auto plan = plan_of(dir.write("f", "1 1:1\n"));
  reads_libsvm(*plan);
  for (const std::string text : {"1 1:2\n", "1 1:1\n1 1:1\n", "1"}) {
    const std::string path = dir.write("f", text);
    const Error error = error_of(plan);
    CHECK(error.code == ErrorCode::kBadData);
    CHECK_THAT(error.what, Contains("changed") && Contains(path));
  }
  std::filesystem::remove(dir.path() + "/f");
  CHECK(error_of(plan).code == ErrorCode::kNoInput);
}

TEST_CASE("damaged and truncated gzip files and gzip bombs are rejected", "[data]") {
  const ScratchDir dir;
  const std::string whole = gzipped(std::string(100'000, '1') + "\n");
  const auto gzip_error = [&](const std::string& bytes) {
    auto plan = plan_of(dir.write("f.gz", bytes));
    reads_libsvm(*plan);
    const Error error = error_of(plan);
    CHECK(error.code == ErrorCode::kBadData);
    CHECK_THAT(error.where, Contains("f.gz"));
    return error.what;
  };
  CHECK_THAT(gzip_error(whole.substr(0, whole.size() - 9)),
             Contains("the file is truncated (an incomplete download or copy?)"));
  std::string flipped = whole;
  flipped[whole.size() - 6] = char(flipped[whole.size() - 6] ^ 1);  // in the checksum
  CHECK_THAT(gzip_error(flipped), Contains("decompress"));
  CHECK_THAT(gzip_error(whole + "junk"), Contains("decompress"));
  CHECK_THAT(gzip_error(gzipped("1 1:1\n" + std::string(size_t{80} << 20, '\n'))),
             Contains("200 times"));
}

TEST_CASE("idx image and label files that do not match are rejected", "[data]") {
  const ScratchDir dir;
  const std::string head("\0\0\x08\x03\0\0\0\x02\0\0\0\x01\0\0\0\x02", 16);
  const auto idx_error = [&](const std::string& images, const std::string& labels) {
    if (!labels.empty()) dir.write("labels-idx1", labels);
    auto plan = plan_of(dir.write("images-idx3", images), DataFormat::kMnist);
    plan->layout.floats = {{"image", 2}, {"label", 1}};
    plan->data.fields = {{.name = "image", .shape = {2}}};
    return error_of(plan).what;
  };
  CHECK_THAT(idx_error(head + "abcd", ""), Contains("labels-idx1"));
  CHECK_THAT(idx_error(head + "abcd", std::string("\0\0\x08\x01\0\0\0\x03"
                                                  "123",
                                                  11)),
             Contains("2 records, but the file contains 3"));
  CHECK_THAT(idx_error(head + "abcd", std::string("\0\0\x08\x01\0\0\0\x02"
                                                  "1",
                                                  9)),
             Contains("2 records, but the file contains 1"));
  CHECK_THAT(idx_error(head + "abc", std::string("\0\0\x08\x01\0\0\0\x02"
                                                 "12",
                                                 10)),
             Contains("2 records, but the file contains 1"));
  CHECK_THAT(
      idx_error(std::string("\0\0\x08\x03\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 16),
                ""),
      Contains("header"));
  CHECK_THAT(idx_error("plain text, no images", ""), Contains("is not an idx file of images:"));
}

TEST_CASE("a mistake in the job is a configuration error that names the field", "[data]") {
  const ScratchDir dir;
  const auto config_error = [&](auto change) {
    auto plan = csv_plan(dir, "1,2,a\n");
    change(*plan);
    const Error error = error_of(plan);
    CHECK(error.code == ErrorCode::kConfig);
    return error.what + " / " + error.hint;
  };
  CHECK_THAT(config_error([](ReadPlan& p) {
               p.layout.floats = {{"nix", 1}};
             }),
             Contains("nix is not declared") && Contains("x, n, s"));
  CHECK_THAT(config_error([](ReadPlan& p) { p.data.fields[0].column = "y"; }),
             Contains("no column \"y\"") && Contains("x, n, s"));
  CHECK_THAT(config_error([](ReadPlan& p) { p.layout.floats = {{"s", 1}}; }), Contains("field s"));
  CHECK_THAT(config_error([](ReadPlan& p) { p.data.fields[0].fallback = "abc"; }), Contains("abc"));
  CHECK_THAT(config_error([](ReadPlan& p) { p.data.fields[0].transform = {ops::Hash{}}; }),
             Contains("gives keys"));
  CHECK_THAT(config_error([](ReadPlan& p) { p.data.delimiter = "5"; }), Contains("delimiter"));
  CHECK_THAT(config_error([](ReadPlan& p) { p.data.columns.clear(); }), Contains("columns"));
  CHECK_THAT(config_error([](ReadPlan& p) { p.data.format = DataFormat::kAuto; }),
             Contains("format"));
  CHECK_THAT(config_error([](ReadPlan& p) { p.layout.floats = {{"x", 3}}; }), Contains("shape"));
}

}  // namespace
}  // namespace downpour::data
