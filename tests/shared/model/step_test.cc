#include <cmath>
#include <limits>

#include "shared/metrics/auc.h"
#include "shared/metrics/metrics.h"
#include "tests/shared/model/support.h"

using namespace downpour;
using namespace downpour::model;

namespace {

Job bag_job() {
  return wide_deep_job(
      {bag_field("f"), key_field("k"), number_field("x", 3), number_field("label")},
      {.inputs = {"f", "k"}, .dim = 5, .pool = "mean"}, {"x"}, {7, 1});
}

/// Fields that share rows, with several weights per key.
Job classes_job() {
  return make_job(
      {key_field("a"), key_field("b"), number_field("class")},
      {{.name = "scores", .type = "linear", .inputs = {"a", "b"}, .units = {3}}},
      {{.name = "o", .input = "scores", .loss = "softmax_cross_entropy", .target = "class"}});
}

}  // namespace

TEST_CASE("train and forward give the same bits for any number of threads", "[model]") {
  for (const Job& job : {wide_deep_job(), bag_job(), classes_job()}) {
    Trial one(job, 2900, 1, 700);
    const BatchMetrics metrics = one.train(1, true);
    for (const int threads : {2, 3, 7}) {
      Trial many(job, 2900, 1, 700);
      CHECK(many.train(threads, true) == metrics);
      CHECK(many.gradients == one.gradients);

      std::vector<std::vector<float>> a, b;
      BatchMetrics ma, mb;
      one.graph->forward(one.batch, one.views, *one.workspace, 1, a, &ma);
      many.graph->forward(many.batch, many.views, *many.workspace, threads, b, &mb);
      CHECK(a == b);
      CHECK(ma == mb);
    }
  }
}

TEST_CASE("a workspace gives the same bits after other batches", "[model]") {
  Trial fresh(wide_deep_job(), 700, 2);
  fresh.train();
  Trial used(wide_deep_job(), 700, 2);
  const auto expected = fresh.gradients;
  const Batch whole = used.batch;
  used.batch = slice(whole, 0, 33);
  used.train(2);
  used.batch = whole;
  used.train();
  CHECK(used.gradients == expected);
}

TEST_CASE(
    "a batch's gradient is the weighted mean of its parts' gradients, not the mean of their means",
    "[model]") {
  Job job = wide_deep_job();
  job.model.outputs[0].weights = GENERATE("", "w");
  Trial trial(job, 600, 3);
  const Batch whole = trial.batch;
  const BatchMetrics all = trial.train();
  const auto expected = trial.gradients;

  std::vector<std::vector<double>> sum;
  for (const auto& g : expected) sum.emplace_back(g.size());
  BatchMetrics merged(1);
  for (const auto& [begin, end] : {std::pair{0U, 100U}, std::pair{100U, 600U}}) {
    trial.batch = slice(whole, begin, end);
    const BatchMetrics part = trial.train();
    merge(merged[0], part[0]);
    for (size_t v = 0; v < sum.size(); ++v) {
      for (size_t i = 0; i < sum[v].size(); ++i) {
        sum[v][i] += double(trial.gradients[v][i]) * part[0].sums.weight;
      }
    }
  }
  CHECK(merged[0].sums.loss == Approx(all[0].sums.loss));
  CHECK(merged[0].sums.weight == Approx(all[0].sums.weight));
  for (size_t v = 0; v < sum.size(); ++v) {
    for (size_t i = 0; i < sum[v].size(); ++i) {
      CHECK(sum[v][i] / all[0].sums.weight ==
            Approx(double(expected[v][i])).margin(1e-6));  // float32 sums of 600 records
    }
  }
}

TEST_CASE("reduction \"sum\" is the mean times the number of records", "[model]") {
  Trial mean(wide_deep_job(), 50, 4);
  mean.train();
  Job job = wide_deep_job();
  job.train.reduction = "sum";
  Trial sum(job, 50, 4);
  sum.train();
  for (size_t v = 0; v < mean.gradients.size(); ++v) {
    for (size_t i = 0; i < mean.gradients[v].size(); ++i) {
      CHECK(sum.gradients[v][i] == Approx(50 * mean.gradients[v][i]).margin(1e-5));
    }
  }
}

TEST_CASE("the counter model adds exactly -1 per record to the gradient of its key", "[model]") {
  // Squared loss at prediction 0 and target 0.5: the gradient is 2 (0 - 0.5) = -1.
  Job job = make_job({key_field("k"), number_field("t")},
                     {{.name = "count", .type = "linear", .inputs = {"k"}, .bias = false}},
                     {{.name = "o", .input = "count", .loss = "squared", .target = "t"}});
  job.train.reduction = "sum";
  Trial trial(job, 1000, 5, 10);
  trial.values[0].assign(10, 0.0F);
  trial.column("t").values.assign(1000, 0.5F);
  trial.train();
  std::vector<float> counts(10);
  for (const uint32_t key : trial.batch.bags[0].keys) counts[key] -= 1.0F;
  CHECK(trial.gradients[0] == counts);
}

TEST_CASE("an empty batch has zero gradients and empty metrics", "[model]") {
  Trial trial(wide_deep_job(), 0, 1);
  const BatchMetrics metrics = trial.train(2, true);
  CHECK(metrics == BatchMetrics(1));
  for (const auto& gradient : trial.gradients) {
    for (const float g : gradient) CHECK(g == 0.0F);
  }
}

TEST_CASE("records of weight 0 count nowhere; without any other records the gradient is 0",
          "[model]") {
  Job job = wide_deep_job();
  job.model.outputs[0].weights = "w";
  Trial trial(job, 40, 6);
  FloatColumn& w = trial.column("w");
  for (uint32_t r = 0; r < 40; ++r) w.values[r] = r < 20 ? 1.0F : 0.0F;
  w.values[39] = std::numeric_limits<float>::quiet_NaN();
  const BatchMetrics weighted = trial.train(1, true);
  const auto gradients = trial.gradients;
  trial.batch = slice(trial.batch, 0, 20);
  const BatchMetrics half = trial.train(1, true);
  CHECK(weighted[0].sums.weight == 20);
  CHECK(weighted[0].sums.loss == Approx(half[0].sums.loss));
  CHECK(weighted[0].auc == half[0].auc);
  for (size_t v = 0; v < gradients.size(); ++v) {
    for (size_t i = 0; i < gradients[v].size(); ++i) {
      CHECK(gradients[v][i] == Approx(trial.gradients[v][i]).margin(1e-7));
    }
  }
  trial.column("w").values.assign(20, 0.0F);
  CHECK(trial.train()[0].sums == OutputSums{});
  for (const auto& gradient : trial.gradients) {
    for (const float g : gradient) CHECK(g == 0.0F);
  }
}

TEST_CASE("predictions are probabilities, and the metrics agree with them", "[model]") {
  Trial trial(wide_deep_job(), 333, 7);
  std::vector<std::vector<float>> predictions;
  BatchMetrics metrics;
  trial.graph->forward(trial.batch, trial.views, *trial.workspace, 1, predictions, &metrics);
  REQUIRE(predictions[0].size() == 333);
  double loss = 0, sum = 0, correct = 0, squared = 0;
  AucHistogram ranking;
  for (size_t r = 0; r < 333; ++r) {
    const double p = double(predictions[0][r]);
    const double y = double(trial.column("label").values[r]);
    loss -= std::log(y > 0.5 ? p : 1 - p);
    sum += p;
    correct += (p > 0.5) == (y > 0.5);
    squared += (p - y) * (p - y);
    ranking.add(float(std::log(p / (1 - p))), float(y));
  }
  CHECK(metrics[0].sums.loss == Approx(loss).epsilon(1e-4));  // 1 - p is computed from a float32 p
  CHECK(metrics[0].sums.prediction == Approx(sum));
  CHECK(metrics[0].sums.correct == correct);
  CHECK(metrics[0].sums.squared_error == Approx(squared).epsilon(1e-5));
  CHECK(compute_metric("auc", metrics[0]).value == Approx(ranking.value()).margin(1e-4));
  CHECK(trial.train(1, true) == metrics);
  CHECK(trial.train(1, false)[0].auc.empty());

  // Without metrics, targets are not read.
  trial.batch.floats.resize(2);
  std::vector<std::vector<float>> again;
  trial.graph->forward(trial.batch, trial.views, *trial.workspace, 1, again, nullptr);
  CHECK(again == predictions);
}

TEST_CASE("extreme logits and targets out of range give no NaN and no write out of bounds",
          "[model]") {
  const float inf = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  Job job =
      make_job({number_field("x"), number_field("label"), number_field("class")},
               {{.name = "a", .type = "linear", .inputs = {"x"}},
                {.name = "b", .type = "linear", .inputs = {"x"}, .units = {3}}},
               {{.name = "o", .input = "a", .loss = "logistic", .target = "label"},
                {.name = "p", .input = "b", .loss = "softmax_cross_entropy", .target = "class"}});
  Trial trial(job, 6, 1);
  trial.column("x").values = {1e4F, -1e4F, 300, -300, 0, 1};
  trial.column("label").values = {0, 1, 2, -1, nan, inf};
  trial.column("class").values = {-1, 3, 1e20F, nan, -inf, inf};
  const BatchMetrics metrics = trial.train(1, true);
  CHECK(std::isfinite(metrics[0].sums.loss));
  CHECK(std::isfinite(metrics[1].sums.loss));
  CHECK(metrics[1].sums.correct == 0);
  CHECK(metrics[1].class_counts == std::vector<uint64_t>{3, 0, 3});
  for (const auto& gradient : trial.gradients) {
    for (const float g : gradient) CHECK(std::isfinite(g));
  }
}
