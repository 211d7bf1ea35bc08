// Cross layers, compared with central differences.
#include <cmath>

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

TEST_CASE("a cross layer with unsuitable widths is rejected with its place", "[model]") {
  using Catch::Contains;
  CHECK_THAT(layers_error({{.name = "c", .type = "cross", .inputs = {"x"}, .rank = 4},
                           {.name = "a", .type = "dense", .inputs = {"c"}, .units = {1}}}),
             Contains("(c)") && Contains("rank is 4, but its inputs have 4 columns"));
}
