// The factorization machine, compared with its definition in float64, and rows that layers share.
#include <algorithm>
#include <cmath>

#include "tests/shared/model/support.h"

using namespace downpour;
using namespace downpour::model;

namespace {

/// A factorization machine alone, over a bag and two fields with one key each. The squared loss of
/// target 0 makes the gradient of its output twice the output.
Job fm_job(uint32_t dim) {
  return make_job(
      {bag_field("f"), key_field("k"), key_field("l"), number_field("t")},
      {{.name = "pairs", .type = "fm", .inputs = {"f", "k", "l"}, .dim = dim, .table = "shared"}},
      {{.name = "y", .input = "pairs", .loss = "squared", .target = "t"}});
}

/// Linear, factorization machine and tower over the same fields, with one table of rows.
Job deep_fm_job(const std::string& table) {
  return make_job(
      {bag_field("f"), key_field("k"), key_field("l"), number_field("x", 3), number_field("label")},
      {{.name = "wide", .type = "linear", .inputs = {"f", "k", "l", "x"}},
       {.name = "emb",
        .type = "embedding",
        .inputs = {"f", "k", "l"},
        .dim = 16,
        .table = "shared"},
       {.name = "pairs", .type = "fm", .inputs = {"f", "k", "l"}, .dim = 16, .table = table},
       {.name = "tower",
        .type = "dense",
        .inputs = {"emb", "x"},
        .units = {7, 1},
        .activation = "relu"},
       {.name = "logit", .type = "add", .inputs = {"wide", "pairs", "tower"}}},
      {{.name = "y", .input = "logit", .loss = "logistic", .target = "label"}});
}

struct Feature {
  uint32_t key = 0;
  double value = 1;
};

/// Returns the features of a record, from all bags.
std::vector<Feature> features_of(const Batch& batch, size_t record) {
  std::vector<Feature> features;
  for (const BagColumn& bag : batch.bags) {
    const size_t begin = bag.offsets.empty() ? record : bag.offsets[record];
    const size_t end = bag.offsets.empty() ? record + 1 : bag.offsets[record + 1];
    for (size_t k = begin; k < end; ++k) {
      features.push_back({bag.keys[k], bag.values.empty() ? 1.0 : double(bag.values[k])});
    }
  }
  return features;
}

/// Returns 1/2 * sum over d of ((sum of x v_d)^2 - sum of (x v_d)^2), and adds the gradient of its
/// square to `gradient`.
double reference(const std::vector<Feature>& features, const std::vector<float>& rows, size_t dim,
                 std::vector<double>& gradient) {
  std::vector<double> sums(dim);
  double output = 0;
  for (size_t j = 0; j < dim; ++j) {
    double squares = 0;
    for (const Feature& f : features) {
      const double x = f.value * double(rows[f.key * dim + j]);
      sums[j] += x;
      squares += x * x;
    }
    output += 0.5 * (sums[j] * sums[j] - squares);
  }
  for (const Feature& f : features) {
    for (size_t j = 0; j < dim; ++j) {
      const double x = f.value * double(rows[f.key * dim + j]);
      gradient[f.key * dim + j] += 2 * output * f.value * (sums[j] - x);
    }
  }
  return output;
}

}  // namespace

TEST_CASE("a factorization machine equals its definition in float64", "[model][numeric]") {
  const uint32_t dim = GENERATE(1U, 2U, 7U, 8U, 10U, 16U, 61U, 64U);
  const bool values = GENERATE(true, false);
  const int threads = GENERATE(1, 3);
  CAPTURE(dim, values, threads);
  Job job = fm_job(dim);
  job.train.reduction = "sum";
  Trial trial(job, 1100, 5, 40);
  std::fill(trial.column("t").values.begin(), trial.column("t").values.end(), 0.0F);
  if (!values) trial.batch.bags[0].values.clear();
  trial.train(threads);
  const std::vector<float> outputs = predictions_of(trial, threads);
  std::vector<double> gradient(40 * dim);
  double worst = 0, largest = 0;
  for (size_t r = 0; r < 1100; ++r) {
    const double wanted = reference(features_of(trial.batch, r), trial.values[0], dim, gradient);
    largest = std::max(largest, std::abs(wanted));
    worst = std::max(worst, std::abs(double(outputs[r]) - wanted));
  }
  CHECK(worst < 1e-6 * std::max(largest, 1.0) * 4);  // sums of up to 5 products in float32
  double largest_gradient = 0;
  for (const double g : gradient) largest_gradient = std::max(largest_gradient, std::abs(g));
  for (size_t i = 0; i < gradient.size(); ++i) {
    CHECK(std::abs(double(trial.gradients[0][i]) - gradient[i]) <
          1e-5 * largest_gradient);  // sums over some 100 records
  }
}

TEST_CASE("more than a block of fields with one key each", "[model]") {
  std::vector<FieldSpec> fields = {number_field("t")};
  LayerSpec fm{.name = "pairs", .type = "fm", .dim = 8, .table = "shared"};
  for (int i = 0; i < 70; ++i) {
    fields.push_back(i == 40 ? bag_field("f40") : key_field("f" + std::to_string(i)));
    fm.inputs.push_back(fields.back().name);
  }
  Job job =
      make_job(fields, {fm}, {{.name = "y", .input = "pairs", .loss = "squared", .target = "t"}});
  Trial trial(job, 20, 5, 90);
  const std::vector<float> outputs = predictions_of(trial);
  std::vector<double> gradient(90 * 8);
  for (size_t r = 0; r < 20; ++r) {
    const double wanted = reference(features_of(trial.batch, r), trial.values[0], 8, gradient);
    CHECK(std::abs(double(outputs[r]) - wanted) < 2e-5 * std::max(1.0, std::abs(wanted)));
  }
}

TEST_CASE("a record with fewer than two keys has no interactions", "[model]") {
  Job job = make_job({bag_field("f"), number_field("t")},
                     {{.name = "pairs", .type = "fm", .inputs = {"f"}, .dim = 16}},
                     {{.name = "y", .input = "pairs", .loss = "squared", .target = "t"}});
  Trial trial(job, 3, 1);
  trial.batch.bags[0].offsets = {0, 1, 1, 2};
  trial.batch.bags[0].keys = {4, 7};
  trial.batch.bags[0].values = {0.3F, -1.7F};
  CHECK(predictions_of(trial) == std::vector<float>(3, 0.0F));
  trial.train();
  for (const float g : trial.gradients[0]) CHECK(std::abs(g) < 1e-6F);
}

TEST_CASE("a factorization machine gives the same bits for any number of threads", "[model]") {
  for (const Job& job : {fm_job(10), deep_fm_job("shared"), deep_fm_job("emb")}) {
    Trial one(job, 2900, 1, 700);
    const BatchMetrics metrics = one.train(1, true);
    const std::vector<float> outputs = predictions_of(one);
    for (const int threads : {2, 3, 7}) {
      Trial many(job, 2900, 1, 700);
      CHECK(many.train(threads, true) == metrics);
      CHECK(many.gradients == one.gradients);
      CHECK(predictions_of(many, threads) == outputs);
    }
  }
}

TEST_CASE("a factorization machine gives the same bits for any order of a batch's keys",
          "[model]") {
  const uint32_t keys = 50, dim = 10;
  Trial trial(fm_job(dim), 900, 1, keys);
  const BatchMetrics metrics = trial.train(2);
  const std::vector<float> gradients = trial.gradients[0];
  Trial other(fm_job(dim), 900, 1, keys);
  for (BagColumn& bag : other.batch.bags) {
    for (uint32_t& key : bag.keys) key = (key * 7) % keys;
  }
  const auto moved = [&](uint32_t key) { return size_t{(key * 7) % keys} * dim; };
  for (uint32_t key = 0; key < keys; ++key) {
    std::copy_n(trial.values[0].begin() + key * dim, dim, other.values[0].begin() + moved(key));
  }
  CHECK(other.train(2) == metrics);
  for (uint32_t key = 0; key < keys; ++key) {
    CHECK(std::equal(gradients.begin() + key * dim, gradients.begin() + (key + 1) * dim,
                     other.gradients[0].begin() + moved(key)));
  }
}

TEST_CASE("layers share the rows of an embedding, whose keys are pulled once", "[model]") {
  const auto shared = Graph::build(deep_fm_job("emb"));
  REQUIRE(shared);
  const TableSpec& table = (*shared)->tables()[0];
  CHECK((*shared)->inputs().tables.size() == 1);
  REQUIRE(table.table_variables.size() == 2);
  CHECK(table.table_variables[0].name == "wide/weights");
  CHECK(table.table_variables[1].name == "emb/table");
  // Otherwise each layer has its own rows.
  const auto separate = Graph::build(deep_fm_job("shared"));
  REQUIRE(separate);
  CHECK((*separate)->tables()[0].table_variables.size() == 3);
}

TEST_CASE("the gradient of shared rows is the sum of the gradients by both layers", "[model]") {
  // The same values in separate rows. Few records share no keys, so they are not multiplied by key.
  const uint32_t records = GENERATE(40U, 1500U);
  const int threads = GENERATE(1, 3);
  Trial shared(deep_fm_job("emb"), records, 6, 60);
  Trial separate(deep_fm_job("shared"), records, 6, 60);
  separate.batch = shared.batch;
  const std::vector<size_t> places = {0, 1, 1};  // wide/weights, emb/table, pairs/table
  for (size_t v = 0; v < separate.values.size(); ++v) {
    const std::vector<float>& from = shared.values[v < 3 ? places[v] : v - 1];
    std::copy(from.begin(), from.end(), separate.values[v].begin());
  }
  const BatchMetrics metrics = shared.train(threads);
  CHECK(separate.train(threads) == metrics);
  CHECK(shared.workspace->keyed.size() == 1);
  CHECK(shared.workspace->keyed[0].active() == (records == 1500));
  for (size_t i = 0; i < shared.values[1].size(); ++i) {
    const float sum = separate.gradients[1][i] + separate.gradients[2][i];
    CHECK(std::abs(shared.gradients[1][i] - sum) < 1e-5F);  // another order of summation
  }
  for (size_t v = 3; v < separate.gradients.size(); ++v) {
    CHECK(shared.gradients[v - 1] == separate.gradients[v]);
  }
}
