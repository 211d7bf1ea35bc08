// Cross and dot layers, compared with central differences and their definitions.
#include <cmath>

#include "shared/model/dot.h"
#include "tests/shared/model/support.h"

using namespace downpour;
using namespace downpour::model;

namespace {

std::string layers_error(std::vector<LayerSpec> layers) {
  const auto built =
      Graph::build(make_job({key_field("k"), number_field("x", 4), number_field("y")}, layers,
                            {{.name = "o", .input = "a", .loss = "squared", .target = "y"}}));
  REQUIRE_FALSE(built);
  return built.error().where + ": " + built.error().what + " [" + built.error().hint + "]";
}

}  // namespace

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

TEST_CASE("inner products equal their definition, for any number of vectors and any dim",
          "[model][numeric]") {
  Rng rng(7);
  for (const size_t vectors : {2UL, 3UL, 27UL, 70UL}) {
    for (const uint32_t dim : {1U, 5U, 16U, 33U}) {
      CAPTURE(vectors, dim);
      const size_t width = vectors * dim, pairs = pairs_of(vectors), stride = pairs + 3;
      std::vector<float> x(2 * width), out(2 * stride, 7.0F);
      for (float& v : x) v = float(rng.normal());
      dot_forward({x.data(), width}, 2, vectors, dim, {out.data(), stride});
      for (size_t r = 0; r < 2; ++r) {
        size_t at = r * stride;
        for (size_t i = 0; i < vectors; ++i) {
          for (size_t j = 0; j < i; ++j, ++at) {
            double sum = 0;
            for (size_t k = 0; k < dim; ++k)
              sum += double(x[r * width + i * dim + k]) * double(x[r * width + j * dim + k]);
            CHECK(std::abs(double(out[at]) - sum) < 1e-5);
          }
        }
        CHECK(out[at] == 7.0F);  // writes only the pairs
      }
    }
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
