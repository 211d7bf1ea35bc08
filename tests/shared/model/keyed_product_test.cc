// Products by key against the same model's products by record.
#include <algorithm>
#include <cmath>

#include "tests/shared/model/support.h"

using namespace downpour;
using namespace downpour::model;

namespace {

/// Numbers stand on both sides of the embedding. `by_record`: it has a second reader, whose loss
/// does not count, so that it has to be pooled.
Job tower_job(uint32_t units, const std::string& pool, bool any_length, bool by_record) {
  const auto field = [&](const std::string& name) {
    return any_length ? bag_field(name) : key_field(name);
  };
  Job job = make_job(
      {field("a"), field("b"), field("c"), number_field("x", 2), number_field("y", 3),
       number_field("label")},
      {{.name = "wide", .type = "linear", .inputs = {"a", "b", "c", "x"}},
       {.name = "emb",
        .type = "embedding",
        .inputs = {"a", "b", "c"},
        .dim = 16,
        .pool = pool,
        .table = "shared"},
       {.name = "low", .type = "dense", .inputs = {"y"}, .units = {4}, .activation = "sigmoid"},
       {.name = "top",
        .type = "dense",
        .inputs = {"x", "emb", "low"},
        .units = {units, 1},
        .activation = "sigmoid"},
       {.name = "logit", .type = "add", .inputs = {"wide", "top"}}},
      {{.name = "click", .input = "logit", .loss = "logistic", .target = "label"}});
  if (by_record) {
    job.model.layers.push_back({.name = "peek", .type = "dense", .inputs = {"emb"}, .units = {1}});
    job.model.outputs.push_back(
        {.name = "none", .input = "peek", .loss = "squared", .target = "label", .weight = 0.0F});
  }
  return job;
}

/// Bag i of 3 has its own keys in two stretches of the table's 600, as a pull plan of two messages
/// leaves them; each tenth key is one of any bag's.
void spread_keys(Batch& batch, uint64_t seed) {
  Rng rng(seed);
  for (size_t i = 0; i < batch.bags.size(); ++i) {
    for (uint32_t& key : batch.bags[i].keys) {
      const auto own = uint32_t(rng.below(2) * 300 + i * 100 + rng.below(100));
      key = rng.below(10) == 0 ? uint32_t(rng.below(600)) : own;
    }
  }
}

void check_close(const std::vector<float>& got, const std::vector<float>& wanted) {
  REQUIRE(got.size() <= wanted.size());
  double largest = 0;
  for (const float w : wanted) largest = std::max(largest, std::abs(double(w)));
  for (size_t i = 0; i < got.size(); ++i) {
    CHECK(std::abs(double(got[i]) - double(wanted[i])) <= 2e-5 * std::max(largest, 1e-3));
  }
}

/// The gradients of the trial's batch, which it has been trained with, are those by record. The
/// rest makes the same trial again.
void check_against_records(const Trial& trial, bool any_length, uint32_t records, uint64_t seed,
                           uint32_t keys) {
  Trial plain(tower_job(64, "sum", any_length, true), records, seed, keys);
  plain.batch = trial.batch;
  plain.train();
  for (size_t v = 0; v < trial.gradients.size(); ++v) {
    check_close(trial.gradients[v], plain.gradients[v]);
  }
}

}  // namespace

TEST_CASE("products by key are those by record", "[model]") {
  const auto units = GENERATE(5U, 64U, 83U);
  const auto any_length = GENERATE(false, true);
  const std::string pool = GENERATE("sum", "mean");
  const auto records = GENERATE(900U, 4000U);  // one slot and several
  const auto spread = GENERATE(true, false);   // false: all bags share all keys
  const uint32_t keys = spread ? 600 : 60;
  CAPTURE(units, any_length, pool, records, spread);
  Trial keyed(tower_job(units, pool, any_length, false), records, 11, keys);
  Trial plain(tower_job(units, pool, any_length, true), records, 11, keys);
  if (spread) {
    spread_keys(keyed.batch, 3);
    spread_keys(plain.batch, 3);
  }
  REQUIRE(keyed.batch.bags[0].keys == plain.batch.bags[0].keys);
  const BatchMetrics metrics = keyed.train();
  REQUIRE(keyed.workspace->keyed.size() == 1);
  REQUIRE(keyed.workspace->keyed[0].active());
  const BatchMetrics wanted = plain.train();
  REQUIRE(plain.workspace->keyed.empty());
  CHECK(metrics[0].sums.loss == Approx(wanted[0].sums.loss).epsilon(1e-6));
  for (size_t v = 0; v < keyed.gradients.size(); ++v) {
    CAPTURE(v);
    check_close(keyed.gradients[v], plain.gradients[v]);
  }
  std::vector<std::vector<float>> got, expected;
  keyed.graph->forward(keyed.batch, keyed.views, *keyed.workspace, 1, got, nullptr);
  plain.graph->forward(plain.batch, plain.views, *plain.workspace, 1, expected, nullptr);
  check_close(got[0], expected[0]);

  Trial many(tower_job(units, pool, any_length, false), records, 11, keys);
  many.batch = keyed.batch;
  CHECK(many.train(3) == metrics);
  CHECK(many.gradients == keyed.gradients);
}

TEST_CASE("fields with tables of their own are multiplied by key", "[model]") {
  Job job = tower_job(64, "sum", false, false);
  job.model.layers[1].table.clear();
  Trial keyed(job, 2000, 3, 80);
  for (uint32_t& key : keyed.batch.bags[1].keys) key /= 2;  // half of its table in no record
  keyed.train();
  REQUIRE(keyed.workspace->keyed[0].active());
  Job other = tower_job(64, "sum", false, true);
  other.model.layers[1].table.clear();
  Trial plain(other, 2000, 3, 80);
  plain.batch = keyed.batch;
  plain.train();
  for (size_t v = 0; v < keyed.gradients.size(); ++v) {
    check_close(keyed.gradients[v], plain.gradients[v]);
  }
}

TEST_CASE("a batch whose records share few keys is multiplied by record", "[model]") {
  Trial trial(tower_job(64, "sum", false, false), 900, 1, 600);
  trial.train();
  CHECK(trial.workspace->keyed[0].active());
  trial.batch = slice(trial.batch, 0, 200);
  trial.train();
  CHECK_FALSE(trial.workspace->keyed[0].active());
  check_against_records(trial, false, 900, 1, 600);
}

TEST_CASE("only an embedding with one reader is multiplied by key", "[model]") {
  Job two = tower_job(64, "sum", false, false);
  two.model.layers[3].inputs = {"emb"};
  two.model.layers.erase(two.model.layers.begin() + 2);  // "low"
  Trial alone(two, 900, 1, 20);
  alone.train();
  CHECK(alone.workspace->keyed.size() == 1);  // read without a concatenation
  two.model.layers[2].units = {1};
  Trial scalar(two, 900, 1, 20);
  scalar.train();
  CHECK(scalar.workspace->keyed.empty());  // of one column: nothing to gain
}

TEST_CASE("bags that are empty in a whole batch leave their kernel's gradient at zero", "[model]") {
  Trial trial(tower_job(64, "sum", true, false), 900, 5, 30);
  BagColumn& bag = trial.batch.bags[1];
  bag.keys.clear();
  bag.values.clear();
  bag.offsets.assign(901, 0);
  trial.train();
  REQUIRE(trial.workspace->keyed[0].active());
  check_against_records(trial, true, 900, 5, 30);
}
