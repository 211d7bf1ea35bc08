#include <algorithm>
#include <cmath>

#include <catch2/catch.hpp>

#include "tests/shared/model/support.h"

using namespace downpour;
using namespace downpour::model;

namespace {

std::vector<std::string> variable_names(const Graph& graph) {
  std::vector<std::string> names;
  for (const TableSpec& table : graph.tables()) {
    for (const VariableSpec& variable : table.table_variables) names.push_back(variable.name);
  }
  return names;
}

/// Returns the text of the error with its place and hint.
std::string build_error(const Job& job) {
  const auto built = Graph::build(job);
  REQUIRE_FALSE(built);
  CHECK(built.error().code == ErrorCode::kConfig);
  return built.error().where + ": " + built.error().what + " [" + built.error().hint + "]";
}

}  // namespace

TEST_CASE("wide weights and a shared embedding over the same fields share one table", "[model]") {
  auto graph = Graph::build(wide_deep_job());
  REQUIRE(graph);
  const Graph& g = **graph;
  CHECK(variable_names(g) ==
        std::vector<std::string>{"wide/weights", "emb/table", "wide/bias", "wide/kernel",
                                 "tower/0/kernel", "tower/0/bias", "tower/1/kernel", "tower/1/bias",
                                 "tower/2/kernel", "tower/2/bias"});
  CHECK(g.tables()[0].kind == TableKind::kEmbedding);
  CHECK(g.tables()[0].table_variables[0].dim == 1);
  CHECK(g.tables()[0].table_variables[1].dim == 4);
  CHECK(g.inputs().tables == std::vector<TableId>{TableId{0}});
  CHECK(g.inputs().bags == std::vector<BagInput>{{"a", 0}, {"b", 0}});
  CHECK(g.inputs().floats == std::vector<FloatInput>{{"x", 1}, {"y", 2}, {"label", 1}});
  CHECK(g.tables()[3].table_variables[0].shape == std::vector<uint32_t>{8 + 3, 5});
  CHECK(g.output_widths() == std::vector<uint32_t>{1});
}

TEST_CASE("the numbered keys of a field are not those of another field in the same table",
          "[model]") {
  const auto bags_of = [](const std::string& table) {
    Job job = wide_deep_job();
    std::ranges::find(job.data.fields, "a", &FieldSpec::name)->transform = {
        ops::Vocabulary{.words = {"x", "y"}}};
    job.model.layers[1].table = table;
    return (*Graph::build(job))->inputs().bags;
  };
  // A hash contains the field's name.
  const std::vector<BagInput> apart = bags_of("by_field");
  REQUIRE(apart.size() == 2);
  CHECK(apart[0].field == "a");
  CHECK(apart[0].salt != 0);
  CHECK(apart[1] == BagInput{"b", 0});
  // The wide weights are apart, the embedding on purpose not.
  const std::vector<BagInput> shared = bags_of("shared");
  REQUIRE(shared.size() == 4);
  CHECK(shared[0] == apart[0]);
  CHECK(shared[2] == BagInput{"a", 1});
  // With a table per field there is nothing to keep apart.
  CHECK(bags_of("")[2] == BagInput{"a", 1});
}

TEST_CASE("in mode mixed sparse tables and dense variables are in different groups", "[model]") {
  Job job = wide_deep_job();
  job.train.mode = TrainMode::kMixed;
  job.train.replicas = 2;
  auto graph = Graph::build(job);
  REQUIRE(graph);
  for (const TableSpec& table : (*graph)->tables())
    CHECK(table.group ==
          (table.kind == TableKind::kEmbedding ? RowGroup::kAsync : RowGroup::kSync));
}

TEST_CASE(
    "in mode mixed a worker finishes the gradients of sparse tables as in mode async, and "
    "those of dense variables as in mode sync",
    "[model]") {
  Job job = wide_deep_job();
  job.clip.value = 0.002F;
  const auto gradients_of = [&](TrainMode mode) {
    job.train.mode = mode;
    job.train.replicas.reset();
    if (traits_of(mode).has_replicas) job.train.replicas = 2;
    Trial trial(job, 50, 7);
    trial.train();
    return trial;
  };
  const Trial mixed = gradients_of(TrainMode::kMixed), sync = gradients_of(TrainMode::kSync),
              async = gradients_of(TrainMode::kAsync);
  size_t v = 0, limited = 0;
  for (const TableSpec& table : mixed.graph->tables()) {
    const bool sparse = table.kind == TableKind::kEmbedding;
    for (size_t m = 0; m < table.table_variables.size(); ++m, ++v) {
      const std::vector<float>& wanted = sparse ? async.gradients[v] : sync.gradients[v];
      REQUIRE(mixed.gradients[v].size() == wanted.size());
      for (size_t i = 0; i < wanted.size(); ++i) {
        CHECK(mixed.gradients[v][i] == Approx(wanted[i]).epsilon(1e-4).margin(1e-7));
        limited += sparse && std::abs(wanted[i]) == job.clip.value ? 1 : 0;
      }
    }
  }
  CHECK(limited > 0);
}

TEST_CASE("without table = \"shared\" every field of an embedding has its own table", "[model]") {
  Job job = wide_deep_job();
  job.model.layers[1].table = "";
  auto graph = Graph::build(job);
  REQUIRE(graph);
  CHECK((*graph)->inputs().tables.size() == 3);
  CHECK((*graph)->inputs().bags == std::vector<BagInput>{{"a", 0}, {"b", 0}, {"a", 1}, {"b", 2}});
  CHECK((*graph)->tables()[1].name == "emb/a");
}

TEST_CASE("a variable gets the optimizer of the first matching rule", "[model]") {
  Job job = wide_deep_job();
  job.optimizer.type = OptimizerType::kAdagrad;
  job.optimizer_rules = {{"wide/*", {.type = OptimizerType::kFtrl}},
                         {"*/bias", {.type = OptimizerType::kSgd}}};
  auto graph = Graph::build(job);
  REQUIRE(graph);
  const auto& tables = (*graph)->tables();
  CHECK(tables[0].table_variables[0].optimizer.type == OptimizerType::kFtrl);
  CHECK(tables[0].table_variables[1].optimizer.type == OptimizerType::kAdagrad);
  CHECK(tables[1].table_variables[0].optimizer.type == OptimizerType::kFtrl);  // wide/bias
  CHECK(tables[4].table_variables[0].optimizer.type == OptimizerType::kSgd);   // tower/0/bias
}

TEST_CASE("a rule of an optimizer that matches no variable is an error", "[model]") {
  Job job = wide_deep_job();
  job.optimizer_rules = {{.variables = "widee/*", .optimizer = {}}};
  CHECK(
      build_error(job).starts_with("optimizer.rules[0].variables: no variable matches `widee/*` "
                                   "[the variables are wide/weights, emb/table, wide/bias"));
}

TEST_CASE("dense variables have Adagrad where embeddings have row-wise Adagrad", "[model]") {
  Job job = wide_deep_job();
  job.optimizer = {.type = OptimizerType::kRowwiseAdagrad, .initial_accumulator = 0.25F};
  job.optimizer_rules = {{"wide/*", {.type = OptimizerType::kRowwiseAdagrad, .epsilon = 0.5F}}};
  auto graph = Graph::build(job);
  REQUIRE(graph);
  for (const TableSpec& table : (*graph)->tables()) {
    for (const VariableSpec& variable : table.table_variables) {
      INFO(variable.name);
      OptimizerSpec want =
          variable.name.starts_with("wide/") ? job.optimizer_rules[0].optimizer : job.optimizer;
      if (table.kind == TableKind::kDense) want.type = OptimizerType::kAdagrad;
      CHECK(variable.optimizer == want);
    }
  }
  CHECK((*graph)->tables().back().kind == TableKind::kDense);
}

TEST_CASE("initial values: zero for linear, He before relu, Glorot otherwise, or the job's init",
          "[model]") {
  Job job = wide_deep_job();
  job.model.layers[1].init = InitSpec{InitType::kNormal, 0.01F};
  auto graph = Graph::build(job);
  REQUIRE(graph);
  const auto& tables = (*graph)->tables();
  CHECK(tables[0].table_variables[0].init == InitSpec{});
  CHECK(tables[0].table_variables[1].init == InitSpec{InitType::kNormal, 0.01F});
  CHECK(tables[3].table_variables[0].init == InitSpec{InitType::kUniform, std::sqrt(6.0F / 11)});
  CHECK(tables[7].table_variables[0].init == InitSpec{InitType::kUniform, std::sqrt(6.0F / 4)});
  CHECK(tables[8].table_variables[0].init == InitSpec{});
}

TEST_CASE("each float field is in the layout once: inputs, then targets, then weights", "[model]") {
  Job job =
      make_job({number_field("w"), number_field("t"), number_field("x", 2), number_field("i")},
               {{.name = "a", .type = "dense", .inputs = {"x", "i"}, .units = {1}},
                {.name = "b", .type = "dense", .inputs = {"i", "x"}, .units = {1}}},
               {{.name = "p", .input = "a", .loss = "squared", .target = "t", .weights = "w"},
                {.name = "q", .input = "b", .loss = "squared", .target = "i", .weights = "w"}});
  auto graph = Graph::build(job);
  REQUIRE(graph);
  CHECK((*graph)->inputs().floats ==
        std::vector<FloatInput>{{"x", 2}, {"i", 1}, {"t", 1}, {"w", 1}});
}

TEST_CASE("int64 fields are numbers, or keys if they have a hash or identity transform",
          "[model]") {
  FieldSpec age = number_field("age");
  age.type = FieldType::kInt64;
  FieldSpec id = age;
  id.name = "id";
  id.transform = {ops::Hash{.buckets = 10}};
  FieldSpec label = key_field("label");
  label.positive = {">50K"};
  Job job = make_job({age, id, label}, {{.name = "l", .type = "linear", .inputs = {"age", "id"}}},
                     {{.name = "o", .input = "l", .loss = "logistic", .target = "label"}});
  auto graph = Graph::build(job);
  REQUIRE(graph);
  CHECK((*graph)->inputs().floats == std::vector<FloatInput>{{"age", 1}, {"label", 1}});
  CHECK((*graph)->inputs().bags == std::vector<BagInput>{{"id", 0}});
}

TEST_CASE("an error of a model names the place and what to change", "[model]") {
  using Catch::Contains;
  Job job = wide_deep_job();
  auto& layers = job.model.layers;
  auto& output = job.model.outputs[0];

  SECTION("widths that do not add") {
    layers[3].inputs = {"wide", "emb"};
    CHECK_THAT(build_error(job), Contains("(logit)") && Contains("1 and 8"));
  }
  SECTION("a layer that nothing reads") {
    layers[3].inputs = {"tower"};
    CHECK_THAT(build_error(job), Contains("model.layers[0] (wide)") &&
                                     Contains("no layer or output reads this layer"));
  }
  SECTION("a layer with the name of a field") {
    layers[2].name = "x";
    CHECK_THAT(build_error(job), Contains("a field already has this name"));
  }
  SECTION("numbers out of range") {
    layers[1].dim = 0;
    CHECK_THAT(build_error(job), Contains("dim must be"));
    layers[1].dim = 4;
    layers[2].units = {5, 0};
    CHECK_THAT(build_error(job), Contains("units must be"));
  }
  SECTION("a field with an invalid shape") {
    job.data.fields[3].shape = {2, 0};
    CHECK_THAT(build_error(job), Contains("'y'") && Contains("shape"));
    job.data.fields[3].shape = {1 << 20, 1 << 20, 1 << 20, 1 << 20};
    CHECK_THAT(build_error(job), Contains("'y'"));
  }
  SECTION("output: loss, target, weights") {
    output.loss = "softmax_cross_entropy";
    CHECK_THAT(build_error(job), Contains("model.outputs[0] (click)") &&
                                     Contains("softmax needs one column per class, but '"));
    output.loss = "logistic";
    output.target = "y";
    CHECK_THAT(build_error(job), Contains("has 1 columns, but target 'y' has 2"));
    output.target = "label";
    output.weights = "y";
    CHECK_THAT(build_error(job), Contains("' must be one number per record"));
    output.weights = "";
    output.weight = -1.0F;
    CHECK_THAT(build_error(job), Contains("its weight must be finite and at least 0"));
  }
}

TEST_CASE("top_k_accuracy of no more than k classes is refused wherever a job names it",
          "[model]") {
  Job job = make_job(
      {number_field("x"), number_field("label")},
      {{.name = "mlp", .type = "dense", .inputs = {"x"}, .units = {3}}},
      {{.name = "kind", .input = "mlp", .loss = "softmax_cross_entropy", .target = "label"}});
  job.eval.metrics = {"top_k_accuracy"};
  CHECK_THAT(build_error(job), Catch::Contains("top_k_accuracy with eval.top_k = 5 is always 1"));
  job.eval.top_k = 2;
  CHECK(Graph::build(job));
}

TEST_CASE("a model of variables reads all numbers, and the rows of its fields", "[model]") {
  Job job = make_job({key_field("a"), key_field("b"), number_field("x"), number_field("y", 2),
                      number_field("label"), number_field("w")},
                     {}, {{.name = "p", .loss = "logistic", .target = "label", .weights = "w"}});
  job.model.variables = {{.name = "kernel", .shape = {3, 5}},
                         {.name = "rows", .fields = {"a", "b"}, .dim = 4},
                         {.name = "wide", .fields = {"b", "a"}, .dim = 1, .init = InitSpec{}},
                         {.name = "bias", .shape = {5}}};
  const auto graph = Graph::build(job);
  REQUIRE(graph);
  const Graph& g = **graph;
  CHECK(g.is_custom());
  CHECK(variable_names(g) == std::vector<std::string>{"rows", "wide", "kernel", "bias"});
  CHECK(g.tables()[0].table_variables.size() == 2);  // the same fields, so the same keys
  CHECK(g.tables()[0].table_variables[0].init == InitSpec{InitType::kUniform, 0.05F});
  CHECK(g.tables()[1].table_variables[0].init.scale == float(std::sqrt(6.0 / 8)));
  CHECK(g.tables()[2].table_variables[0].init == InitSpec{});
  CHECK(g.inputs().bags == std::vector<BagInput>{{"a", 0}, {"b", 0}});
  CHECK(g.inputs().floats == std::vector<FloatInput>{{"x", 1}, {"y", 2}, {"label", 1}, {"w", 1}});
  CHECK(g.output_widths() == std::vector<uint32_t>{1});

  job.model.outputs[0].loss = "softmax_cross_entropy";
  CHECK_THAT(build_error(job), Catch::Contains("set width to the number of classes"));
  job.model.outputs[0].width = 7;
  CHECK((*Graph::build(job))->output_widths() == std::vector<uint32_t>{7});
  job.model.variables[0].shape = {1U << 20, 1U << 20, 1U << 20, 1U << 20};
  CHECK_THAT(build_error(job), Catch::Contains("variable `kernel` has more than"));
}

TEST_CASE("metrics of a model of variables come from the predictions in the batch", "[model]") {
  Job job = make_job({number_field("x"), number_field("label"), number_field("w")}, {},
                     {{.name = "p", .loss = "logistic", .target = "label", .weights = "w"}});
  job.model.variables = {{.name = "v", .shape = {2}}};
  job.clip.norm = 1;
  const auto graph = Graph::build(job);
  REQUIRE(graph);
  Batch batch;
  batch.records = 3;
  batch.floats = {{1, {0, 0, 0}}, {1, {1, 0, 1}}, {1, {1, 2, 0}}, {1, {2, 1, 5}}};
  std::vector<float> values(2), gradient = {3, 4};
  const std::vector<VariableView> views = {{values.data(), gradient.data()}};
  const auto workspace = (*graph)->make_workspace();
  std::vector<std::vector<float>> predictions;
  BatchMetrics metrics;
  (*graph)->forward(batch, views, *workspace, 1, predictions, &metrics);
  CHECK(metrics[0].sums.weight == 3);
  CHECK(metrics[0].sums.loss == Approx(std::log1p(std::exp(-2.0)) + 2 * std::log1p(std::exp(1.0))));
  CHECK(metrics[0].sums.correct == 1);
  (*graph)->finish_custom(batch, views);
  CHECK(gradient == std::vector<float>{0.6F, 0.8F});

  job.clip = {};
  job.train.mode = TrainMode::kSync;
  job.train.replicas = 2;
  job.train.reduction = "mean";
  gradient = {3, 4};
  (*Graph::build(job))->finish_custom(batch, views);  // the ps divide by the weight of the step
  CHECK(gradient == std::vector<float>{9, 12});
}
