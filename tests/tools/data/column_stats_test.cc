// Statistics in fixed memory: their error bounds, and the output of `stats` and `plan`.
#include "tools/data/column_stats.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "shared/base/hash.h"
#include "shared/base/rng.h"
#include "tests/tools/data/support.h"

namespace downpour::tools {
namespace {

using Catch::Contains;

TEST_CASE(
    "the number of distinct values is estimated to within 5 %, and to within one for small numbers",
    "[tools][stats]") {
  for (const uint64_t count : {0, 1, 10, 200, 5'000, 20'000, 100'000, 1'000'000}) {
    HyperLogLog distinct;
    for (uint64_t i = 0; i < count; ++i) {
      distinct.add(mix64(i));
      if (i % 3 == 0) distinct.add(mix64(i));  // a repeat changes nothing
    }
    CHECK(std::abs(distinct.estimate() - double(count)) <= std::max(0.05 * double(count), 1.0));
  }
}

TEST_CASE(
    "frequent values are found among many others, with counts that are too low by at most 1/1000",
    "[tools][stats]") {
  FrequentValues frequent;
  Rng rng(3);
  constexpr uint64_t kAll = 300'000;
  uint64_t a = 0, b = 0;
  for (uint64_t i = 0; i < kAll; ++i) {
    const uint64_t draw = rng.below(100);
    a += draw < 20;
    b += draw >= 20 && draw < 25;
    frequent.add(draw < 20 ? "a" : draw < 25 ? "b" : str(rng.next()));
  }
  const auto top = frequent.top(2);
  REQUIRE(top.size() == 2);
  CHECK(top[0].value == "a");
  CHECK(top[1].value == "b");
  CHECK(frequent.error() <= kAll / 1000);
  CHECK(top[0].count <= a);
  CHECK(top[0].count + frequent.error() >= a);
  CHECK(top[1].count + frequent.error() >= b);
}

TEST_CASE("a histogram counts every value in the right bin, in whatever order the values arrive",
          "[tools][stats]") {
  for (const int order : {0, 1, 2}) {
    Histogram histogram;
    for (int i = 0; i < 8000; ++i) {
      const int at = order == 0 ? i : order == 1 ? 7999 - i : int(mix64(uint64_t(i)) % 8000);
      histogram.add(double(at) / 8 - 300);
    }
    const std::vector<uint64_t> bins = histogram.bins(8);
    CHECK(std::accumulate(bins.begin(), bins.end(), uint64_t{0}) == 8000);
    for (const uint64_t bin : bins) CHECK(std::abs(double(bin) - 1000) < 150);
  }
  Histogram alike;
  for (int i = 0; i < 5000; ++i) alike.add(7);
  CHECK(alike.bins(4) == std::vector<uint64_t>{5000, 0, 0, 0});
  alike.add(8);
  for (int i = 0; i < 1000; ++i) alike.add(7.5);
  const std::vector<uint64_t> bins = alike.bins(4);
  CHECK(bins[0] == 5000);
  CHECK(std::accumulate(bins.begin(), bins.end(), uint64_t{0}) == 6001);
  CHECK(bars({0, 1, 50, 100}) == " ▁▄█");
}

TEST_CASE("stats show the missing values, the distribution and the frequent values of every field",
          "[tools][stats]") {
  const ScratchDir dir;
  std::string text = "n,c,label\n";
  for (int i = 0; i < 1000; ++i)
    text += str(i % 10 == 0 ? "" : std::to_string(i), ",", i % 4 == 0 ? "often" : str("x", i), ",",
                i % 2, "\n");
  const DataSet set = open_set({dir.write("a.csv", text)});
  std::ostringstream out, table;
  REQUIRE(show_stats(set, 0, {.json = true}, out));
  const Json stats = Json::parse(out.str());
  CHECK(stats["records"] == 1000);
  const Json& n = stats["fields"][0];
  CHECK(n["name"] == "n");
  CHECK(n["kind"] == "integer");
  CHECK(n["missing"] == 100);
  CHECK(n["min"] == 1);
  CHECK(n["max"] == 999);
  CHECK(n["mean"].get<double>() == Approx(500));
  CHECK(std::abs(n["distinct"].get<double>() - 900) < 45);
  const Json& c = stats["fields"][1];
  CHECK(c["top"][0] == Json{{"value", "often"}, {"count", 250}});
  REQUIRE(show_stats(set, 10, {.json = false}, table));
  CHECK_THAT(table.str(), Contains("10 records") && Contains("often") && Contains("█"));
}

TEST_CASE("the plan assigns every byte of every file to one worker", "[tools][plan]") {
  const ScratchDir dir;
  std::string text;
  for (int i = 0; i < 5000; ++i) text += str(i % 2, " ", i + 1, ":1\n");
  dir.write("a.svm", text);
  dir.write("b.svm", text + text);
  const std::string job =
      dir.write("job.toml",
                "data = { source = [\"a.svm\", \"b.svm\"], format = \"libsvm\", "
                "shard_records = 300 }\nmodel = { preset = \"logistic_regression\" }\n"
                "cluster.workers = 3\n");
  const DataSet set = open_set({job});
  std::ostringstream out, other, table;
  REQUIRE(show_plan(set, 0, 0, {.json = true}, out));
  const Json plan = Json::parse(out.str());
  std::vector<uint64_t> bytes(2), shards(3);
  for (const Json& shard : plan["shards"]) {
    bytes[shard["file"].get<size_t>()] +=
        shard["end"].get<uint64_t>() - shard["begin"].get<uint64_t>();
    ++shards[shard["worker"].get<size_t>()];
  }
  CHECK(bytes == std::vector<uint64_t>{text.size(), 2 * text.size()});
  CHECK(*std::max_element(shards.begin(), shards.end()) -
            *std::min_element(shards.begin(), shards.end()) <=
        1);
  REQUIRE(show_plan(set, 0, 0, {.json = true, .epoch_index = 1}, other));
  CHECK(other.str() != out.str());  // each epoch has its own order
  CHECK(Json::parse(other.str())["epoch"] == 1);
  REQUIRE(show_plan(set, 100, 5, {.epoch_index = 1}, table));
  CHECK_THAT(table.str(), Contains("; epoch 2\n"));  // text counts from 1
  CHECK_THAT(table.str(), Contains("more shards") && Contains("fewer shards than workers"));
}

}  // namespace
}  // namespace downpour::tools
