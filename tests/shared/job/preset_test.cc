#include "tests/shared/job/job_test_support.h"

namespace downpour::test {
namespace {

std::string csv_job_with(const std::string& model) {
  return "data = { source = \"x.csv\", format = \"csv\", header = true, fields = { age = {}, city "
         "= { type = \"string\" }, "
         "y = { type = \"string\", positive = [\"yes\"] } } }\n" +
         model;
}

TEST_CASE("the criteo and wide_deep presets equal the same job written out", "[job][preset]") {
  const Job preset = completed(
      "data = { source = \"d\", format = \"criteo\" }\nmodel = { preset = \"wide_deep\" }\n"
      "optimizer = { type = \"adam\" }\n");
  const Job by_hand = completed(R"(
data.source  = "d"
data.format  = "tsv"
data.columns = ["label", "I1..I13", "C1..C26"]
data.fields."I1..I13" = { type = "float32", default = 0, transform = [
  { op = "clip", min = 0 }, "log1p"] }
data.fields."C1..C26" = { type = "string", default = "", transform = [
  { op = "hash", buckets = 1048576 }] }
data.fields.label     = { type = "float32" }
model.layers = [
  { name = "wide",  type = "linear",    inputs = ["C1..C26", "I1..I13"] },
  { name = "emb",   type = "embedding", inputs = ["C1..C26"], dim = 16, table = "shared" },
  { name = "tower", type = "dense",     inputs = [
    "emb", "I1..I13"], units = [64, 32, 1], activation = "relu" },
  { name = "logit", type = "add",       inputs = ["wide", "tower"] } ]
model.outputs = [{ name = "probability", input = "logit", loss = "logistic", metrics = [
  "auc", "logloss", "calibration"], target = "label" }]
)");
  CHECK(preset.data.columns == by_hand.data.columns);
  CHECK(preset.data.fields == by_hand.data.fields);
  CHECK(preset.model.layers == by_hand.model.layers);
  CHECK(preset.model.outputs == by_hand.model.outputs);
  CHECK(preset.model.options == PresetOptions{});
}

TEST_CASE("a linear preset chooses ftrl and sums unless the job has an optimizer",
          "[job][preset]") {
  for (const char* preset : {"logistic_regression", "linear_regression"}) {
    const std::string text =
        str("data = { source = \"d\", format = \"libsvm\" }\nmodel.preset = \"", preset, "\"\n");
    const Job own = completed(text);
    CHECK(own.optimizer == optimizer_defaults(OptimizerType::kFtrl));
    CHECK(own.train.reduction == "sum");
    CHECK(completed(text + "train.reduction = \"mean\"\n").train.reduction == "mean");
    const Job given = completed(text + "optimizer.type = \"adam\"\n");
    CHECK(given.optimizer == optimizer_defaults(OptimizerType::kAdam));
    CHECK(given.train.reduction == "mean");
  }
}

TEST_CASE("wide_deep sets its own optimizers only if the job has none", "[job][preset]") {
  const std::string text =
      "data = { source = \"d\", format = \"criteo\" }\nmodel = { preset = \"wide_deep\" }\n";
  const Job own = completed(text);
  CHECK(own.optimizer.type == OptimizerType::kAdam);
  REQUIRE(own.optimizer_rules.size() == 2);
  CHECK(own.optimizer_rules[0].variables == "wide/weights");
  CHECK(own.optimizer_rules[0].optimizer.type == OptimizerType::kFtrl);
  CHECK(own.optimizer_rules[1].variables == "emb/*");
  CHECK(own.optimizer_rules[1].optimizer.type == OptimizerType::kAdagrad);
  // Both divide their steps by the gradients so far, and want the sum of the gradients.
  CHECK(own.train.reduction == "sum");
  CHECK(completed(text + "train.reduction = \"mean\"\n").train.reduction == "mean");
  const Job given = completed(text + "optimizer.learning_rate = 0.5\n");
  CHECK(given.train.reduction == "mean");
  CHECK(given.optimizer.type == OptimizerType::kAdam);
  CHECK(given.optimizer_rules.empty());
}

TEST_CASE("deepfm adds a factorization machine that reads the rows of the embedding",
          "[job][preset]") {
  const Job job = completed(
      "data = { source = \"d\", format = \"criteo\" }\nmodel = { preset = \"deepfm\", dim = 4 }\n");
  REQUIRE(job.model.layers.size() == 5);
  const LayerSpec& fm = job.model.layers[2];
  CHECK(fm.type == "fm");
  CHECK(fm.table == "emb");
  CHECK(fm.dim == 4);
  CHECK(fm.inputs == job.model.layers[1].inputs);
  CHECK(job.model.layers[4].inputs == std::vector<std::string>{"wide", "tower", "fm"});
  CHECK(fm.units.empty());
  const Job classes = completed(
      "data = { source = \"d\", format = \"criteo\" }\n"
      "model = { preset = \"deepfm\", loss = \"softmax_cross_entropy\", classes = 3 }\n");
  CHECK(classes.model.layers[2].units == std::vector<uint32_t>{3});
}

TEST_CASE("factorization_machine needs keys, and regularizes them", "[job][preset]") {
  const Job job = completed(
      "data = { source = \"d\", format = \"libsvm\" }\n"
      "model = { preset = \"factorization_machine\" }\n");
  REQUIRE(job.model.layers.size() == 3);
  CHECK(job.model.layers[1].type == "fm");
  CHECK(job.optimizer.type == OptimizerType::kFtrl);
  CHECK(job.optimizer.l2 > 0);
  CHECK(job.train.reduction == "sum");
  const auto what = [](const std::string& option) {
    return error_of(
               "data = { source = \"d\", format = \"libsvm\" }\n"
               "model = { preset = \"factorization_machine\", " +
               option + " }\n")
        .what;
  };
  CHECK(what("bins = 8") == "factorization_machine does not have the option `bins`");
  CHECK(what("units = [8]") == "factorization_machine does not have the option `units`");
  CHECK(what("loss = \"softmax_cross_entropy\"") ==
        "factorization_machine can't have the loss softmax_cross_entropy");
  CHECK(error_of("data = { source = \"d\", format = \"mnist\" }\n"
                 "model = { preset = \"factorization_machine\" }\n")
            .what == "factorization_machine has no inputs that give keys");
}

TEST_CASE("matrix_factorization is a machine over two fields with a squared loss",
          "[job][preset]") {
  const std::string data =
      "data = { source = \"d\", format = \"csv\", fields = { user = { type = \"string\", transform "
      "= "
      "[\"hash\"] }, item = { type = \"string\", transform = [\"hash\"] }, day = {}, label = {} } "
      "}\n";
  const Job job = completed(
      data + "model = { preset = \"matrix_factorization\", inputs = [\"user\", \"item\"] }\n");
  REQUIRE(job.model.layers.size() == 3);
  CHECK(job.model.layers[0].type == "linear");  // the biases
  CHECK(job.model.layers[1].type == "fm");
  CHECK(job.model.layers[1].dim == 16);
  CHECK(job.model.outputs[0].loss == "squared");
  CHECK(job.optimizer.type == OptimizerType::kFtrl);
  CHECK(job.optimizer.l2 > 0);
  const Error all = error_of(data + "model = { preset = \"matrix_factorization\" }\n");
  CHECK(
      all.what ==
      "matrix_factorization takes two inputs that give keys, but the job has 3 inputs, of which 2 "
      "give keys");
  CHECK(completed(data + "model = { preset = \"matrix_factorization\", inputs = [\"user\", "
                         "\"item\"], loss = \"logistic\", dim = 8 }\n")
            .model.outputs[0]
            .loss == "logistic");
}

TEST_CASE("dcn_v2 adds a cross network, with a rank if that is smaller, and a tower",
          "[job][preset]") {
  const std::string data =
      "data = { source = \"d\", format = \"criteo\" }\nmodel = { preset = \"dcn_v2\"";
  const Job job = completed(data + ", dim = 8, units = [20], dropout = 0.2 }\n");
  REQUIRE(job.model.layers.size() == 5);
  const LayerSpec &emb = job.model.layers[0], &cross = job.model.layers[1];
  CHECK(emb.type == "embedding");
  CHECK(cross.type == "cross");
  CHECK(cross.inputs.size() == 1 + 13);
  CHECK(cross.rank == 32);  // 26 * 8 + 13 columns
  CHECK(job.model.layers[2].inputs == std::vector<std::string>{"cross"});
  const LayerSpec& tower = job.model.layers[3];
  CHECK(tower.inputs == cross.inputs);
  CHECK(tower.units == std::vector<uint32_t>{20, 1});
  CHECK(tower.dropout == 0.2F);
  CHECK(job.model.layers[4].inputs == std::vector<std::string>{"crossed", "tower"});
  CHECK(job.model.outputs[0].input == "logit");
  CHECK(job.optimizer_rules.size() == 1);
  CHECK(job.optimizer_rules[0].variables == "emb/*");
  CHECK(job.train.reduction == "sum");
  CHECK(completed(data + ", dim = 4 }\n").model.layers[1].rank == 0);  // 26 * 4 + 13 columns
}

TEST_CASE("dlrm takes inner products of the embeddings and of the numbers' vector",
          "[job][preset]") {
  const Job job = completed(
      "data = { source = \"d\", format = \"criteo\" }\nmodel = { preset = \"dlrm\", dim = 8 }\n");
  REQUIRE(job.model.layers.size() == 4);
  const LayerSpec &bottom = job.model.layers[1], &dot = job.model.layers[2];
  CHECK(bottom.units == std::vector<uint32_t>{64, 8});
  CHECK(bottom.last == "relu");
  CHECK(dot.type == "dot");
  CHECK(dot.dim == 8);
  CHECK(dot.inputs == std::vector<std::string>{"bottom", "emb"});
  CHECK(job.model.layers[3].inputs == std::vector<std::string>{"bottom", "dot"});
  CHECK(job.model.layers[3].units == std::vector<uint32_t>{64, 32, 1});
  // Without numbers, the top reads the embeddings.
  const Job keys = completed(
      "data = { source = \"d\", format = \"criteo\" }\n"
      "model = { preset = \"dlrm\", inputs = [\"C1..C3\"] }\n");
  REQUIRE(keys.model.layers.size() == 3);
  CHECK(keys.model.layers[2].inputs == std::vector<std::string>{"emb", "dot"});
  CHECK(error_of("data = { source = \"d\", format = \"mnist\" }\n"
                 "model = { preset = \"dlrm\" }\n")
            .what == "dlrm has no inputs that give keys");
}

TEST_CASE("the option dropout of a preset goes to its tower, perceptron or machine",
          "[job][preset]") {
  const auto layer = [](const char* format, const std::string& model, size_t index) {
    const Job job = completed(std::string("data = { source = \"d\", format = \"") + format +
                              "\" }\nmodel = { dropout = 0.25, preset = " + model + " }\n");
    return job.model.layers.at(index);
  };
  CHECK(layer("criteo", "\"wide_deep\"", 2).dropout == 0.25F);
  CHECK(layer("criteo", "\"deepfm\"", 3).dropout == 0.25F);
  CHECK(layer("libsvm", "\"factorization_machine\"", 1).dropout == 0.25F);
  CHECK(layer("mnist", "\"softmax_mlp\", units = [20, 10]", 0).dropout == 0.25F);
  CHECK(error_of(small_job("model.dropout = 0.1\n")).what ==
        "logistic_regression does not have the option `dropout`");
  CHECK(error_of("data = { source = \"d\", format = \"criteo\" }\n"
                 "model = { preset = \"wide_deep\", dropout = 1.0 }\n")
            .id == "DP-2106");
}

TEST_CASE("wide_deep for numbers and classes, with bins for quantiles", "[job][preset]") {
  const std::string data =
      "data = { source = \"d\", format = \"csv\", columns = [\"a\", \"b\", \"y\"], fields = { a = "
      "{ "
      "transform = [\"quantile\"] }, b = {}, y = {} } }\n";
  const Job squared = completed(
      data + "model = { preset = \"wide_deep\", target = \"y\", loss = \"squared\", bins = 8 }\n");
  CHECK(squared.model.layers[0].type == "piecewise");
  CHECK(squared.model.layers[0].inputs == std::vector<std::string>{"a"});
  CHECK(squared.model.layers[0].bins == 8);
  CHECK(squared.model.layers[1].inputs == std::vector<std::string>{"b", "piecewise"});
  CHECK(squared.model.outputs[0].offset.open);
  CHECK(squared.model.outputs[0].scale.open);
  CHECK(squared.model.outputs[0].metrics == std::vector<std::string>{"rmse"});
  const std::string classes =
      data + "model = { preset = \"wide_deep\", target = \"y\", loss = \"softmax_cross_entropy\"";
  const Job softmax = completed(classes + ", classes = 3, offset = 0.0 }\n");
  CHECK(softmax.model.layers[0].units == std::vector<uint32_t>{3});
  CHECK(softmax.model.layers[1].units == std::vector<uint32_t>{64, 32, 3});
  CHECK(error_of(classes + " }\n").what == "wide_deep needs the number of classes");
  CHECK(error_of(data + "model = { preset = \"wide_deep\", target = \"y\", classes = 3 }\n").what ==
        "`classes` needs the loss softmax_cross_entropy");
  CHECK(error_of(classes + ", classes = 3, offset = 1.0 }\n").what ==
        "output `class` has an offset, and its loss is softmax_cross_entropy");
  CHECK(error_of(data + "model = { preset = \"wide_deep\", target = \"y\", scale = 2.0 }\n").what ==
        "output `probability` has a scale, and its loss is logistic");
  CHECK(error_of(data + "model = { preset = \"linear_regression\", target = \"y\", bins = 2 }\n")
            .what == "linear_regression does not have the option `bins`");
}

TEST_CASE("standardized numbers have a linear layer of their own", "[job][preset]") {
  const std::string data =
      "data = { source = \"d\", format = \"csv\", columns = [\"a\", \"b\", \"y\"], fields = { "
      "a = { transform = [\"quantile\"] }, b = { transform = [{ op = \"standardize\" }] }, "
      "y = {} } }\n";
  const std::string model = "model = { preset = \"wide_deep\", target = \"y\"";
  using Names = std::vector<std::string>;
  const Job job = completed(data + model + ", bins = 8 }\n");
  REQUIRE(job.model.layers.size() == 5);
  CHECK(job.model.layers[1].inputs == Names{"piecewise"});
  CHECK(job.model.layers[2].name == "line");
  CHECK(job.model.layers[2].inputs == Names{"b"});
  CHECK(job.model.layers[3].inputs == Names{"b", "piecewise"});
  CHECK(job.model.layers[4].inputs == Names{"wide", "tower", "line"});
  REQUIRE(job.optimizer_rules.size() == 1);
  CHECK(job.optimizer_rules[0].variables == "line/*");
  CHECK(job.optimizer_rules[0].optimizer.type == OptimizerType::kFtrl);
  CHECK(job.optimizer_rules[0].optimizer.learning_rate == 0.1F);
  const std::string many = std::string(data).replace(data.find("b = {"), 5, "b = { shape = [80],");
  CHECK(completed(many + model + ", bins = 8 }\n").optimizer_rules[0].optimizer.learning_rate ==
        0.05F);
  const Job classes =
      completed(data + model + ", bins = 8, loss = \"softmax_cross_entropy\", classes = 3 }\n");
  CHECK(classes.model.layers[2].units == std::vector<uint32_t>{3});
  // Without bins, or without other numbers, the wide layer has them.
  CHECK(completed(data + model + " }\n").model.layers[0].inputs == Names{"a", "b"});
  const Job alone = completed(data + model + ", bins = 8, inputs = [\"b\"] }\n");
  CHECK(alone.model.layers[0].inputs == Names{"b"});
  CHECK(alone.optimizer_rules.empty());
}

TEST_CASE("a preset with the hinge loss predicts a margin", "[job][preset]") {
  const std::string hinge = "model = { preset = \"wide_deep\", target = \"y\", loss = \"hinge\"";
  const Job job = completed(csv_job_with(hinge + " }\n"));
  CHECK(job.model.outputs[0].name == "margin");
  CHECK(job.model.outputs[0].metrics == std::vector<std::string>{"auc", "accuracy", "loss"});
  CHECK(error_of(csv_job_with(hinge + ", scale = 2.0 }\n")).what ==
        "output `margin` has a scale, and its loss is hinge");
  const Job linear = completed(small_job("model.loss = \"hinge\"\n"));
  CHECK(linear.model.outputs[0].name == "margin");
  const std::string layers =
      "model.layers = [{ name = \"l\", type = \"linear\", inputs = [\"age\"] }]\n"
      "model.outputs = [{ name = \"o\", input = \"l\", target = \"y\", loss = \"hinge\", "
      "metrics = [\"";
  CHECK(completed(csv_job_with(layers + "f1\"] }]\n")).model.outputs[0].metrics[0] == "f1");
  for (const char* metric : {"logloss", "calibration", "rmse"}) {
    const Error error = error_of(csv_job_with(layers + metric + "\"] }]\n"));
    INFO(error.what);
    CHECK(error.what.find(metric) != std::string::npos);
    CHECK(error.where.starts_with("/jobs/job.toml:3:"));
  }
}

TEST_CASE("logistic_regression has one linear unit for each class, and predicts no numbers",
          "[job][preset]") {
  const std::string softmax = "model.loss = \"softmax_cross_entropy\"\n";
  const Job job = completed(small_job(softmax + "model.classes = 3\n"));
  CHECK(job.model.layers.at(0).units == std::vector<uint32_t>{3});
  CHECK(job.model.outputs[0].metrics == std::vector<std::string>{"accuracy", "logloss"});
  CHECK(error_of(small_job(softmax)).what == "logistic_regression needs the number of classes");
  const Error error = error_of(small_job("model.loss = \"squared\"\n"));
  CHECK(error.what == "logistic_regression can't have the loss squared");
  CHECK(error.hint == "use linear_regression or wide_deep to predict numbers");
}

TEST_CASE("label smoothing reaches the output of a preset, and only losses of classes have it",
          "[job][preset]") {
  const std::string wide = "model = { preset = \"wide_deep\", target = \"y\", label_smoothing = ";
  const Job job = completed(csv_job_with(wide + "0.1 }\n"));
  CHECK(job.model.outputs[0].label_smoothing == 0.1F);
  CHECK(job_to_toml(job).find("label_smoothing = 0.1") != std::string::npos);
  const Error preset = error_of(csv_job_with(wide + "0.1, loss = \"hinge\" }\n"));
  CHECK(preset.what == "the loss hinge has no label_smoothing");
  CHECK(preset.where.starts_with("/jobs/job.toml:2:"));
  CHECK(error_of(csv_job_with(wide + "1.0 }\n")).what == "`model.label_smoothing` can't be 1");
  const std::string layers =
      "model.layers = [{ name = \"l\", type = \"linear\", inputs = [\"age\"] }]\n"
      "model.outputs = [{ name = \"o\", input = \"l\", target = \"y\", label_smoothing = 0.2, ";
  CHECK(completed(csv_job_with(layers + "loss = \"logistic\" }]\n"))
            .model.outputs[0]
            .label_smoothing == 0.2F);
  CHECK(error_of(csv_job_with(layers + "loss = \"squared\" }]\n")).what ==
        "output `o` has label_smoothing, and its loss is squared");
}

TEST_CASE("the other presets use all fields except the target", "[job][preset]") {
  const Job lr = completed(small_job());
  REQUIRE(lr.model.layers.size() == 1);
  CHECK(lr.model.layers[0].type == "linear");
  CHECK(lr.model.layers[0].inputs == std::vector<std::string>{"features"});
  CHECK(lr.model.outputs[0].loss == "logistic");
  CHECK(lr.data.find_field("features")->is_bag());

  const Job regression =
      completed(csv_job_with("model = { preset = \"linear_regression\", target = \"y\" }\n"));
  CHECK(regression.model.layers[0].inputs == std::vector<std::string>{"city", "age"});
  CHECK(regression.model.outputs[0].loss == "squared");
  CHECK(regression.model.outputs[0].metrics == std::vector<std::string>{"rmse"});
  CHECK(regression.model.outputs[0].scale.open);

  // auc ranks only one column.
  const char* const two =
      "data.source = \"a\"\ndata.format = \"npy\"\n"
      "data.fields = { x = { shape = [3] }, y = { shape = [2] }, z = { shape = [1] } }\n"
      "model.layers = [{ name = \"h\", type = \"dense\", inputs = [\"x\"], units = [2] },\n"
      "  { name = \"g\", type = \"dense\", inputs = [\"x\"], units = [1] }]\n"
      "model.outputs = [{ name = \"o\", input = \"h\", loss = \"logistic\", target = \"y\" },\n"
      "  { name = \"p\", input = \"g\", loss = \"logistic\", target = \"z\" }]\n";
  const Job columns = completed(two);
  CHECK(columns.model.outputs[0].metrics == std::vector<std::string>{"logloss", "calibration"});
  CHECK(columns.model.outputs[1].metrics ==
        std::vector<std::string>{"auc", "logloss", "calibration"});

  const Job mnist = completed(
      "data = { source = \"i\", format = \"mnist\" }\n"
      "model = { preset = \"softmax_mlp\", units = [128, 10] }\n");
  CHECK(mnist.model.layers[0].inputs == std::vector<std::string>{"image"});
  CHECK(mnist.model.layers[0].units == std::vector<uint32_t>{128, 10});
  CHECK(mnist.data.find_field("image")->shape == std::vector<int64_t>{784});
  CHECK(mnist.data.find_field("label")->type == FieldType::kInt64);
  CHECK(mnist.model.outputs[0].loss == "softmax_cross_entropy");
}

TEST_CASE("a string field without a transform is hashed, a label with `positive` is not",
          "[job][preset]") {
  const Job job = completed(csv_job_with("model = { preset = \"wide_deep\", target = \"y\" }\n"));
  CHECK(job.data.find_field("city")->transform == std::vector<TransformSpec>{ops::Hash{}});
  CHECK(job.data.find_field("y")->transform.empty());
}

TEST_CASE("a field's own declaration overrides single keys of that of a range", "[job][preset]") {
  const Job job = completed(
      "data.source = \"x.csv\"\ndata.format = \"csv\"\ndata.columns = [\"y\", \"price\", \"size\", "
      "\"age\"]\n"
      "data.fields = { y = {}, price = { default = 3 }, \"price..age\" = { default = 0, transform "
      "= "
      "[\"log1p\"] } }\n"
      "model = { preset = \"wide_deep\", target = \"y\" }\n");
  CHECK(job.data.fields.size() == 4);
  for (const char* name : {"price", "size", "age"})
    CHECK(job.data.find_field(name)->transform == std::vector<TransformSpec>{ops::Log1p{}});
  CHECK(job.data.find_field("price")->fallback == "3");
  CHECK(job.data.find_field("size")->fallback == "0");
}

TEST_CASE("an input of a preset is not its target", "[job][preset]") {
  const Error error = error_of(
      csv_job_with("[model]\npreset = \"wide_deep\"\ntarget = \"y\"\ninputs = [\"age\", \"y\"]\n"));
  CHECK(error.what == "the input `y` is the target");
  // Neither is another field of its column.
  Job job = loaded(csv_job_with("[model]\npreset = \"linear_regression\"\ntarget = \"y\"\n"));
  job.data.fields.push_back({.name = "y_again", .column = "y"});
  REQUIRE(complete_job(job));
  for (const LayerSpec& layer : job.model.layers)
    CHECK(std::ranges::count(layer.inputs, "y_again") == 0);
}

TEST_CASE("a preset keeps the rows of fields with numbered keys apart", "[job][preset]") {
  for (const char* preset : {"wide_deep", "deepfm", "dcn_v2", "factorization_machine"}) {
    for (const char* op : {"identity", "hash"}) {
      CAPTURE(preset, op);
      const Job job =
          completed(str("data = { source = \"x.csv\", format = \"csv\", header = true, ",
                        "fields = { y = {}, a = { type = \"int64\", transform = [\"", op,
                        "\"] }, b = { type = \"int64\", transform = [\"", op,
                        "\"] } } }\nmodel = { preset = \"", preset, "\", target = \"y\" }\n"));
      const auto has_rows = [](const LayerSpec& layer) {
        return layer.type == "embedding" || layer.type == "fm";
      };
      const auto layer = std::ranges::find_if(job.model.layers, has_rows);
      REQUIRE(layer != job.model.layers.end());
      CHECK(layer->table == (op == std::string("hash") ? "shared" : "by_field"));
    }
  }
}

TEST_CASE("a field of the job replaces the format's field of the same name", "[job][preset]") {
  const Job job = completed(
      "data.source = \"d\"\ndata.format = \"criteo\"\nmodel.preset = \"wide_deep\"\n"
      "data.fields.\"I1..I2\" = { default = 3 }\n");
  CHECK(job.data.fields.size() == 40);
  CHECK(job.data.find_field("I2")->fallback == "3");
  CHECK(job.data.find_field("I2")->transform.empty());
  CHECK(job.data.find_field("I3")->transform.size() == 2);
}

TEST_CASE("invalid preset options are rejected with their place", "[job][preset]") {
  const Error unnamed = error_of(csv_job_with("model = { preset = \"wide_deep\" }\n"));
  CHECK(unnamed.what == "no field is named `label`, and the job names no target");
  CHECK_THAT(unnamed.hint, Catch::Contains("--target NAME; the fields are age, city, y"));
  CHECK(error_of(csv_job_with("model = { preset = \"wide_deep\", target = \"z\" }\n")).what ==
        "the preset's target `z` is not a field");
  CHECK(error_of(csv_job_with("model = { preset = \"softmax_mlp\", target = \"y\" }\n")).hint ==
        "for example units = [128, 10]; the last one is the number of classes");
  const Error input = error_of(
      csv_job_with("[model]\npreset = \"wide_deep\"\ntarget = \"y\"\ninputs = [\"aeg\"]\n"));
  CHECK(input.hint == "did you mean `age`?");
  CHECK(input.where == "/jobs/job.toml:5:10");
  CHECK(error_of(small_job("model.dim = 4\n")).what ==
        "logistic_regression does not have the option `dim`");
  CHECK(error_of(small_job("model.preset2 = 1\n")).hint == "did you mean `preset`?");
  CHECK(error_of("data.source = \"d\"\nmodel.preset = \"dcn\"\n").id == "DP-2105");
  CHECK(error_of(small_job("model.dim = 3\nmodel.layers = [{ name = \"a\", type = \"linear\", "
                           "inputs = [\"features\"] }]\n"))
            .what == "options of a preset can't be combined with `layers`");
}

std::string layers_job(const std::string& layers,
                       const std::string& output = "input = \"a\", loss = \"logistic\"") {
  return "data = { source = \"d\", format = \"csv\", columns = [\"x\", \"s\", \"label\"], fields = "
         "{ x = {}, label = {}, s = { "
         "type = \"string\" } } }\nmodel.layers = [" +
         layers + "]\nmodel.outputs = [{ name = \"out\", target = \"label\", " + output + " }]\n";
}

TEST_CASE("a model with inconsistent layers is rejected with the layer and the nearest name",
          "[job][preset]") {
  const std::string good = "{ name = \"a\", type = \"linear\", inputs = [\"x\", \"s\"] }";
  CHECK(completed(layers_job(good)).model.layers.size() == 1);
  const auto what = [](const std::string& layers) { return error_of(layers_job(layers)).what; };
  CHECK(what("{ name = \"a\", type = \"linear\", inputs = [\"xx\"] }") ==
        "there is no field or earlier layer `xx`");
  CHECK(what(good + ", " + good) == "two layers are named `a`");
  CHECK(what("{ name = \"a\", type = \"dense\", inputs = [\"s\"], units = [1] }") ==
        "layer `a` (dense) can't read the keys of `s`");
  CHECK(what("{ name = \"a\", type = \"embedding\", inputs = [\"x\"], dim = 2 }") ==
        "the embedding `a` needs keys, and `x` gives numbers");
  CHECK(what("{ name = \"a\", type = \"dense\", inputs = [\"x\"] }") == "layer `a` has no units");
  CHECK(what("{ name = \"a\", type = \"embedding\", inputs = [\"s\"] }") == "layer `a` has no dim");
  CHECK(what("{ name = \"x\", type = \"linear\", inputs = [\"s\"] }, " + good) ==
        "`x` is the name of a field and of a layer");
  CHECK(what("{ name = \"a\", type = \"linear\", inputs = [] }") == "layer `a` has no inputs");
  CHECK(what("{ name = \"a\", type = \"linear\", inputs = [\"x\", \"x\"] }") ==
        "layer `a` reads `x` twice");
  CHECK(what("{ name = \"b\", type = \"relu\", inputs = [\"a\"] }, " + good) ==
        "there is no field or earlier layer `a`");
  CHECK(what("{ name = \"a\", type = \"embedding\", inputs = [\"s\"], dim = 2, pool = \"max\" }") ==
        "`model.layers[0].pool = \"max\"` is not available in this version");
  CHECK(what("{ name = \"a\", type = \"dense\", inputs = [\"x\"], units = [1], last = \"tan\" }") ==
        "`model.layers[0].last` can't be \"tan\"");
  CHECK(error_of(layers_job("{ name = \"a\", type = \"dnese\", inputs = [\"x\"] }")).hint ==
        "did you mean `dense`?");
  const auto output = [&](const std::string& text) {
    return error_of(layers_job(good, text)).what;
  };
  CHECK(output("input = \"b\", loss = \"logistic\"") == "there is no layer `b`");
  CHECK(output("input = \"a\"") == "output `out` has no loss");
  CHECK(output("input = \"a\", loss = \"logistics\"") ==
        "`model.outputs[0].loss` can't be \"logistics\"");
  CHECK(output("input = \"a\", loss = \"logistic\", weights = \"s\"") ==
        "output `out` needs numbers, and `s` gives keys");
  CHECK(output("input = \"a\", loss = \"squared\", metrics = [\"auc\"]") ==
        "there is no metric of a squared output `auc`");
  CHECK(output("input = \"a\", loss = \"logistic\", weights = \"w\"") == "there is no field `w`");
}

TEST_CASE("a factorization machine needs a dim and keys", "[job][preset]") {
  const std::string fm = "{ name = \"a\", type = \"fm\", inputs = [\"s\"], ";
  CHECK(completed(layers_job(fm + "dim = 4 }")).model.layers[0].dim == 4);
  const auto what = [](const std::string& layers) { return error_of(layers_job(layers)).what; };
  CHECK(what("{ name = \"a\", type = \"fm\", inputs = [\"s\"] }") == "layer `a` has no dim");
  CHECK(what("{ name = \"a\", type = \"fm\", inputs = [\"s\", \"x\"], dim = 4 }") ==
        "the fm `a` needs keys, and `x` gives numbers");
  CHECK(what("{ name = \"e\", type = \"embedding\", inputs = [\"s\"], dim = 4 }, "
             "{ name = \"a\", type = \"fm\", inputs = [\"e\"], dim = 4 }") ==
        "the fm `a` needs keys, and `e` gives numbers");
  CHECK(error_of(layers_job(fm + "dim = 4, pool = \"mean\" }")).id == "DP-2103");
}

TEST_CASE("dropout, cross and dot layers: keys, ranges and what they need", "[job][preset]") {
  const auto what = [](const std::string& layers) { return error_of(layers_job(layers)).what; };
  const std::string dense = "{ name = \"a\", type = \"dense\", inputs = [\"x\"], ";
  const Job job = completed(layers_job(dense + "units = [2, 1], dropout = 0.5 }"));
  CHECK(job.model.layers[0].dropout == 0.5F);
  CHECK(job_to_toml(job).find("dropout = 0.5") != std::string::npos);
  CHECK(job_to_toml(completed(layers_job(dense + "units = [2, 1] }"))).find("dropout") ==
        std::string::npos);
  CHECK(what(dense + "units = [1], dropout = 0.5 }") ==
        "layer `a` has a dropout, which applies between its sublayers, and has only one sublayer");
  const std::string drop = "{ name = \"a\", type = \"dropout\", inputs = [\"x\"]";
  CHECK(completed(layers_job(drop + ", rate = 0.5 }")).model.layers[0].dropout == 0.5F);
  CHECK(what(drop + " }") == "layer `a` has no rate above 0");
  CHECK(error_of(layers_job(drop + ", dropout = 0.5 }")).id == "DP-2103");
  const std::string cross = "{ name = \"a\", type = \"cross\", inputs = [\"x\"]";
  CHECK(completed(layers_job(cross + " }")).model.layers[0].depth == 2);
  CHECK(what(cross + ", depth = 0 }").find("model.layers[0].depth") != std::string::npos);
  CHECK(what("{ name = \"a\", type = \"dot\", inputs = [\"x\"] }") == "layer `a` has no dim");
  for (const char* name : {"relu", "sigmoid", "leaky_relu", "gelu", "silu", "tanh"}) {
    CHECK(completed(layers_job(dense + "units = [1], last = \"" + name + "\" }"))
              .model.layers[0]
              .last == name);
  }
  CHECK(error_of(layers_job(dense + "units = [1], last = \"leaky\" }")).hint.find("leaky_relu") !=
        std::string::npos);
}

TEST_CASE("a layer can read the rows of an earlier embedding of the same dim", "[job][preset]") {
  const std::string emb = "{ name = \"emb\", type = \"embedding\", inputs = [\"s\"], dim = 4 }, ";
  const auto fm = [](const std::string& keys) {
    return "{ name = \"a\", type = \"fm\", inputs = [\"s\"], " + keys + " }";
  };
  const auto error = [](const std::string& layers) { return error_of(layers_job(layers)); };
  CHECK(completed(layers_job(emb + fm("dim = 4, table = \"emb\""))).model.layers[1].table == "emb");
  const Error unknown = error(emb + fm("dim = 4, table = \"user\""));
  CHECK(unknown.what == "there is no earlier embedding or fm layer `user`");
  CHECK(unknown.hint == "available: shared, by_field, emb");
  CHECK(error(fm("dim = 4, table = \"Shared\"")).hint == "did you mean `shared`?");
  CHECK(error(fm("dim = 4, table = \"a\"")).what ==
        "there is no earlier embedding or fm layer `a`");
  CHECK(error("{ name = \"l\", type = \"linear\", inputs = [\"s\"] }, " +
              fm("dim = 4, table = \"l\""))
            .what == "there is no earlier embedding or fm layer `l`");
  CHECK(error(emb + fm("dim = 8, table = \"emb\"")).what ==
        "layer `a` has dim 8, but the rows of `emb` have dim 4");
  CHECK(error(emb + fm("dim = 4, table = \"emb\", init = { type = \"zero\" }")).what ==
        "layer `a` has an init, but its rows are those of `emb`");
  std::string other = layers_job(emb +
                                 "{ name = \"a\", type = \"fm\", inputs = [\"s\", \"t\"], dim = 4, "
                                 "table = \"emb\" }");
  other.insert(other.find("label = {}"), "t = { type = \"string\", column = \"s\" }, ");
  CHECK(error_of(other).what ==
        "layer `a` can't read the rows of `emb` for `t`, which `emb` does not read");
}

TEST_CASE("invalid fields are rejected", "[job][preset]") {
  const auto what = [](const std::string& field) {
    return error_of(
               "data.source = \"d\"\ndata.format = \"csv\"\ndata.columns = [\"x\", \"label\"]\n"
               "model.preset = \"logistic_regression\"\ndata.fields.label = {}\n" +
               field + "\n")
        .what;
  };
  CHECK(what("data.fields.y = {}") == "there is no column `y`");
  CHECK(what("data.fields.y = { column = \"z\" }") == "there is no column `z`");
  CHECK(what("data.fields.x = { shape = [-1] }") ==
        "field `x` gives numbers without a fixed number, which a layer can't read");
  CHECK(what("data.fields.x = { type = \"string\", transform = [\"log1p\"] }") ==
        "log1p in field `x` can't be applied to strings");
  CHECK(what("data.fields.x = { transform = [\"clip\"] }") ==
        "clip in field `x` needs min, max or both");
  CHECK(what("data.fields.x = { transform = [{ op = \"clip\", min = 2, max = 1 }] }") ==
        "clip in field `x` has min above max");
  CHECK(what("data.fields.x = { transform = [{ op = \"hash\", buckets = 8 }] }") ==
        "hash in field `x` can't be applied to numbers");
  CHECK(what("data.fields.x = { type = \"int64\", transform = [\"hash\", \"log1p\"] }") ==
        "log1p in field `x` can't be applied to keys");
}

}  // namespace
}  // namespace downpour::test
