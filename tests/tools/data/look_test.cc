// head, count and validate: their output for every format, and for bad records.
#include <map>
#include <set>
#include <zlib.h>

#include "shared/base/rng.h"
#include "tests/shared/data/support.h"
#include "tests/support/arrays.h"
#include "tests/tools/data/support.h"
#include "tools/data/shard.h"

namespace downpour::tools {
namespace {

using Catch::Contains;

Json validated(const DataSet& set, uint64_t limit = 20) {
  std::ostringstream out;
  const auto rejected = validate(set, limit, {.json = true}, out);
  INFO((rejected ? "" : rejected.error().what));
  REQUIRE(rejected);
  Json said = Json::parse(out.str());
  CHECK(rejected->count == said["bad"].get<uint64_t>() + said["unreadable_files"].get<uint64_t>());
  return said;
}

Json counted(const DataSet& set) {
  std::ostringstream out;
  REQUIRE(show_count(set, {.json = true}, out));
  return Json::parse(out.str());
}

/// Writes f0.svm to f3.svm, with 100 records each. The feature of a record is its number plus 1000
/// times that of its file.
void write_four_files(const ScratchDir& dir) {
  for (int f = 0; f < 4; ++f) {
    std::string text;
    for (int i = 0; i < 100; ++i) text += str(i % 2, " ", 1000 * f + i, ":1\n");
    dir.write(str("f", f, ".svm"), text);
  }
}

/// Returns the first records as a job with these data shows them.
std::vector<Json> head_of_job(const ScratchDir& dir, const std::string& data, size_t records) {
  const std::string job =
      dir.write("job.toml", data + "model = { preset = \"logistic_regression\" }\n");
  std::vector<Json> head = head_of(open_set({job}), 9);
  REQUIRE(head.size() == records);
  return head;
}

TEST_CASE("the same records look the same from Examples, JSON, tables and arrays",
          "[tools][data]") {
  const ScratchDir dir;
  const std::vector<Row> rows = rows_of(5);
  const Json third = {{"x", 2}, {"y", 0.5}, {"t", "t2"}, {"v", {2, 4}}};
  for (const auto& [name, text] :
       std::map<std::string, std::string>{{"a.tfrecord", tfrecords(rows)},
                                          {"a.tfrecord.gz", data::gzipped(tfrecords(rows))},
                                          {"a.jsonl", json_lines(rows)}}) {
    INFO(name);
    const std::vector<Json> head = head_of(open_set({dir.write(name, text)}), 10);
    REQUIRE(head.size() == 5);
    for (const auto& [field, value] : third.items()) CHECK(head[2][field] == value);
  }
  const auto table = head_of(open_set({dir.write("a.csv", csv_lines(rows))}), 3);
  REQUIRE(table.size() == 3);
  CHECK(table[2] == Json{{"x", 2}, {"y", 0.5}, {"t", "t2"}});
  std::filesystem::create_directory(dir / "npy");
  dir.write("npy/x.npy", npy_file<int64_t>("<i8", "(2,)", {7, 8}));
  dir.write("npy/v.npy", npy_file<float>("<f4", "(2, 3)", {1, 2, 3, 4, 5, 0.25F}));
  const auto arrays = head_of(open_set({dir / "npy"}), 9);
  REQUIRE(arrays.size() == 2);
  CHECK(arrays[1] == Json{{"v", {4, 5, 0.25}}, {"x", 8}});
}

TEST_CASE("values with leading zeros and columns of mixed kinds stay texts", "[tools][data]") {
  const ScratchDir dir;
  const auto head = head_of(
      open_set({dir.write("a.csv", "zip,n,mixed,label\n01234,1,7,0\n99,2,seven,1\n5,,07,0\n")}), 9);
  REQUIRE(head.size() == 3);
  CHECK(head[0] == Json{{"zip", "01234"}, {"n", 1}, {"mixed", "7"}, {"label", 0}});
  CHECK(head[1]["zip"] == "99");
  CHECK(head[2] == Json{{"zip", "5"}, {"n", nullptr}, {"mixed", "07"}, {"label", 0}});
}

TEST_CASE("members that no field can have are left out of a file without a job", "[tools][data]") {
  const ScratchDir dir;
  std::string text;
  for (int i = 0; i < 50; ++i)
    text += str("{\"y\": ", i % 2,
                ", \"o\": {\"deep\": [1, {\"x\": 0}]}, \"n\": [null, 1], \"x\": ", i, "}\n");
  const auto head = head_of(open_set({dir.write("d.jsonl", text)}), 3);
  REQUIRE(head.size() == 3);
  CHECK(head[2]["x"] == 2);
  CHECK(head[2]["y"] == 0);
}

TEST_CASE("two fields of one member have its value each", "[tools][data]") {
  const ScratchDir dir;
  dir.write("d.jsonl",
            "{\"u\": {\"age\": 30}, \"y\": 1}\n{\"y\": 0}\n{\"y\": 1, \"u\": {\"age\": 5}}\n");
  const auto head = head_of_job(
      dir,
      "data.source = \"d.jsonl\"\ndata.format = \"jsonl\"\n"
      "data.fields.age = { path = \"u.age\", default = 0 }\ndata.fields.label = { path = \"y\" }\n"
      "data.fields.log_age = { path = \"u.age\", default = 0, transform = [\"log1p\"] }\n",
      3);
  for (const char* name : {"age", "log_age"}) {
    CHECK(head[0][name] == 30);
    CHECK(head[1][name].is_null());
    CHECK(head[2][name] == 5);
  }
}

TEST_CASE("head of a job shows the declared fields, under their names, before their transforms",
          "[tools][data]") {
  const ScratchDir dir;
  dir.write("a.csv", "when,price,label\n1,100,0\n2,NA,1\n");
  const auto head = head_of_job(
      dir,
      "data.source = \"a.csv\"\ndata.format = \"csv\"\ndata.header = true\n"
      "data.missing = [\"NA\"]\ndata.fields.label = {}\n"
      "data.fields.cost = { column = \"price\", default = 0, transform = [\"log1p\"] }\n",
      2);
  CHECK(head[0] == Json{{"cost", 100}, {"label", 0}});
  CHECK(head[1]["cost"].is_null());
  // A cross is made of other fields.
  const auto keys = head_of_job(
      dir,
      "data.source = \"a.csv\"\ndata.format = \"csv\"\ndata.header = true\n"
      "data.fields.when = { type = \"string\" }\ndata.fields.price = { type = \"string\" }\n"
      "data.fields.both = { transform = [{ op = \"cross\", fields = [\"when\", \"price\"] }] }\n"
      "data.fields.label = {}\n",
      2);
  CHECK(keys[0] == Json{{"when", "1"}, {"price", "100"}, {"label", 0}});
}

TEST_CASE(
    "the views of all workers are disjoint and together are all records that a training reads",
    "[tools][data]") {
  const ScratchDir dir;
  std::string text;
  for (int i = 0; i < 3000; ++i) text += str(i % 2, " ", i + 1, ":1\n");
  dir.write("a.svm", text);
  const std::string job =
      dir.write("job.toml",
                "data = { source = \"a.svm\", format = \"libsvm\", shard_records = 100 }\n"
                "model = { preset = \"logistic_regression\" }\neval.holdout = 0.2\n");
  const DataSet set = open_set({job});
  std::map<std::string, int> met;
  std::vector<std::string> first, again;
  for (uint32_t worker = 0; worker < 3; ++worker) {
    const auto seen = head_of(set, 1 << 20, {.worker = {worker, 3}});
    CHECK(seen.size() > 500);
    for (const Json& record : seen) ++met[record["features"].dump()];
    if (worker == 0)
      for (const Json& record : seen) first.push_back(record["features"].dump());
  }
  CHECK(met.size() > 2200);  // without the fifth that is held out
  CHECK(met.size() < 2600);
  for (const auto& [record, times] : met) CHECK(times == 1);
  for (const Json& record : head_of(set, 1 << 20, {.worker = {0, 3}}))
    again.push_back(record["features"].dump());
  CHECK(again == first);
  again.clear();
  for (const Json& record : head_of(set, 1 << 20, {.worker = {0, 3}, .epoch_index = 1}))
    again.push_back(record["features"].dump());
  CHECK(again != first);
}

TEST_CASE("head and plan follow the job's sharding and its selection of the source",
          "[tools][data]") {
  const ScratchDir dir;
  write_four_files(dir);
  const auto set_of = [&](const std::string& more) {
    return open_set({dir.write("job.toml",
                               "data.format = \"libsvm\"\nmodel.preset = "
                               "\"logistic_regression\"\ncluster.workers = 2\n" +
                                   more)});
  };
  const std::string files = "data.source = \"f*.svm\"\n";
  const auto plan_of = [](const DataSet& set) {
    std::ostringstream out;
    REQUIRE(show_plan(set, 0, 0, {.json = true}, out));
    return Json::parse(out.str());
  };
  const Json by_file = plan_of(set_of(files + "data.sharding = \"file\"\n"));
  CHECK(by_file["shards"].size() >= 4);
  for (const Json& shard : by_file["shards"])
    CHECK(shard["worker"] == shard["file"].get<int>() % 2);
  const Json copies = plan_of(set_of(files + "data.sharding = \"off\"\n"));
  CHECK(copies["shards"].size() == 2 * by_file["shards"].size());
  CHECK(copies["sharding"].get<std::string>().find("2 TIMES") != std::string::npos);

  const DataSet by_files = set_of(files + "data.sharding = \"file\"\n");
  const auto second = head_of(by_files, 1 << 20, {.worker = {1, 2}});
  CHECK(second.size() == 200);
  const DataSet part = set_of(
      "data.source = { path = \"f*.svm\", skip = 150, take = 100, shard = { count = 2, index = 1 } "
      "}\n");
  const auto shown = head_of(part, 1 << 20, {});
  REQUIRE(shown.size() == 50);
  CHECK(shown[0]["features"].dump().find("1051") != std::string::npos);
  CHECK(shown[49]["features"].dump().find("2049") != std::string::npos);

  // An empty selection has no plan, because no training can start with it.
  std::ostringstream out;
  const auto none = show_plan(set_of("data.source = { path = \"f*.svm\", skip = 400 }\n"), 0, 0,
                              {.json = true}, out);
  REQUIRE_FALSE(none);
  CHECK(none.error().where == "data.source.skip");
  CHECK(out.str().empty());
}

TEST_CASE("a worker's view is what its reader returns, however records are selected and ordered",
          "[tools][data]") {
  const ScratchDir dir;
  write_four_files(dir);
  struct Case {
    const char* job;
    size_t records;  // sum of both workers
    int times;
  };
  for (const Case& wanted :
       {Case{"data.source = \"f*.svm\"\ndata.sharding = \"data\"\n", 400, 1},
        Case{"data.source = \"f*.svm\"\ndata.sharding = \"off\"\n", 800, 2},
        Case{"data.source = { path = \"f*.svm\", skip = 150, take = 100, shard = { count = 2, "
             "index = 1 } }\n",
             50, 1},
        Case{"data.source = \"f*.svm\"\ndata.interleave = { cycle = 3, block = 2 }\n", 400, 1},
        Case{"data.source = \"f*.svm\"\ndata.shuffle = 64\n", 400, 1},
        Case{"data.source = [{ path = \"f0.svm\", weight = 0.5 }, { path = \"f1.svm\", weight = "
             "0.5 }]\n",
             190, 1},
        Case{"data.source = { path = \"f*.svm\", take = 10 }\ndata.program = [\"cat\"]\n", 10,
             1}}) {
    INFO(wanted.job);
    const DataSet set = open_set(
        {dir.write("job.toml", str("data.format = \"libsvm\"\ndata.shard_records = 40\n"
                                   "model.preset = \"logistic_regression\"\ncluster.workers = 2\n",
                                   wanted.job))});
    std::map<std::string, int> met;
    size_t records = 0;
    for (uint32_t worker = 0; worker < 2; ++worker) {
      const auto seen = head_of(set, 1 << 20, {.worker = {worker, 2}});
      records += seen.size();
      for (const Json& record : seen) ++met[record["features"].dump()];
      const auto again = head_of(set, 1 << 20, {.worker = {worker, 2}});
      CHECK(again == seen);
    }
    const bool mix = wanted.records == 190;  // approximate, because the choice is random
    CHECK((mix ? records >= 160 && records <= 200 : records == wanted.records));
    for (const auto& [record, times] : met) CHECK(times == wanted.times);
  }
}

TEST_CASE("a worker's view of arrays has whole rows, also from compressed archives",
          "[tools][data]") {
  const ScratchDir dir;
  const auto check = [&](const std::string& source) {
    INFO(source);
    const DataSet set = open_set({dir.write(
        "job.toml",
        str("data.source = \"", source, "\"\ndata.shard_records = 100\n",
            source.ends_with(".npz") ? "data.format = \"npz\"\n" : "data.format = \"npy\"\n",
            "data.fields = { id = { type = \"int64\", transform = [\"identity\"] },"
            " label = {} }\nmodel.preset = \"logistic_regression\"\n"
            "data.interleave = { cycle = 2, block = 3 }\n"))});
    std::set<int> ids;
    size_t rows = 0;
    for (uint32_t worker = 0; worker < 2; ++worker) {
      for (const Json& row : head_of(set, 1 << 20, {.worker = {worker, 2}})) {
        const int id = row["id"].get<int>();
        CHECK(row["label"].get<double>() == id % 2);
        ids.insert(id);
        ++rows;
      }
    }
    CHECK(rows == 1000);
    CHECK(ids.size() == 1000);
  };
  std::vector<int64_t> ids;
  std::vector<float> labels;
  for (int i = 0; i < 1000; ++i) {
    ids.push_back(i);
    labels.push_back(float(i % 2));
  }
  const std::string id = testing::npy("'<i8'", "(1000,)", testing::bytes_of(ids));
  const std::string label = testing::floats_npy(labels, "(1000,)");
  std::filesystem::create_directory(dir / "rows");
  dir.write("rows/id.npy", id);
  dir.write("rows/label.npy", label);
  check("rows");
  dir.write("rows.npz", testing::npz({{"id", id}, {"label", label}}, /*deflate=*/true));
  check("rows.npz");
  std::string stored = testing::npz({{"id", id}, {"label", label}});
  CHECK(validated(open_set({dir.write("stored.npz", stored)}))["unreadable_files"] == 0);
  stored[stored.find(testing::bytes_of(ids))] ^= 1;
  const Json damaged = validated(open_set({dir.write("damaged.npz", stored)}));
  CHECK(damaged["unreadable_files"] == 1);
  CHECK_THAT(damaged["first"][0]["what"].get<std::string>(), Contains("id.npy is damaged"));
}

TEST_CASE("a worker index out of range is a usage error", "[tools][data]") {
  CHECK(parse_worker("3/4")->index == 3);
  for (const char* text : {"4/4", "1", "a/2", "1/2/3", "", "1/0"}) {
    const auto parsed = parse_worker(text);
    REQUIRE_FALSE(parsed);
    CHECK(parsed.error().code == ErrorCode::kUsage);
  }
}

TEST_CASE(
    "a table too wide for the terminal is shown one line per field, and control bytes are escaped",
    "[tools][data]") {
  const ScratchDir dir;
  const DataSet set =
      open_set({dir.write("a.jsonl", "{\"one\": 1, \"text\": \"a\\u001b[31m\\u0007b\"}\n")});
  std::ostringstream wide, narrow;
  REQUIRE(show_head(set, 1, 0, {.columns = 80}, wide));
  REQUIRE(show_head(set, 1, 0, {.columns = 10}, narrow));
  CHECK(wide.str() == "  one  text\n  1    a\\x1b[31m\\x07b\n");
  CHECK_THAT(narrow.str(), Contains("record 0, ") && Contains("\n  one   1\n"));
}

TEST_CASE(
    "workers see each record of one compressed file once, although each reads only shards of it",
    "[tools][data]") {
  const ScratchDir dir;
  std::string text;
  for (int i = 0; i < 20'000; ++i) text += str(i % 2, " ", i + 1, ":1\n");
  dir.write("f.svm.gz", data::gzipped(text));
  const DataSet set = open_set({dir.write("job.toml",
                                          "data = { source = \"f.svm.gz\", format = \"libsvm\", "
                                          "shard_records = 3000 }\n"
                                          "model.preset = \"logistic_regression\"\n")});
  std::multiset<std::string> seen;
  for (uint32_t worker = 0; worker < 2; ++worker) {
    const auto records = head_of(set, 1 << 20, {.worker = {worker, 2}});
    CHECK(records.size() > 5000);
    for (const Json& record : records) seen.insert(record["features"].dump());
  }
  CHECK(seen.size() == 20'000);
  CHECK(std::set<std::string>(seen.begin(), seen.end()).size() == 20'000);
}

TEST_CASE("records are counted in every format, plain and compressed", "[tools][data]") {
  const ScratchDir dir;
  const std::vector<Row> rows = rows_of(1234);
  std::filesystem::create_directory(dir / "npy");
  dir.write("npy/x.npy", npy_file<int64_t>("<i8", "(3,)", {7, 8, 9}));
  CHECK(counted(open_set({dir.write("a.tfrecord", tfrecords(rows))}))["records"] == 1234);
  CHECK(counted(open_set(
            {dir.write("b.tfrecord", data::zstd_compressed(tfrecords(rows)))}))["records"] == 1234);
  CHECK(counted(open_set({dir.write("a.jsonl", json_lines(rows))}))["records"] == 1234);
  CHECK(counted(open_set({dir.write("a.csv", csv_lines(rows))}))["records"] == 1234);
  CHECK(counted(open_set({dir / "npy"}))["records"] == 3);
  const Json both = counted(open_set({dir / "a.csv", dir / "a.csv"}));
  CHECK(both["records"] == 2468);
  CHECK(both["files"].size() == 2);
}

TEST_CASE("serialized tensors without declared fields can be counted and validated",
          "[tools][data]") {
  const ScratchDir dir;
  const int64_t dims[] = {2};
  const float values[] = {1, 2.5F};
  std::string text;
  data::append_frame(
      text, data::serialized_tensor(data::TensorType::kFloat, dims,
                                    {reinterpret_cast<const char*>(values), sizeof values}));
  const std::string one = text;
  text += one;
  text.back() ^= 1;  // damages the checksum of the second record
  const DataSet set = open_set({dir.write("a.tfrecord", text)});
  CHECK(counted(set)["records"] == 2);
  const Json said = validated(set);
  CHECK(said["records"] == 2);
  CHECK(said["bad"] == 1);
}

TEST_CASE(
    "every bad record is listed with its place, and good and bad records add up to all records",
    "[tools][data]") {
  const ScratchDir dir;
  std::string text;
  for (int i = 0; i < 100; ++i)
    text += i == 40 || i == 77 ? "1 3:abc\n" : i == 60 ? "7 1:1\n" : "0 1:2 2:1\n1 5:1\n";
  const std::string path = dir.write("a.svm", text);
  const std::string job = dir.write("job.toml",
                                    "data = { source = \"a.svm\", format = \"libsvm\" }\n"
                                    "model = { preset = \"logistic_regression\" }\n");
  const Json said = validated(open_set({job}));
  CHECK(said["bad"] == 3);
  CHECK(said["good"].get<int>() + said["bad"].get<int>() == said["records"].get<int>());
  CHECK(said["records"] == 197);
  CHECK(said["first"][0]["where"] == path + ":81");
  CHECK_THAT(said["first"][1]["what"].get<std::string>(), Contains("label"));  // not 0 or 1
  CHECK(validated(open_set({job}), 1)["first"].size() == 1);
  CHECK(validated(open_set({job}), 0)["first"].size() == 3);
  // validate reads the whole source, even if the job trains on a selection of it.
  const std::string part = dir.write(
      "part.toml",
      "data = { source = { path = \"a.svm\", skip = 50, take = 9 }, format = \"libsvm\" }\n"
      "model = { preset = \"logistic_regression\" }\n");
  CHECK(validated(open_set({part}))["records"] == 197);
  CHECK(validated(open_set({part}))["bad"] == 3);
}

TEST_CASE("flipped bytes, truncated files and damaged archives are found in TFRecords",
          "[tools][data]") {
  const ScratchDir dir;
  const std::string whole = tfrecords(rows_of(50));
  const size_t each = whole.size() / 50;
  std::string flipped = whole;
  flipped[each * 20 + 30] ^= 0x40;
  const Json bits = validated(open_set({dir.write("a.tfrecord", flipped)}));
  CHECK(bits["records"] == 50);
  CHECK(bits["bad"] == 1);
  CHECK_THAT(bits["first"][0]["where"].get<std::string>(), Contains("record "));
  CHECK(validated(open_set({dir.write("b.tfrecord", whole.substr(0, whole.size() - 7))}))["bad"] ==
        1);
  const std::string packed = data::gzipped(whole);
  const Json cut =
      validated(open_set({dir.write("c.tfrecord.gz", packed.substr(0, packed.size() - 9)),
                          dir.write("d.tfrecord", whole)}));
  CHECK(cut["unreadable_files"] == 1);
  CHECK(cut["files"] == 2);
  CHECK(cut["records"].get<int>() >= 50);  // the second file is still read
}

TEST_CASE("records that keep adding new fields are bad records and do not exhaust memory",
          "[tools][data]") {
  const ScratchDir dir;
  std::string text;
  for (int i = 0; i < 10'500; ++i) text += str("{\"f", i, "\": 1}\n");
  std::ostringstream out;
  const auto bad = show_stats(open_set({dir.write("a.jsonl", text)}), 0, {.json = true}, out);
  REQUIRE(bad);
  CHECK(bad->count == 500);
  CHECK_THAT(bad->first.front().what, Contains("f10000") && Contains("10,000"));
}

TEST_CASE("damaged bytes of any format lead to bad records or errors, never to a crash",
          "[tools][data]") {
  const ScratchDir dir;
  const std::vector<Row> rows = rows_of(40);
  const std::string svm = "0 1:1 2:0.5\n1 3:1e3 4:-2\n0 7:1\n1 9:9\n";
  Rng rng(11);
  for (const auto& [name, whole] : std::map<std::string, std::string>{
           {"a.tfrecord", tfrecords(rows)},
           {"a.jsonl", json_lines(rows)},
           {"a.csv", csv_lines(rows)},
           {"a.svm", svm + svm + svm},
           {"a.npy", npy_file<float>("<f4", "(20, 3)", std::vector<float>(60, 1.5F))}}) {
    for (int round = 0; round < 150; ++round) {
      std::string text = whole;
      for (uint64_t i = 0; i < 1 + rng.below(4); ++i)
        text[rng.below(text.size())] = char(rng.next());
      if (round % 5 == 0) text.resize(rng.below(text.size()) + 1);
      const DataFormat format = name == "a.tfrecord" ? DataFormat::kTfrecord
                                : name == "a.jsonl"  ? DataFormat::kJsonl
                                                     : DataFormat::kAuto;
      const auto set = open_data_set({dir.write(name, text)}, {.format = format});
      if (!set) continue;  // opening failed with an error
      std::ostringstream out;
      (void)show_head(*set, 1000, 0, {.json = true}, out);
      (void)show_stats(*set, 0, {}, out);
      (void)validate(*set, 3, {}, out);
      (void)shard(*set, {.out = dir / "out", .to = DataFormat::kJsonl, .skip_bad = true});
      std::filesystem::remove_all(dir / "out");
    }
  }
}

TEST_CASE("two jobs, or a job together with files, are a usage error", "[tools][data]") {
  const ScratchDir dir;
  const std::string job = dir.write("job.toml", "");
  const auto set = open_data_set({job, dir.write("a.csv", "x,label\n1,0\n")}, {});
  REQUIRE_FALSE(set);
  CHECK(set.error().code == ErrorCode::kUsage);
}

}  // namespace
}  // namespace downpour::tools
