// Text formats and idx images: the columns that each format gives.
#include <cmath>

#include "shared/base/hash.h"
#include "shared/data/formats/sniff.h"
#include "tests/shared/data/support.h"

namespace downpour::data {
namespace {

using Catch::Contains;
using Catch::EndsWith;

uint64_t hashed(const std::string& field, const std::string& text) {
  return hash_combine(hash_string(field), hash_string(text));
}

TEST_CASE("libsvm: labels, unchanged keys, values, comments, tabs, CR LF, no final line break",
          "[data]") {
  const ScratchDir dir;
  auto plan = plan_of(dir.write("f", "-1 3:1 11:0.5 \r\n\n# a note\n+1\t7:-2e-1 # 9:9\n1"));
  reads_libsvm(*plan);
  plan->targets = {{"label", TargetKind::kBinary}};
  const ShardRead read = read_file(plan).value();
  CHECK(read.floats == std::vector<std::vector<float>>{{0}, {1}, {1}});
  CHECK(read.keys == std::vector<std::vector<std::vector<uint64_t>>>{{{3, 11}}, {{7}}, {{}}});
  CHECK(read.values == std::vector<std::vector<std::vector<float>>>{{{1, 0.5F}}, {{-0.2F}}, {{}}});
  CHECK(read.batches[0].tables[0].table == TableId(3));
}

TEST_CASE("values that are all 1 are not stored", "[data]") {
  const ScratchDir dir;
  auto plan = plan_of(dir.write("f", "1 3:1 4:1.0\n0 3:1\n"));
  reads_libsvm(*plan);
  CHECK(read_file(plan).value().batches[0].bags[0].values.empty());
}

TEST_CASE("libsvm: a field may read one feature by its number, and features may be hashed",
          "[data]") {
  const ScratchDir dir;
  auto plan = plan_of(dir.write("f", "1 3:2 13:7\n0 3:5\n"));
  plan->data.fields = {
      {.name = "age", .column = "13", .fallback = "0", .transform = {ops::Log1p{}}},
      {.name = "features", .shape = {-1}, .transform = {ops::Hash{.buckets = 100}}}};
  plan->layout = {.floats = {{"label", 1}, {"age", 1}, {"3", 1}},
                  .bags = {{"features", 0}},
                  .tables = {TableId(0)}};
  const ShardRead read = read_file(plan).value();
  CHECK(read.floats == std::vector<std::vector<float>>{{1, std::log1p(7.0F), 2}, {0, 0, 5}});
  CHECK(read.keys[0][0] ==
        std::vector<uint64_t>{hashed("features", "3") % 100, hashed("features", "13") % 100});
  plan->data.fields[0].shape = {2};
  plan->data.fields[0].transform.clear();
  plan->layout.floats = {{"age", 2}};
  CHECK_THAT(error_of(plan).what, Contains("shape of several values, but reads one number"));
}

TEST_CASE("two bags of one field share its keys, in one table or in two", "[data]") {
  const ScratchDir dir;
  auto plan = plan_of(dir.write("f", "1 3:2 13:7\n0 3:5\n"));
  plan->layout = {.bags = {{"features", 0}, {"features", 1}, {"features", 0}},
                  .tables = {TableId(0), TableId(1)}};
  const ShardRead read = read_file(plan).value();
  CHECK(read.keys[0] == std::vector<std::vector<uint64_t>>{{3, 13}, {3, 13}, {3, 13}});
  CHECK(read.batches[0].tables[0].keys == std::vector<uint64_t>{3, 13});
  CHECK(read.batches[0].tables[1].keys == std::vector<uint64_t>{3, 13});
}

std::shared_ptr<ReadPlan> csv_plan(const std::string& path) {
  auto plan = plan_of(path, DataFormat::kCsv);
  plan->data.columns = {"age", "job", "income"};
  plan->data.fields = {
      {.name = "age", .fallback = "40"},
      {.name = "job", .type = FieldType::kString, .fallback = "", .transform = {ops::Hash{}}},
      {.name = "income", .type = FieldType::kString, .positive = {">50K", ">50K."}}};
  plan->layout = {
      .floats = {{"age", 1}, {"income", 1}}, .bags = {{"job", 0}}, .tables = {TableId(0)}};
  return plan;
}

TEST_CASE("CSV: trimming, markers of missing values, defaults and positive labels", "[data]") {
  const ScratchDir dir;
  auto plan =
      csv_plan(dir.write("f", "39, State-gov, <=50K\n ?, ?, >50K\n50, Private , >50K.\r\n"));
  plan->data.trim = true;
  plan->data.missing = {"?"};
  const ShardRead read = read_file(plan).value();
  CHECK(read.floats == std::vector<std::vector<float>>{{39, 0}, {40, 1}, {50, 1}});
  CHECK(read.keys[0][0][0] == hashed("job", "State-gov"));
  CHECK(read.keys[1][0][0] == hashed("job", ""));
  CHECK(read.keys[2][0][0] == hashed("job", "Private"));
  CHECK(read.batches[0].bags[0].offsets.empty());
}

TEST_CASE("CSV: quoted cells follow RFC 4180 and may contain delimiters and quotes", "[data]") {
  const ScratchDir dir;
  auto plan =
      csv_plan(dir.write("f", "\"39\",\"a, \"\"b\"\"\",x\n40,plain,\">50K\"\n\"41\",\"\",x\n"));
  const ShardRead read = read_file(plan).value();
  CHECK(read.floats == std::vector<std::vector<float>>{{39, 0}, {40, 1}, {41, 0}});
  CHECK(read.keys[0][0][0] == hashed("job", "a, \"b\""));
  CHECK(read.keys[2][0][0] == hashed("job", ""));
}

TEST_CASE("CSV: lines of more than 64 bytes, and columns in the order of a header", "[data]") {
  const ScratchDir dir;
  const std::string filler(200, 'x');
  auto plan = csv_plan(dir.write(
      "f", "\xef\xbb\xbfincome,filler,age ,job\r\n>50K," + filler + ",1," + filler + "\n"));
  plan->data.columns.clear();
  plan->data.header = true;
  const ShardRead read = read_file(plan).value();
  CHECK(read.floats == std::vector<std::vector<float>>{{1, 1}});
  CHECK(read.keys[0][0][0] == hashed("job", filler));
}

TEST_CASE("CSV: the header of each file decides the order of its columns", "[data]") {
  const ScratchDir dir;
  auto plan = csv_plan(dir.write("a.csv", "age,job,income\n1,x,>50K\n"));
  const auto read = [&](const std::string& second) {
    dir.write("b.csv", second);
    plan->files = list_files(plan->data, {.paths = {dir.path() + "/*.csv"}}, "/").value();
    return read_shard(plan, {1, 0, plan->files[1].bytes});
  };
  plan->data.header = true;
  // Another order, one more column, and a column without a name.
  const ShardRead found = read("job,,income,more,age\ny,0,no,7,2\n").value();
  CHECK(found.floats == std::vector<std::vector<float>>{{2, 0}});
  CHECK(found.keys[0][0][0] == hashed("job", "y"));
  CHECK(read("\xef\xbb\xbf").value().floats.empty());
  const Error blank = read("\nx,2,no\n").error();
  CHECK_THAT(blank.what, Contains("names no column"));
  CHECK_THAT(blank.where, EndsWith("b.csv:1"));
  const Error lacking = read("job,age\ny,2\n").error();
  CHECK_THAT(lacking.what, Contains("field income: there is no column \"income\""));
  CHECK_THAT(lacking.where, Contains("b.csv"));
  CHECK_THAT(lacking.hint, Contains("job, age"));
  const Error twice = read("job,age,income,job\ny,2,no,z\n").error();
  CHECK_THAT(twice.what, Contains("`job` twice"));
  CHECK_THAT(twice.where, EndsWith("b.csv:1"));
  // A prediction does not need the label's column.
  plan = std::make_shared<ReadPlan>(*plan);
  plan->targets = {{"income", TargetKind::kBinary}};
  auto predicting = std::make_shared<ReadPlan>(*for_prediction(*plan));
  predicting->files = plan->files;
  dir.write("b.csv", "job,age\ny,2\n");
  predicting->files = list_files(plan->data, {.paths = {dir.path() + "/*.csv"}}, "/").value();
  CHECK(read_shard(predicting, {1, 0, predicting->files[1].bytes}).value().floats[0][0] == 2);
}

TEST_CASE(
    "CSV: an int64 is checked by its digits, and the hint for a missing target names no default",
    "[data]") {
  const ScratchDir dir;
  auto plan = csv_plan(dir.write("f", "1,x,>50K\n"));
  plan->data.fields[0].type = FieldType::kInt64;
  const auto fault = [&](const std::string& line) {
    plan->files = list_files(plan->data, {.paths = {dir.write("f", line)}}, "/").value();
    return read_file(plan).error();
  };
  for (const char* wrong : {"1.00000001", "16777217.5", "9223372036854775808", "1e30"})
    CHECK_THAT(fault(str(wrong, ",x,>50K\n")).what,
               Contains(str("field age \"", wrong, "\" is not a 64-bit integer")));
  plan = csv_plan(dir.write("f", "1,x,>50K\n"));
  plan->data.fields[2] = {.name = "income"};
  plan->targets = {{"income", TargetKind::kBinary}};
  CHECK_THAT(
      fault("1,x,\n").hint,
      Contains("correct the record, or set data.bad_records = \"skip\"") && !Contains("default"));
}

TEST_CASE("TSV has no quotes, and data.delimiter sets another delimiter", "[data]") {
  const ScratchDir dir;
  auto plan = csv_plan(dir.write("f", "1\t\"a\t>50K\n"));
  plan->data.format = DataFormat::kTsv;
  CHECK(read_file(plan).value().keys[0][0][0] == hashed("job", "\"a"));
  auto semicolon = csv_plan(dir.write("g", "1;a,b;>50K\n"));
  semicolon->data.delimiter = ";";
  CHECK(read_file(semicolon).value().keys[0][0][0] == hashed("job", "a,b"));
}

TEST_CASE("transforms run in order: clip, log1p, standardize", "[data]") {
  const ScratchDir dir;
  auto plan = plan_of(dir.write("f", "-3\n0\n1\n5000\n2.5\n"), DataFormat::kTsv);
  plan->batch_size = 100;
  plan->data.columns = {"x"};
  plan->data.fields = {{.name = "x",
                        .transform = {ops::Clip{.min = 0.0, .max = 2000.0}, ops::Log1p{},
                                      ops::Standardize{.mean = 1, .scale = 2}}}};
  plan->layout.floats = {{"x", 1}};
  const auto want = [](float x) { return float((double(std::log1p(x)) - 1) / 2); };
  const ShardRead read = read_file(plan).value();
  REQUIRE(read.floats.size() == 5);
  // The compiler's logarithm of a constant may differ from the library's in the last bit.
  const float wanted[] = {want(0), want(0), want(1), want(2000), want(2.5F)};
  for (size_t i = 0; i < 5; ++i) CHECK(read.floats[i][0] == Approx(wanted[i]).epsilon(1e-6));
}

TEST_CASE("keys: unchanged and hashed integers, buckets, words of a text, a number as a value",
          "[data]") {
  const ScratchDir dir;
  auto plan = plan_of(dir.write("f", "12\t-5\tred\tthe  end the\t2.5\n"), DataFormat::kTsv);
  plan->data.columns = {"id", "code", "color", "text", "price"};
  plan->data.fields = {
      {.name = "id", .type = FieldType::kInt64},
      {.name = "code", .type = FieldType::kInt64, .transform = {ops::Hash{.buckets = 7}}},
      {.name = "color", .type = FieldType::kString, .transform = {ops::Hash{.buckets = 1024}}},
      {.name = "text", .type = FieldType::kString, .shape = {-1}},
      {.name = "price"}};
  for (const FieldSpec& field : plan->data.fields) plan->layout.bags.push_back({field.name, 0});
  plan->layout.tables = {TableId(0)};
  const ShardRead read = read_file(plan).value();
  CHECK(read.keys[0] == std::vector<std::vector<uint64_t>>{
                            {12},
                            {hashed("code", "-5") % 7},
                            {hashed("color", "red") % 1024},
                            {hashed("text", "the"), hashed("text", "end"), hashed("text", "the")},
                            {hash_string("price")}});
  CHECK(read.values[0][4] == std::vector<float>{2.5F});
  CHECK(read.batches[0].tables[0].keys.size() == 6);  // "the" once
}

TEST_CASE("a float field of shape [n] reads n numbers separated by blanks", "[data]") {
  const ScratchDir dir;
  auto plan = plan_of(dir.write("f", "1 2.5  -3\ta\n"), DataFormat::kTsv);
  plan->data.columns = {"x", "y"};
  plan->data.fields = {{.name = "x", .shape = {3}}};
  plan->layout.floats = {{"x", 3}};
  CHECK(read_file(plan).value().floats == std::vector<std::vector<float>>{{1, 2.5F, -3}});
}

TEST_CASE("criteo: the 40 columns and their defaults need no configuration", "[data]") {
  const ScratchDir dir;
  std::string line = "1\t\t-2\t5";
  for (int i = 4; i <= 13; ++i) line += "\t" + std::to_string(i);
  line += "\t68fd1e64";
  for (int i = 2; i <= 26; ++i) line += "\t";
  auto plan = plan_of(dir.write("f", line + "\n"), DataFormat::kCriteo);
  plan->layout = {.floats = {{"I1", 1}, {"I2", 1}, {"I3", 1}, {"label", 1}},
                  .bags = {{"C1", 0}, {"C26", 0}},
                  .tables = {TableId(0)}};
  plan->targets = {{"label", TargetKind::kBinary}};
  const ShardRead read = read_file(plan).value();
  CHECK(read.floats == std::vector<std::vector<float>>{{0, 0, std::log1p(5.0F), 1}});
  CHECK(read.keys[0][0][0] == hashed("C1", "68fd1e64") % (1 << 20));
  CHECK(read.keys[0][1][0] == hashed("C26", "") % (1 << 20));
}

std::string big_endian(uint32_t x) { return {char(x >> 24), char(x >> 16), char(x >> 8), char(x)}; }

TEST_CASE("mnist: scales pixels to 0 to 1 and reads the label file, plain or gzipped", "[data]") {
  const ScratchDir dir;
  std::string images =
      std::string("\0\0\x08\x03", 4) + big_endian(5) + big_endian(1) + big_endian(2);
  std::string labels = std::string("\0\0\x08\x01", 4) + big_endian(5);
  for (int i = 0; i < 5; ++i) {
    images += {char(i * 51), char(255)};
    labels += char(i);
  }
  for (const bool gzip : {false, true}) {
    const std::string end = gzip ? ".gz" : "";
    dir.write("t10k-labels-idx1-ubyte" + end, gzip ? gzipped(labels) : labels);
    auto plan = plan_of(dir.write("t10k-images-idx3-ubyte" + end, gzip ? gzipped(images) : images),
                        DataFormat::kMnist);
    CHECK_FALSE(plan->files[0].splittable);
    plan->data.shuffle = gzip ? "shard" : "off";
    plan->data.fields = {{.name = "image", .shape = {2}}};
    plan->layout.floats = {{"image", 2}, {"label", 1}};
    plan->targets = {{"label", TargetKind::kClass, 10}};
    const ShardRead read = read_file(plan).value();
    REQUIRE(read.floats.size() == 5);
    for (const auto& record : read.floats)
      CHECK(record == std::vector<float>{record[2] * 51 / 255, 1, record[2]});
    CHECK(read.totals.end_offset == plan->files[0].bytes);
    plan->targets[0].classes = 3;
    const Error error = error_of(plan);
    CHECK(error.where.find(":record ") != std::string::npos);
    CHECK(error.what.find("label") != std::string::npos);
  }
}

TEST_CASE("gzip reads like the plain file, also with several members", "[data]") {
  const ScratchDir dir;
  std::string text = "\xef\xbb\xbf";
  for (int i = 0; i < 50'000; ++i) text += str(i, " ", i * 7, ":1 ", i * 3, ":0.25\n");
  auto plain = plan_of(dir.write("f", text));
  const size_t half = text.size() / 2;
  auto gzip = plan_of(dir.write("f.gz", gzipped(text.substr(0, half)) + gzipped("") +
                                            gzipped(text.substr(half)) + std::string(100, '\0')));
  CHECK_FALSE(gzip->files[0].splittable);
  for (const char* shuffle : {"off", "shard"}) {
    for (const auto& plan : {plain, gzip}) {
      reads_libsvm(*plan);
      plan->data.shuffle = shuffle;
      plan->batch_size = 512;
    }
    const ShardRead a = read_file(plain).value(), b = read_file(gzip).value();
    CHECK(a.floats == b.floats);
    CHECK(a.keys == b.keys);
    CHECK(a.totals.counts == b.totals.counts);
    CHECK(a.totals.records_hash == b.totals.records_hash);
    CHECK(b.totals.end_offset == gzip->files[0].bytes);
    CHECK(b.batches.back().end_offset == gzip->files[0].bytes);
  }
}

TEST_CASE("libffm: a bag has the keys and values of all fields or of one", "[data]") {
  const ScratchDir dir;
  const std::string path = dir.write("f", "1 0:3:1 1:7:0.5 0:4:1\n0 2:9:2 # note\n-1\n");
  auto plan = plan_of(path, DataFormat::kLibffm);
  plan->data.fields = {{.name = "label"}, {.name = "user", .column = "0", .shape = {-1}}};
  plan->layout = {
      .floats = {{"label", 1}}, .bags = {{"features", 0}, {"user", 0}}, .tables = {TableId(0)}};
  const ShardRead read = read_file(plan).value();
  CHECK(read.floats == std::vector<std::vector<float>>{{1}, {0}, {-1}});
  CHECK(read.keys[0] == std::vector<std::vector<uint64_t>>{{3, 7, 4}, {3, 4}});
  CHECK(read.values[0][0] == std::vector<float>{1, 0.5F, 1});
  CHECK(read.keys[1] == std::vector<std::vector<uint64_t>>{{9}, {}});
  CHECK(sniff(path).value().format == DataFormat::kLibffm);
  for (const char* line : {"1 3:1", "1 a:3:1", "1 0:3:x", "1 0:3:1:1", "1 0::1"}) {
    auto bad = plan_of(dir.write("b", str(line, "\n")), DataFormat::kLibffm);
    reads_libsvm(*bad);
    CHECK_THAT(error_of(bad).what, Contains("field:index:value"));
  }
  auto wrong = plan_of(path, DataFormat::kLibffm);
  wrong->data.fields = {{.name = "x", .column = "nix", .shape = {-1}}};
  wrong->layout = {.floats = {}, .bags = {{"x", 0}}, .tables = {TableId(0)}};
  CHECK(error_of(wrong).code == ErrorCode::kConfig);
}

}  // namespace
}  // namespace downpour::data
