// Cross, dot and dropout layers and activations, compared with golden_layers.py and with central
// differences.
#include <cmath>

#include "shared/model/activation.h"
#include "shared/model/dot.h"
#include "shared/model/norm.h"
#include "tests/shared/model/golden_check.h"
#include "tests/shared/model/golden_layers.h"

using namespace downpour;
using namespace downpour::model;

namespace {

constexpr const char* kAll[] = {"relu", "sigmoid", "leaky_relu", "gelu", "silu", "tanh"};

/// The model of golden_layers.py. Each activation is used by a dense layer and as a layer.
Job golden_job() {
  std::vector<std::string> top = {"drop", "low", "dot", "norm"};
  std::vector<LayerSpec> layers = {
      {.name = "emb", .type = "embedding", .inputs = {"a", "b"}, .dim = 3, .table = "shared"},
      {.name = "cross", .type = "cross", .inputs = {"emb", "x"}, .depth = 2},
      {.name = "drop", .type = "dropout", .inputs = {"cross"}, .dropout = 0.4F},
      {.name = "low", .type = "cross", .inputs = {"emb", "x"}, .depth = 1, .rank = 2},
      {.name = "dot", .type = "dot", .inputs = {"emb", "x"}, .dim = 3},
      {.name = "norm", .type = "layer_norm", .inputs = {"emb", "x"}}};
  for (const char* name : kAll) {
    const std::string dense = std::string("d_") + name, after = std::string("a_") + name;
    layers.push_back(
        {.name = dense, .type = "dense", .inputs = {"emb", "x"}, .units = {2}, .last = name});
    layers.push_back({.name = after, .type = name, .inputs = {dense}});
    top.push_back(dense);
    top.push_back(after);
  }
  layers.push_back({.name = "top", .type = "dense", .inputs = top, .units = {1}});
  Job job =
      make_job({key_field("a"), key_field("b"), number_field("x", 3), number_field("label")},
               layers, {{.name = "click", .input = "top", .loss = "logistic", .target = "label"}});
  job.seed = 11;
  return job;
}

std::string layers_error(std::vector<LayerSpec> layers) {
  const auto built =
      Graph::build(make_job({key_field("k"), number_field("x", 4), number_field("y")}, layers,
                            {{.name = "o", .input = "a", .loss = "squared", .target = "y"}}));
  REQUIRE_FALSE(built);
  return built.error().where + ": " + built.error().what + " [" + built.error().hint + "]";
}

}  // namespace

TEST_CASE("cross, dot, dropout, layer_norm and all activations match the golden loss and gradients",
          "[model][numeric]") {
  namespace golden = golden_layers;
  const int threads = GENERATE(1, 2);
  Trial trial(golden_job(), uint32_t(golden::kLabels.size()), 1, 4);
  trial.batch.id = {2, 5, 7};
  trial.batch.bags[0].keys = golden::kKeysA;
  trial.batch.bags[1].keys = golden::kKeysB;
  trial.column("x").values = golden::kNumbers;
  trial.column("label").values = golden::kLabels;
  set_weights(trial, golden::kVariables);
  size_t v = 0;
  for (const TableSpec& table : trial.graph->tables())
    for (const VariableSpec& variable : table.table_variables)
      CHECK(variable.name == golden::kVariables[v++].name);
  const BatchMetrics metrics = trial.train(threads);
  CHECK(metrics[0].sums.loss / metrics[0].sums.weight == Approx(golden::kLoss).epsilon(1e-6));
  // Sums of products of about 10 factors and terms of size about 1.
  check_gradients(trial, golden::kVariables, 5e-7);
  check_predictions(trial, golden::kPredictions);
}

TEST_CASE("gradients of cross networks with both kinds of kernels, which other layers read, too",
          "[model][numeric]") {
  const uint32_t rank = GENERATE(0U, 3U);
  const bool bias = GENERATE(true, false);
  Job job = make_job(
      {bag_field("f"), key_field("k"), number_field("x", 2), number_field("label")},
      {{.name = "emb", .type = "embedding", .inputs = {"f", "k"}, .dim = 3},
       {.name = "cross",
        .type = "cross",
        .inputs = {"x", "emb"},
        .bias = bias,
        .depth = 3,
        .rank = rank},
       {.name = "numbers", .type = "cross", .inputs = {"x"}, .depth = 1},
       {.name = "tower", .type = "dense", .inputs = {"x", "emb"}, .units = {4}, .last = "sigmoid"},
       {.name = "top", .type = "dense", .inputs = {"tower", "cross", "numbers"}, .units = {1}}},
      {{.name = "y", .input = "top", .loss = "logistic", .target = "label"}});
  Trial trial(job, 9, 4, 7);
  for (auto& variable : trial.values) {
    for (float& v : variable) v *= 0.6F;  // third powers have large third derivatives
  }
  check_gradients(trial);
}

TEST_CASE("gradients of inner products, of any dim, whose inputs other layers read, too",
          "[model][numeric]") {
  const uint32_t dim = GENERATE(1U, 3U, 8U, 16U);
  CAPTURE(dim);
  Job job = make_job(
      {bag_field("f"), key_field("k"), number_field("x", 2), number_field("label")},
      {{.name = "emb", .type = "embedding", .inputs = {"f", "k"}, .dim = dim},
       {.name = "bottom", .type = "dense", .inputs = {"x"}, .units = {dim}, .last = "sigmoid"},
       {.name = "dot", .type = "dot", .inputs = {"bottom", "emb"}, .dim = dim},
       {.name = "top", .type = "dense", .inputs = {"bottom", "dot"}, .units = {1}}},
      {{.name = "y", .input = "top", .loss = "logistic", .target = "label"}});
  Trial trial(job, 9, 4, 7);
  for (auto& variable : trial.values) {
    for (float& v : variable) v *= 0.6F;
  }
  check_gradients(trial);
}

TEST_CASE("inner products and their gradients equal their definition, for any vectors and dim",
          "[model][numeric]") {
  Rng rng(7);
  const auto [vectors, dim] = GENERATE(table<size_t, uint32_t>({{2, 1},
                                                                {2, 16},
                                                                {3, 5},
                                                                {3, 33},
                                                                {4, 16},
                                                                {5, 8},
                                                                {17, 4},
                                                                {18, 7},
                                                                {27, 1},
                                                                {27, 5},
                                                                {27, 16},
                                                                {27, 33},
                                                                {33, 32},
                                                                {70, 5},
                                                                {70, 16},
                                                                {70, 64},
                                                                {kVectorsMax, 33}}));
  CAPTURE(vectors, dim);
  const size_t width = vectors * dim, pairs = pairs_of(vectors), stride = pairs + 3;
  std::vector<float> x(2 * width), out(2 * stride, 7.0F), to(2 * width, 3.0F);
  for (float& v : x) v = float(rng.normal());
  dot_forward({x.data(), width}, 2, vectors, dim, {out.data(), stride});
  std::vector<float> d(2 * stride);
  for (float& v : d) v = float(rng.normal());
  dot_backward({x.data(), width}, {d.data(), stride}, 2, vectors, dim, false, {to.data(), width});
  dot_backward({x.data(), width}, {d.data(), stride}, 2, vectors, dim, true, {to.data(), width});
  double worst = 0, worst_gradient = 0;
  for (size_t r = 0; r < 2; ++r) {
    const float* const row = x.data() + r * width;
    std::vector<double> gradient(width, 0.0);
    size_t at = r * stride;
    for (size_t i = 0; i < vectors; ++i) {
      for (size_t j = 0; j < i; ++j, ++at) {
        double sum = 0;
        for (size_t k = 0; k < dim; ++k) {
          sum += double(row[i * dim + k]) * double(row[j * dim + k]);
          gradient[i * dim + k] += double(d[at]) * double(row[j * dim + k]);
          gradient[j * dim + k] += double(d[at]) * double(row[i * dim + k]);
        }
        worst = std::max(worst, std::abs(double(out[at]) - sum));
      }
    }
    CHECK(std::count(out.begin() + ptrdiff_t(at), out.begin() + ptrdiff_t((r + 1) * stride),
                     7.0F) == 3);  // writes only the pairs
    for (size_t k = 0; k < width; ++k)
      worst_gradient =
          std::max(worst_gradient, std::abs(double(to[r * width + k]) - 2 * gradient[k]));
  }
  CHECK(worst < 1e-6 * double(dim) + 1e-5);
  CHECK(worst_gradient < 1e-6 * double(vectors) + 1e-5);
}

TEST_CASE("gradients of layer normalization, of numbers, of a layer, and of both",
          "[model][numeric]") {
  Job job =
      make_job({number_field("x", 3), key_field("k"), number_field("label")},
               {{.name = "emb", .type = "embedding", .inputs = {"k"}, .dim = 4},
                {.name = "plain", .type = "layer_norm", .inputs = {"x"}},
                {.name = "deep", .type = "dense", .inputs = {"emb", "plain"}, .units = {5}},
                {.name = "norm", .type = "layer_norm", .inputs = {"deep"}},
                {.name = "both", .type = "layer_norm", .inputs = {"x", "norm", "emb"}},
                {.name = "top", .type = "dense", .inputs = {"both", "norm", "deep"}, .units = {1}}},
               {{.name = "y", .input = "top", .loss = "logistic", .target = "label"}});
  Trial trial(job, 9, 4);
  check_gradients(trial);
}

TEST_CASE("a layer normalization before a layer with rows keeps its own variables",
          "[model][numeric]") {
  Job job = make_job({number_field("x", 3), key_field("k"), number_field("label")},
                     {{.name = "norm", .type = "layer_norm", .inputs = {"x"}},
                      {.name = "deep", .type = "dense", .inputs = {"norm"}, .units = {1}},
                      {.name = "wide", .type = "linear", .inputs = {"k"}},
                      {.name = "logit", .type = "add", .inputs = {"deep", "wide"}}},
                     {{.name = "y", .input = "logit", .loss = "logistic", .target = "label"}});
  Trial trial(job, 9, 4);
  check_gradients(trial);
}

TEST_CASE("layer normalization gives a record the mean 0 and the variance 1", "[model]") {
  std::vector<float> x(50), y(50), zeros(50, 0.0F);
  Rng rng(3);
  for (float& v : x) v = 1000.0F + 3.0F * float(rng.normal());
  normalize({x.data(), 50}, 1, 50, zeros.data(), zeros.data(), {y.data(), 50});
  double sum = 0, squares = 0;
  for (const float v : y) sum += double(v), squares += double(v) * double(v);
  CHECK(std::abs(sum / 50) < 1e-4);
  CHECK(squares / 50 == Approx(1).epsilon(1e-3));
  std::fill(x.begin(), x.end(), 7.0F);  // equal columns
  normalize({x.data(), 50}, 1, 50, zeros.data(), zeros.data(), {y.data(), 50});
  CHECK(y == zeros);
}

TEST_CASE("gradients of every activation, in a dense layer and as a layer", "[model][numeric]") {
  const std::string name = GENERATE("leaky_relu", "gelu", "silu", "tanh", "sigmoid");
  CAPTURE(name);
  Job job = make_job({number_field("x", 3), number_field("label")},
                     {{.name = "mlp",
                       .type = "dense",
                       .inputs = {"x"},
                       .units = {5, 4},
                       .activation = name,
                       .last = name},
                      {.name = "more", .type = name, .inputs = {"mlp", "x"}},
                      {.name = "top", .type = "dense", .inputs = {"more", "mlp"}, .units = {1}}},
                     {{.name = "y", .input = "top", .loss = "logistic", .target = "label"}});
  Trial trial(job, 9, 4);
  check_gradients(trial);
}

TEST_CASE("activations are finite and monotone far from 0", "[model]") {
  for (const ActivationInfo& info : kActivations) {
    CAPTURE(std::string(info.name));
    const std::vector<float> x = {-3e38F, -1e4F, -90.0F, 0.0F, 90.0F, 1e4F};
    std::vector<float> y(x.size()), slope(x.size()), ones(x.size(), 1.0F);
    activate({x.data(), 6}, {y.data(), 6}, 1, 6, info.activation);
    for (const float v : y) CHECK(std::isfinite(v));
    CHECK(std::is_sorted(y.begin() + 1, y.end()));
    if (info.activation == Activation::kNone) continue;
    activate_backward({ones.data(), 6}, {info.needs_input ? x.data() : y.data(), 6},
                      {slope.data(), 6}, 1, 6, info.activation, false);
    for (size_t i = 1; i < 6; ++i) CHECK(std::isfinite(slope[i]));
  }
}

TEST_CASE("new layers give the same bits for any number of threads", "[model]") {
  Trial one(golden_job(), 2900, 1, 700);
  const BatchMetrics metrics = one.train(1, true);
  for (const int threads : {2, 3, 7}) {
    Trial many(golden_job(), 2900, 1, 700);
    CHECK(many.train(threads, true) == metrics);
    CHECK(many.gradients == one.gradients);
  }
}

TEST_CASE("a cross or dot layer with unsuitable widths is rejected with its place", "[model]") {
  using Catch::Contains;
  CHECK_THAT(layers_error({{.name = "c", .type = "cross", .inputs = {"x"}, .rank = 4},
                           {.name = "a", .type = "dense", .inputs = {"c"}, .units = {1}}}),
             Contains("(c)") && Contains("rank is 4, but its inputs have 4 columns"));
  CHECK_THAT(layers_error({{.name = "a", .type = "dot", .inputs = {"x"}, .dim = 3}}),
             Contains("(a)") && Contains("an input has 4 columns, but dim is 3"));
  CHECK_THAT(layers_error({{.name = "a", .type = "dot", .inputs = {"x"}, .dim = 4}}),
             Contains("1 vectors of 4 columns, but it needs 2 to 1024"));
}
