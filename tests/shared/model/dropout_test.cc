// Dropout: the mask as a function of seed, batch, record and column; its use in a model.
#include "shared/model/dropout.h"

#include <cmath>
#include <numeric>

#include "tests/shared/model/support.h"

using namespace downpour;
using namespace downpour::model;

namespace {

std::vector<float> dropped(size_t rows, size_t width, DropoutMask mask) {
  std::vector<float> x(rows * width, 1.0F);
  drop({x.data(), width}, {x.data(), width}, rows, width, mask, false);
  return x;
}

double mean_of(const std::vector<float>& x) {
  return std::accumulate(x.begin(), x.end(), 0.0) / double(x.size());
}

/// A tower with dropout over embeddings with dropout, and a factorization machine with dropout.
Job dropout_job(float rate, uint64_t seed = 3) {
  Job job = make_job(
      {bag_field("f"), key_field("k"), number_field("x", 3), number_field("label")},
      {{.name = "emb", .type = "embedding", .inputs = {"f", "k"}, .dim = 5, .dropout = rate},
       {.name = "pairs", .type = "fm", .inputs = {"f", "k"}, .dim = 11, .dropout = rate},
       {.name = "tower",
        .type = "dense",
        .inputs = {"emb", "x"},
        .units = {9, 7, 1},
        .activation = "sigmoid",
        .dropout = rate},
       {.name = "logit", .type = "add", .inputs = {"pairs", "tower"}}},
      {{.name = "y", .input = "logit", .loss = "logistic", .target = "label"}});
  job.seed = seed;
  return job;
}

}  // namespace

TEST_CASE("a dropout sets its share of the elements to 0 and scales the others", "[model]") {
  for (const float rate : {0.1F, 0.5F, 0.9F}) {
    const std::vector<float> x = dropped(2000, 100, {.rate = rate, .seed = 5});
    const double zeros = double(std::count(x.begin(), x.end(), 0.0F)) / double(x.size());
    // 4.5 standard deviations of 200,000 draws
    CHECK(std::abs(zeros - double(rate)) < 4.5 * std::sqrt(0.25 / double(x.size())));
    CHECK(mean_of(x) == Approx(1).margin(0.03));
    for (const float v : x) CHECK((v == 0.0F || v == 1.0F / (1.0F - rate)));
  }
}

TEST_CASE("records, columns, operations and batches have unrelated masks", "[model]") {
  const size_t rows = 400, width = 256, count = rows * width;
  const std::vector<float> x = dropped(rows, width, {.rate = 0.5F, .seed = 5});
  const std::vector<float> y = dropped(rows, width, {.rate = 0.5F, .seed = 6});
  const auto related = [&](const std::vector<float>& other, size_t shift) {
    double both = 0;
    for (size_t i = 0; i + shift < count; ++i) both += x[i] != 0 && other[i + shift] != 0;
    // A quarter of the pairs, with a standard deviation of sqrt(3 / 16 / count)
    return std::abs(both / double(count - shift) - 0.25) > 4.5 * std::sqrt(0.1875 / double(count));
  };
  for (const size_t shift : {size_t{1}, size_t{2}, size_t{64}, width - 1, width, width + 1})
    CHECK_FALSE(related(x, shift));
  CHECK_FALSE(related(y, 0));
}

TEST_CASE("a mask does not depend on where a chunk of records begins", "[model]") {
  const DropoutMask mask{.rate = 0.3F, .seed = 9};
  const std::vector<float> all = dropped(50, 7, mask);
  DropoutMask later = mask;
  later.record = 20;
  CHECK(dropped(30, 7, later) == std::vector<float>(all.begin() + 20 * 7, all.end()));
}

TEST_CASE("a dropped element stops a value that is not finite", "[model]") {
  std::vector<float> x(64, INFINITY), y(64, 1.0F);
  drop({x.data(), 64}, {y.data(), 64}, 1, 64, {.rate = 0.5F}, true);
  for (const float v : y) CHECK((v == 1.0F || v == INFINITY));
  CHECK(std::count(y.begin(), y.end(), 1.0F) > 10);
}

TEST_CASE("gradients through the dropout of embeddings, of a tower and of a machine",
          "[model][numeric]") {
  Trial trial(dropout_job(0.4F), 11, 3, 6);
  for (auto& variable : trial.values) {
    for (float& x : variable) x *= 0.5F;
  }
  check_gradients(trial, /*training=*/true);
}

TEST_CASE("dropout gives the same bits for any number of threads", "[model]") {
  Trial one(dropout_job(0.3F), 2900, 1, 700);
  const BatchMetrics metrics = one.train(1, true);
  for (const int threads : {2, 3, 7}) {
    Trial many(dropout_job(0.3F), 2900, 1, 700);
    CHECK(many.train(threads, true) == metrics);
    CHECK(many.gradients == one.gradients);
  }
}

TEST_CASE("a repeated batch has the same mask; another batch or seed has another one", "[model]") {
  Trial trial(dropout_job(0.3F), 60, 1);
  trial.batch.id = {1, 2, 3};
  trial.train();
  const auto gradients = trial.gradients;
  for (const BatchId other :
       {BatchId{0, 2, 3}, BatchId{1, 0, 3}, BatchId{1, 2, 0}, BatchId{1, 3, 2}}) {
    trial.batch.id = other;
    trial.train();
    CHECK(trial.gradients != gradients);
  }
  trial.batch.id = {1, 2, 3};
  trial.train();
  CHECK(trial.gradients == gradients);
  Trial seeded(dropout_job(0.3F, /*seed=*/4), 60, 1);
  seeded.batch.id = {1, 2, 3};
  seeded.train();
  CHECK(seeded.gradients != gradients);
}

TEST_CASE("evaluation and prediction have no dropout", "[model]") {
  Trial with(dropout_job(0.6F), 40, 1), without(dropout_job(0.0F), 40, 1);
  const std::vector<float> a = predictions_of(with), b = predictions_of(without);
  for (size_t i = 0; i < a.size(); ++i) CHECK(double(a[i]) == Approx(double(b[i])).epsilon(1e-5));
}

TEST_CASE("a machine that sums its columns after a dropout equals one that sums at once",
          "[model]") {
  // A rate of 1e-9 drops an element in 2^30.
  Trial with(dropout_job(1e-9F), 1200, 1, 300), without(dropout_job(0.0F), 1200, 1, 300);
  const int threads = GENERATE(1, 3);
  CHECK(with.train(threads)[0].sums.loss ==
        Approx(without.train(threads)[0].sums.loss).epsilon(1e-6));
  for (size_t v = 0; v < with.gradients.size(); ++v) {
    for (size_t i = 0; i < with.gradients[v].size(); ++i)
      CHECK(std::abs(with.gradients[v][i] - without.gradients[v][i]) < 1e-5F);
  }
}
