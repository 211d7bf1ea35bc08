// data.filter on text formats: which records pass, how they are counted, and errors.
#include "shared/data/values/filter.h"

#include "tests/shared/data/support.h"

namespace downpour::data {
namespace {

std::shared_ptr<ReadPlan> people(const ScratchDir& dir, const std::string& filter,
                                 const std::string& text =
                                     "age,country,label\n"
                                     "17,NO,0\n"
                                     "30,SE,1\n"
                                     "41,XX,0\n"
                                     ",NO,1\n"
                                     "52,\"N\"\"O\",1\n") {
  auto plan = plan_of(dir.write("people.csv", text), DataFormat::kCsv);
  plan->data.header = true;
  plan->data.fields = {
      {.name = "age", .type = FieldType::kInt64, .transform = {ops::Log1p{}}},
      {.name = "country", .type = FieldType::kString, .transform = {ops::Hash{.buckets = 16}}},
      {.name = "label"}};
  plan->layout.floats = {{"label", 1}};
  plan->data.filter = filter;
  return plan;
}

TEST_CASE("a filter sees values before their transforms", "[data][filter]") {
  const ScratchDir dir;
  const ShardRead read =
      read_file(people(dir, "country != 'XX' && (missing(age) || age >= 18)")).value();
  CHECK(read.floats == std::vector<std::vector<float>>{{1}, {1}, {1}});
  CHECK(read.totals.counts.read == 5);
  CHECK(read.totals.counts.filtered == 2);
  CHECK(read.totals.counts.skipped == 0);
  CHECK(read_file(people(dir, "country == 'N\"O'")).value().totals.counts.filtered == 4);
}

TEST_CASE("batches are filled with the records that pass", "[data][filter]") {
  const ScratchDir dir;
  std::string text = "age,country,label\n";
  for (int i = 0; i < 1000; ++i) text += str(i, i % 10 == 0 ? ",NO," : ",SE,", i % 2, "\n");
  const auto plan = people(dir, "country == 'NO'", text);
  plan->data.shuffle = "shard";
  const ShardRead read = read_file(plan).value();
  REQUIRE(read.batches.size() == 25);  // of 4 records each
  for (const Batch& batch : read.batches) CHECK(batch.records == 4);
  CHECK(read.totals.counts.filtered == 900);
}

TEST_CASE("a missing value that the filter needs makes a record bad, unless there is a default",
          "[data][filter]") {
  const ScratchDir dir;
  auto plan = people(dir, "age >= 18");
  const auto failed = read_file(plan);
  REQUIRE_FALSE(failed.has_value());
  CHECK(failed.error().where.find("people.csv:5") != std::string::npos);
  CHECK(failed.error().what.find("age is missing, and data.filter needs it") != std::string::npos);
  plan->data.bad_records = BadRecords::kSkip;
  const ShardRead read = read_file(plan).value();
  CHECK(read.totals.counts.skipped == 1);
  CHECK(read.totals.counts.filtered == 1);
  plan->data.bad_records = BadRecords::kFail;
  plan->data.fields[0].fallback = "20";
  CHECK(read_file(plan).value().floats.size() == 4);
  plan->data.filter = "missing(age)";
  CHECK(read_file(plan).value().floats.size() == 1);
  plan->data.filter = "!missing(age) || age == 20";
  CHECK(read_file(plan).value().floats.size() == 5);
}

TEST_CASE("a number equals the literal that is written like it", "[data][filter]") {
  const ScratchDir dir;
  const std::string text = "age,country,label\n4.43,NO,1\n4.42,NO,0\n0.1,NO,0\n" +
                           std::string("123456789.123456789,NO,0\n");
  const auto kept = [&](const std::string& filter) {
    auto plan = people(dir, filter, text);
    plan->data.fields[0].type = FieldType::kFloat32;
    return read_file(plan).value().floats.size();
  };
  CHECK(kept("age == 4.43") == 1);
  CHECK(kept("age >= 4.43") == 2);
  CHECK(kept("age in (4.43, 0.1)") == 2);
  CHECK(kept("age == 123456789.123456789") == 1);
  const auto owned = RecordFilter::make(people(dir, "age == 4.43")->data);
  RecordFilter& filter = **owned;
  Fault fault;
  filter.set_number(0, 4.43F);
  CHECK(filter.passes(fault));
  filter.set_number(0, 4.43);
  CHECK(filter.passes(fault));
  filter.set_number(0, 4.4300003F);
  CHECK_FALSE(filter.passes(fault));
}

TEST_CASE("a NaN that data.missing names is missing for a filter", "[data][filter]") {
  const ScratchDir dir;
  auto plan = people(dir, "missing(age)");
  for (const bool named : {true, false}) {
    if (named) plan->data.missing = {"nan"};
    const auto owned = RecordFilter::make(plan->data);
    Fault fault;
    for (const float nan : {std::nanf(""), 1.0F}) {
      (*owned)->set_number(0, nan);
      CHECK((*owned)->passes(fault) == (named && std::isnan(nan)));
      (*owned)->set_number(0, double(nan));
      CHECK((*owned)->passes(fault) == (named && std::isnan(nan)));
    }
    plan->data.missing.clear();
  }
}

TEST_CASE("text in a field that the filter compares with a number is a bad record",
          "[data][filter]") {
  const ScratchDir dir;
  const auto failed = read_file(people(dir, "age >= 18", "age,country,label\nold,NO,1\n"));
  REQUIRE_FALSE(failed.has_value());
  CHECK(failed.error().what.find("age \"old\" is not a number") != std::string::npos);
}

TEST_CASE("integers are compared exactly", "[data][filter]") {
  const ScratchDir dir;
  const std::string text =
      "age,country,label\n9007199254740993,a,1\n9007199254740992,a,0\n-9223372036854775807,a,0\n";
  CHECK(read_file(people(dir, "age == 9007199254740993", text)).value().floats ==
        std::vector<std::vector<float>>{{1}});
  CHECK(read_file(people(dir, "age == -9223372036854775807", text)).value().floats.size() == 1);
}

TEST_CASE(
    "libsvm: a filter may use the label and single features; an absent feature is its default or 0",
    "[data][filter]") {
  const ScratchDir dir;
  const std::string path = dir.write("a.svm", "1 3:0.5 7:2\n0 3:4\n1 7:1 # 3:9\n-1 3:0.25\n");
  const auto with = [&](const std::string& filter) {
    auto plan = plan_of(path);
    reads_libsvm(*plan);
    plan->data.fields = {{.name = "third", .column = "3"}};
    plan->data.filter = filter;
    return read_file(plan).value();
  };
  CHECK(with("third > 0").floats.size() == 3);
  CHECK(with("third == 0").floats.size() == 1);
  CHECK(with("label == 1 && third < 1").keys.size() == 2);
  CHECK(with("label == -1").totals.counts.filtered == 3);
  const auto with_default = [&](const std::string& filter) {
    auto plan = plan_of(path);
    reads_libsvm(*plan);
    plan->data.fields = {{.name = "third", .column = "3", .fallback = "7"}};
    plan->data.filter = filter;
    return read_file(plan).value();
  };
  CHECK(with_default("third == 7").floats.size() == 1);
  CHECK(with_default("!missing(third)").floats.size() == 3);
}

TEST_CASE("libsvm: a filter skips a malformed token in linear time", "[data][filter]") {
  const ScratchDir dir;
  // With quadratic time this token would take minutes.
  auto plan = plan_of(dir.write("a.svm", "1 " + std::string(4 << 20, '7') + " 3:2\n1 3:1\n"));
  reads_libsvm(*plan);
  plan->data.fields = {{.name = "third", .column = "3"}};
  plan->data.filter = "third == 1";
  CHECK(read_file(plan).value().totals.counts == ReadCounts{.read = 2, .filtered = 1});
}

TEST_CASE("a filter may use the fields of the criteo format", "[data][filter]") {
  const ScratchDir dir;
  std::string text;
  for (int i = 0; i < 3; ++i) {
    text += str(i % 2, "\t", i);
    for (int c = 0; c < 38; ++c) text += c == 12 ? "\tabcd" : "\t";
    text += "\n";
  }
  auto plan = plan_of(dir.write("c.tsv", text), DataFormat::kCriteo);
  plan->layout.floats = {{"label", 1}};
  plan->data.filter = "I1 >= 1 && C1 == 'abcd'";
  CHECK(read_file(plan).value().totals.counts.filtered == 1);
}

TEST_CASE("the plan hash depends on the filter", "[data][filter]") {
  const ScratchDir dir;
  const auto none = people(dir, ""), some = people(dir, "age > 1"), other = people(dir, "age > 2");
  CHECK(plan_hash(*none, {}) != plan_hash(*some, {}));
  CHECK(plan_hash(*some, {}) != plan_hash(*other, {}));
}

TEST_CASE("a prediction ignores the filter", "[data][filter]") {
  const ScratchDir dir;
  const auto plan = people(dir, "age > 40", "age,country,label\n30,NO,1\n50,NO,1\n");
  CHECK(read_file(for_prediction(*plan)).value().floats.size() == 2);
}

TEST_CASE("an invalid filter is an error before any record is read", "[data][filter]") {
  DataSpec data;
  data.format = DataFormat::kCsv;
  data.fields = {{.name = "age"}, {.name = "tags", .shape = {-1}}};
  CHECK(check_filter(data).has_value());
  data.filter = "aeg > 3";
  CHECK(check_filter(data).error().where == "data.filter");
  data.filter = "tags == 3";  // a bag is not a single value
  CHECK_FALSE(check_filter(data).has_value());
  data.filter = "age > 3";
  CHECK(check_filter(data).has_value());
  data.fields[0].fallback = "none";
  CHECK(check_filter(data).error().where == "data.fields.age");
  data.fields[0].fallback.reset();
  data.format = DataFormat::kMnist;
  CHECK(check_filter(data).error().what == "data.filter does not support images");
}

}  // namespace
}  // namespace downpour::data
