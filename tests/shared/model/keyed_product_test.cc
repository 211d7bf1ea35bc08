// KeyedProduct, compared with the same model multiplied by record.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "tests/shared/model/support.h"

using namespace downpour;
using namespace downpour::model;

namespace {

/// A model with numbers before and after the embedding in the layer's input. `by_record` adds a
/// second reader of the embedding, whose loss has weight 0, so that the embedding must be pooled.
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

/// Gives each of 3 bags its own keys in two ranges of the table's 600 keys, like a pull plan of two
/// messages. One key in ten is a key of any bag.
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

/// Checks that the gradients of the trial's last batch equal those by record. The other arguments
/// recreate the trial's model.
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

TEST_CASE("products by key equal products by record", "[model]") {
  const auto units = GENERATE(5U, 64U, 83U);
  const auto any_length = GENERATE(false, true);
  const std::string pool = GENERATE("sum", "mean");
  const auto records = GENERATE(900U, 4000U);  // one slot and several slots
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

TEST_CASE("in synchronous training the order of a table's keys changes no bit of the gradients",
          "[model]") {
  const auto any_length = GENERATE(false, true);
  const std::string pool = GENERATE("sum", "mean");
  CAPTURE(any_length, pool);
  const uint32_t keys = 600;
  Job job = tower_job(64, pool, any_length, false);
  job.train.replicas = 2;
  Trial trial(job, 4000, 11, keys), other(job, 4000, 11, keys);
  spread_keys(trial.batch, 3);
  // Another number of ps arranges the keys of a table in another order.
  std::vector<uint32_t> place(keys);
  std::iota(place.begin(), place.end(), 0U);
  Rng rng(5);
  for (uint32_t k = keys; k > 1; --k) std::swap(place[k - 1], place[rng.below(k)]);
  other.batch = trial.batch;
  for (BagColumn& bag : other.batch.bags) {
    for (uint32_t& key : bag.keys) key = place[key];
  }
  const auto arrange = [&](std::vector<std::vector<float>>& variables) {
    size_t v = 0;
    for (const TableSpec& table : trial.graph->tables()) {
      for (const VariableSpec& variable : table.table_variables) {
        std::vector<float>& rows = variables[v++];
        if (table.kind == TableKind::kDense) continue;
        const std::vector<float> before = rows;
        for (uint32_t k = 0; k < keys; ++k) {
          std::copy_n(&before[size_t{k} * variable.dim], variable.dim,
                      &rows[size_t{place[k]} * variable.dim]);
        }
      }
    }
  };
  arrange(other.values);
  const BatchMetrics metrics = trial.train();
  REQUIRE(trial.workspace->keyed[0].active());
  CHECK(other.train(3) == metrics);
  arrange(trial.gradients);
  CHECK(other.gradients == trial.gradients);
}

TEST_CASE("KeyedProduct works with a separate table per field", "[model]") {
  Job job = tower_job(64, "sum", false, false);
  job.model.layers[1].table.clear();
  Trial keyed(job, 2000, 3, 80);
  // Half of the table's keys occur in no record.
  for (uint32_t& key : keyed.batch.bags[1].keys) key /= 2;
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
  // The layer reads the embedding without a concatenation.
  CHECK(alone.workspace->keyed.size() == 1);
  two.model.layers[2].units = {1};
  Trial scalar(two, 900, 1, 20);
  scalar.train();
  CHECK(scalar.workspace->keyed.empty());  // a layer of one column gains nothing
}

TEST_CASE("a bag that is empty in the whole batch has a kernel gradient of zero", "[model]") {
  Trial trial(tower_job(64, "sum", true, false), 900, 5, 30);
  BagColumn& bag = trial.batch.bags[1];
  bag.keys.clear();
  bag.values.clear();
  bag.offsets.assign(901, 0);
  trial.train();
  REQUIRE(trial.workspace->keyed[0].active());
  check_against_records(trial, true, 900, 5, 30);
}

TEST_CASE("an embedding that reads only some fields of a shared table is multiplied by key",
          "[model]") {
  Job job =
      make_job({key_field("a"), key_field("b"), key_field("c"), number_field("label")},
               {{.name = "all",
                 .type = "embedding",
                 .inputs = {"a", "b", "c"},
                 .dim = 16,
                 .table = "shared"},
                {.name = "low", .type = "dense", .inputs = {"all"}, .units = {1}},
                {.name = "emb", .type = "embedding", .inputs = {"a"}, .dim = 16, .table = "all"},
                {.name = "top", .type = "dense", .inputs = {"emb"}, .units = {64, 1}},
                {.name = "logit", .type = "add", .inputs = {"low", "top"}}},
               {{.name = "y", .input = "logit", .loss = "logistic", .target = "label"}});
  // The table has 2000 keys, but field a has only 30 of them.
  Trial trial(job, 900, 2, 2000);
  for (uint32_t& key : trial.batch.bags[0].keys) key %= 30;
  trial.train();
  REQUIRE(trial.workspace->keyed.size() == 1);
  CHECK(trial.workspace->keyed[0].active());
}
