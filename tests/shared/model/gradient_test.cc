// Every backward pass, compared with central differences of the forward pass.
#include <cmath>

#include "tests/shared/model/support.h"

using namespace downpour;
using namespace downpour::model;

TEST_CASE("gradients of Wide & Deep with a shared table", "[model][numeric]") {
  Trial trial(wide_deep_job(), 9, 5);
  check_gradients(trial);
}

TEST_CASE("gradients of bags: sum, mean, empty bags, values, and separate tables",
          "[model][numeric]") {
  const char* pool = GENERATE("sum", "mean");
  Job job = make_job(
      {bag_field("f"), bag_field("g"), key_field("k"), number_field("label")},
      {{.name = "wide", .type = "linear", .inputs = {"f", "g"}, .bias = false},
       {.name = "emb", .type = "embedding", .inputs = {"f", "g", "k"}, .dim = 3, .pool = pool},
       {.name = "top",
        .type = "dense",
        .inputs = {"emb"},
        .units = {4, 1},
        .activation = "sigmoid"},
       {.name = "logit", .type = "add", .inputs = {"wide", "top"}}},
      {{.name = "y", .input = "logit", .loss = "logistic", .target = "label"}});
  Trial trial(job, 11, 3);
  check_gradients(trial);
}

TEST_CASE("gradients through a piecewise-linear encoding, of fields and of a layer",
          "[model][numeric]") {
  Job job = make_job(
      {number_field("x", 2), number_field("y"), number_field("label")},
      {{.name = "share", .type = "dense", .inputs = {"x"}, .units = {3}, .last = "sigmoid"},
       {.name = "parts", .type = "piecewise", .inputs = {"y", "share"}, .bins = 4},
       {.name = "top", .type = "dense", .inputs = {"parts", "x"}, .units = {1}}},
      {{.name = "value", .input = "top", .loss = "squared", .target = "label"}});
  Trial trial(job, 9, 1);
  check_gradients(trial);
}

TEST_CASE("an output's offset and scale: predictions, loss, and a gradient in units of the scale",
          "[model][numeric]") {
  const auto job_with = [](const char* loss, float offset, float scale) {
    return make_job({number_field("x", 3), number_field("label")},
                    {{.name = "top", .type = "dense", .inputs = {"x"}, .units = {1}}},
                    {{.name = "value",
                      .input = "top",
                      .loss = loss,
                      .target = "label",
                      .offset = {offset},
                      .scale = {scale}}});
  };
  Trial plain(job_with("squared", 0, 1), 40, 1), scaled(job_with("squared", 7, 10), 40, 1);
  for (float& y : scaled.column("label").values) y = 7 + 10 * y;
  const BatchMetrics small = plain.train(), large = scaled.train();
  CHECK(large[0].sums.loss == Approx(100 * small[0].sums.loss).epsilon(1e-5));
  CHECK(large[0].sums.squared_error == Approx(100 * small[0].sums.squared_error).epsilon(1e-5));
  for (size_t i = 0; i < 3; ++i)
    CHECK(double(scaled.gradients[0][i]) == Approx(double(plain.gradients[0][i])).epsilon(1e-4));
  std::vector<std::vector<float>> got, wanted;
  plain.graph->forward(plain.batch, plain.views, *plain.workspace, 1, wanted, nullptr);
  scaled.graph->forward(scaled.batch, scaled.views, *scaled.workspace, 1, got, nullptr);
  for (size_t i = 0; i < 40; ++i)
    CHECK(double(got[0][i]) == Approx(7 + 10 * double(wanted[0][i])).epsilon(1e-5));

  Trial logistic(job_with("logistic", 1.5F, 1), 40, 1);
  check_gradients(logistic);
  logistic.graph->forward(logistic.batch, logistic.views, *logistic.workspace, 1, got, nullptr);
  CHECK(double(got[0][0]) == Approx(1 / (1 + std::exp(-1.5 - double(wanted[0][0])))).epsilon(1e-5));
}

/// Returns a job with one output of a linear layer.
Job regression_job(const OutputSpec& output) {
  Job job = make_job({number_field("x", 3), number_field("label")},
                     {{.name = "top", .type = "dense", .inputs = {"x"}, .units = {1}}}, {output});
  return job;
}
OutputSpec regression_output(const char* loss, float scale = 1) {
  return {.name = "value", .input = "top", .loss = loss, .target = "label", .scale = {scale}};
}

TEST_CASE("gradients of the absolute, Huber, quantile and Poisson losses", "[model][numeric]") {
  for (const char* loss : {"absolute", "huber", "quantile", "poisson"}) {
    CAPTURE(loss);
    OutputSpec output = regression_output(loss);
    output.delta = 0.4F;
    output.quantile = 0.9F;
    Trial trial(regression_job(output), 31, 5);
    for (float& y : trial.column("label").values) y = std::abs(y);
    check_gradients(trial);
  }
}

TEST_CASE("values of the regression losses, and gradients that do not depend on the target's unit",
          "[model][numeric]") {
  // For z = 0 and the targets 3 and -0.5: with delta = 1 and quantile = 0.9.
  struct Case {
    const char* loss;
    double wanted;
  };
  for (const auto& [loss, wanted] : {Case{"absolute", 3 + 0.5}, Case{"huber", 2.5 + 0.125},
                                     Case{"quantile", 0.9 * 3 + 0.1 * 0.5}, Case{"poisson", 2}}) {
    CAPTURE(loss);
    OutputSpec output = regression_output(loss);
    output.quantile = 0.9F;
    const bool counts = std::string_view(loss) == "poisson";
    Trial plain(regression_job(output), 2, 1);
    for (auto& variable : plain.values) std::ranges::fill(variable, 0.0F);
    plain.column("label").values = {3, counts ? 1.0F : -0.5F};
    const OutputSums sums = plain.train()[0].sums;
    CHECK(sums.loss == Approx(wanted));
    CHECK(sums.squared_error == Approx(counts ? 4.0 : 9.25));
    if (counts) continue;
    output.scale = {100};
    Trial scaled(regression_job(output), 2, 1);
    for (auto& variable : scaled.values) std::ranges::fill(variable, 0.0F);
    scaled.column("label").values = {300, -50};
    scaled.train();
    for (size_t v = 0; v < plain.gradients.size(); ++v)
      for (size_t i = 0; i < plain.gradients[v].size(); ++i)
        CHECK(double(scaled.gradients[v][i]) == Approx(double(plain.gradients[v][i])));
  }
}

TEST_CASE("the hinge loss has margins as predictions, and labels 0 and 1 as signs",
          "[model][numeric]") {
  Job job = regression_job(regression_output("hinge"));
  Trial trial(job, 31, 5);
  std::vector<float>& labels = trial.column("label").values;
  for (size_t i = 0; i < labels.size(); ++i) labels[i] = float(i % 2);
  check_gradients(trial);
  std::vector<std::vector<float>> margins;
  trial.graph->forward(trial.batch, trial.views, *trial.workspace, 1, margins, nullptr);
  const OutputMetrics metrics = trial.train()[0];
  double loss = 0, correct = 0;
  for (size_t i = 0; i < labels.size(); ++i) {
    const double sign = labels[i] > 0 ? 1 : -1, z = double(margins[0][i]);
    loss += std::max(0.0, 1 - sign * z);
    correct += sign * z > 0 ? 1 : 0;
  }
  CHECK(metrics.sums.loss == Approx(loss));
  CHECK(metrics.sums.correct == correct);
  CHECK(std::ranges::any_of(margins[0], [](float z) { return z < 0 || z > 1; }));

  // A record with a margin of at least 1 has neither a loss nor a gradient.
  for (auto& variable : trial.values) std::ranges::fill(variable, 0.0F);
  std::ranges::fill(labels, 1.0F);
  const size_t bias = trial.values[0].size() == 1 ? 0 : 1;
  REQUIRE(trial.values[bias].size() == 1);
  for (const auto& [z, gradient] : {std::pair{1.5F, 0.0F}, {0.5F, -1.0F}, {-2.0F, -1.0F}}) {
    trial.values[bias][0] = z;
    CHECK(trial.train()[0].sums.loss == Approx(31 * std::max(0.0, 1 - double(z))));
    CHECK(trial.gradients[bias][0] == Approx(gradient));
  }
}

/// Returns the mean loss of smoothed labels, from predictions in float64.
double smoothed_loss(Trial& trial, const std::string& loss, double smoothing) {
  std::vector<std::vector<float>> predictions;
  trial.graph->forward(trial.batch, trial.views, *trial.workspace, 1, predictions, nullptr);
  const size_t records = trial.batch.records, width = predictions[0].size() / records;
  const std::vector<float>& labels = trial.column("label").values;
  double sum = 0;
  for (size_t r = 0; r < records; ++r) {
    for (size_t k = 0; k < width; ++k) {
      const double p = double(predictions[0][r * width + k]);
      if (loss == "logistic") {
        const double y = (1 - smoothing) * double(labels[r * width + k]) + smoothing / 2;
        sum -= (y * std::log(p) + (1 - y) * std::log(1 - p)) / double(width);
      } else {
        const double hot = double(labels[r]) == double(k) ? 1 : 0;
        sum -= ((1 - smoothing) * hot + smoothing / double(width)) * std::log(p);
      }
    }
  }
  return sum / double(records);
}

TEST_CASE("with label smoothing gradients are those of the smoothed loss, and metrics are not",
          "[model][numeric]") {
  struct Case {
    const char* loss;
    uint32_t width, labels;
  };
  for (const auto& [loss, width, labels] :
       {Case{"logistic", 1, 1}, Case{"logistic", 3, 3}, Case{"softmax_cross_entropy", 4, 1}}) {
    CAPTURE(loss, width);
    const double smoothing = 0.2;
    OutputSpec output = regression_output(loss);
    const auto job_of = [&] {
      return make_job({number_field("x", 3), number_field("label", labels)},
                      {{.name = "top", .type = "dense", .inputs = {"x"}, .units = {width}}},
                      {output});
    };
    Trial plain(job_of(), 31, 5);
    const OutputSums wanted = plain.train()[0].sums;
    CHECK(wanted.loss == Approx(31 * smoothed_loss(plain, loss, 0)).epsilon(1e-5));
    output.label_smoothing = float(smoothing);
    Trial trial(job_of(), 31, 5);
    const OutputSums sums = trial.train()[0].sums;
    CHECK(sums.loss == wanted.loss);
    CHECK(sums.correct == wanted.correct);
    CHECK(sums.squared_error == wanted.squared_error);
    CHECK(trial.gradients != plain.gradients);
    const auto gradients = trial.gradients;
    for (size_t v = 0; v < trial.values.size(); ++v) {
      for (size_t i = 0; i < trial.values[v].size(); ++i) {
        float& weight = trial.values[v][i];
        const float before = weight, step = 1e-2F;
        weight = before + step;
        const double above = smoothed_loss(trial, loss, smoothing);
        weight = before - step;
        const double below = smoothed_loss(trial, loss, smoothing);
        weight = before;
        // float32 predictions, and the third derivative times the square of the step
        CHECK(double(gradients[v][i]) ==
              Approx((above - below) / (2 * double(step))).margin(1e-4).epsilon(1e-3));
      }
    }
  }
}

TEST_CASE("gradients are limited by value, by the norm of each variable and by that of all",
          "[model]") {
  const auto job_with = [](const ClipSpec& clip) {
    Job job = regression_job(regression_output("squared"));
    job.clip = clip;
    return job;
  };
  const auto gradients = [&](const ClipSpec& clip) {
    Trial trial(job_with(clip), 16, 1);
    trial.train();
    return trial.gradients;
  };
  const auto norm = [](const std::vector<float>& gradient) {
    double sum = 0;
    for (const float g : gradient) sum += double(g) * double(g);
    return std::sqrt(sum);
  };
  const auto all = gradients({});
  double whole = 0;
  for (const auto& gradient : all) whole += norm(gradient) * norm(gradient);
  whole = std::sqrt(whole);
  const auto global = gradients({.global_norm = float(whole / 4)});
  const auto each = gradients({.norm = float(norm(all[0]) / 2)});
  const auto values = gradients({.value = 0.01F});
  const auto loose = gradients({.value = 1e6F, .norm = 1e6F, .global_norm = 1e6F});
  CHECK(norm(each[0]) == Approx(norm(all[0]) / 2).epsilon(1e-5));
  for (size_t v = 0; v < all.size(); ++v) {
    CHECK(loose[v] == all[v]);
    for (size_t i = 0; i < all[v].size(); ++i) {
      CHECK(double(global[v][i]) == Approx(double(all[v][i]) / 4).epsilon(1e-5));
      CHECK(values[v][i] == std::clamp(all[v][i], -0.01F, 0.01F));
    }
  }
}

TEST_CASE("gradients of a factorization machine: values, empty bags, several fields, any dim",
          "[model][numeric]") {
  const uint32_t dim = GENERATE(1U, 3U, 4U, 8U, 21U, 32U);
  const char* table = GENERATE("", "shared");
  CAPTURE(dim, table);
  Job job = make_job(
      {bag_field("f"), bag_field("g"), key_field("k"), key_field("l"), number_field("label")},
      {{.name = "wide", .type = "linear", .inputs = {"f", "g", "k"}},
       {.name = "pairs", .type = "fm", .inputs = {"f", "g", "k", "l"}, .dim = dim, .table = table},
       {.name = "logit", .type = "add", .inputs = {"wide", "pairs"}}},
      {{.name = "y", .input = "logit", .loss = "logistic", .target = "label"}});
  Trial trial(job, 11, 3, 6);
  // The second derivatives grow with dim, and with them the truncation error.
  for (auto& variable : trial.values) {
    for (float& x : variable) x *= 0.5F;
  }
  check_gradients(trial);
}

TEST_CASE("gradients of rows that two embeddings share", "[model][numeric]") {
  const char* table = GENERATE("", "shared");
  Job job = make_job(
      {bag_field("f"), key_field("k"), number_field("label")},
      {{.name = "emb", .type = "embedding", .inputs = {"f", "k"}, .dim = 3, .table = table},
       {.name = "mean",
        .type = "embedding",
        .inputs = {"k", "f"},
        .dim = 3,
        .pool = "mean",
        .table = "emb"},
       {.name = "top",
        .type = "dense",
        .inputs = {"emb", "mean"},
        .units = {4, 1},
        .activation = "sigmoid"}},
      {{.name = "y", .input = "top", .loss = "logistic", .target = "label"}});
  Trial trial(job, 9, 4, 7);
  CHECK(trial.graph->inputs().tables.size() == (*table == 0 ? 2 : 1));
  check_gradients(trial);
}

TEST_CASE("gradients of rows that a factorization machine and an embedding share",
          "[model][numeric]") {
  const char* table = GENERATE("", "shared");
  Job job = make_job(
      {bag_field("f"), key_field("k"), key_field("l"), number_field("x", 2), number_field("label")},
      {{.name = "wide", .type = "linear", .inputs = {"f", "k", "l", "x"}},
       {.name = "emb",
        .type = "embedding",
        .inputs = {"f", "k", "l"},
        .dim = 4,
        .pool = "mean",
        .table = table},
       {.name = "pairs", .type = "fm", .inputs = {"f", "k", "l"}, .dim = 4, .table = "emb"},
       {.name = "few",
        .type = "fm",
        .inputs = {"l", "f"},
        .dim = 4,
        .units = {2},
        .table = "pairs"},
       {.name = "tower",
        .type = "dense",
        .inputs = {"emb", "x", "few"},
        .units = {5, 1},
        .activation = "sigmoid"},
       {.name = "logit", .type = "add", .inputs = {"wide", "pairs", "tower"}}},
      {{.name = "y", .input = "logit", .loss = "logistic", .target = "label"}});
  Trial trial(job, 9, 4, 7);
  check_gradients(trial);
}

TEST_CASE("gradients of several outputs on a shared trunk, with sample and output weights",
          "[model][numeric]") {
  const char* reduction = GENERATE("mean", "sum");
  Job job = make_job(
      {number_field("u", 3), number_field("v", 2), key_field("k"), number_field("rating"),
       number_field("genre", 3), number_field("class"), number_field("w")},
      {{.name = "emb", .type = "embedding", .inputs = {"k"}, .dim = 2},
       {.name = "trunk",
        .type = "dense",
        .inputs = {"u", "emb", "v"},
        .units = {6},
        .last = "sigmoid"},
       {.name = "both", .type = "concat", .inputs = {"trunk", "emb", "u"}},
       {.name = "bent", .type = "relu", .inputs = {"both"}},
       {.name = "rating_", .type = "dense", .inputs = {"bent"}, .units = {1}},
       {.name = "genre_", .type = "dense", .inputs = {"both"}, .units = {3}},
       {.name = "class_", .type = "linear", .inputs = {"k", "u"}, .units = {4}}},
      {{.name = "r", .input = "rating_", .loss = "squared", .target = "rating", .weights = "w"},
       {.name = "g", .input = "genre_", .loss = "logistic", .target = "genre", .weight = 0.3F},
       {.name = "c",
        .input = "class_",
        .loss = "softmax_cross_entropy",
        .target = "class",
        .weight = 2.0F,
        .weights = "w"}});
  job.train.reduction = reduction;
  Trial trial(job, 8, 21);
  check_gradients(trial);
}

TEST_CASE("gradients of values with several readers: add, concat, sigmoid, two losses",
          "[model][numeric]") {
  Job job = make_job(
      {number_field("u", 3), number_field("t", 3), number_field("s", 3), number_field("w")},
      {{.name = "a", .type = "dense", .inputs = {"u"}, .units = {3}, .bias = false},
       {.name = "b", .type = "sigmoid", .inputs = {"a"}},
       {.name = "c", .type = "add", .inputs = {"a", "b", "a", "u"}},
       {.name = "d", .type = "concat", .inputs = {"c", "a"}},
       {.name = "e", .type = "concat", .inputs = {"d", "b"}},
       {.name = "f", .type = "dense", .inputs = {"e"}, .units = {3}},
       {.name = "g", .type = "dense", .inputs = {"d", "b"}, .units = {3}},
       {.name = "h", .type = "add", .inputs = {"f", "g", "d2"}}},
      {{.name = "one", .input = "h", .loss = "squared", .target = "t"},
       {.name = "two", .input = "h", .loss = "logistic", .target = "s", .weights = "w"}});
  job.model.layers.insert(job.model.layers.begin() + 7, {.name = "d2",
                                                         .type = "dense",
                                                         .inputs = {"d"},
                                                         .units = {3},
                                                         .activation = "relu",
                                                         .last = "relu"});
  Trial trial(job, 6, 8);
  check_gradients(trial);
}

TEST_CASE("gradients of a softmax perceptron on one wide field", "[model][numeric]") {
  Job job = make_job(
      {number_field("x", 20), number_field("label")},
      {{.name = "mlp",
        .type = "dense",
        .inputs = {"x"},
        .units = {17, 5},
        .activation = "sigmoid"}},
      {{.name = "class", .input = "mlp", .loss = "softmax_cross_entropy", .target = "label"}});
  Trial trial(job, 7, 4);
  check_gradients(trial);
}
