// Statistics of transforms: learned from the training records only, and kept with the run.
#include "chief/runtime/learn.h"

#include <cmath>

#include <catch2/catch.hpp>

#include "chief/runtime/classes.h"
#include "chief/runtime/job_setup.h"
#include "shared/env/storage.h"
#include "shared/job/job_file.h"
#include "tests/chief/runtime/support.h"

namespace downpour::chief {
namespace {

RunPlan learning_plan(const ScratchDir& dir, const std::string& more) {
  const std::string text =
      "data.source = \"d.csv\"\ndata.format = \"csv\"\ndata.columns = [\"x\", \"y\"]\n"
      "data.fields.y = {}\nmodel.preset = \"linear_regression\"\nmodel.target = \"y\"\n" +
      more;
  return plan_of(dir, text);
}

RunPlan learned(RunPlan plan, bool fresh = false) {
  const auto done = learn_statistics(plan, fresh);
  if (!done) FAIL(done.error().what);
  return plan;
}
const std::vector<TransformSpec>& transform_of(const RunPlan& plan) {
  return plan.job.data.find_field("x")->transform;
}
ops::Standardize standardize_of(const RunPlan& plan, size_t index = 0) {
  return std::get<ops::Standardize>(transform_of(plan)[index]);
}
ops::MinMax min_max_of(const RunPlan& plan, size_t index = 0) {
  return std::get<ops::MinMax>(transform_of(plan)[index]);
}

/// Returns records with x = 0 to 999, and one with 10^6, which is filtered.
std::string thousand() {
  std::string text = "1000000,1\n";
  for (int i = 0; i < 1000; ++i) text += str(i, ",", i % 7, "\n");
  return text;
}
constexpr const char* kStandardize =
    "data.filter = \"x < 5000\"\ndata.fields.x = { transform = [\"standardize\"] }\n";

TEST_CASE("mean and standard deviation equal NumPy's, over the records that pass the filter",
          "[chief][transform]") {
  const ScratchDir dir;
  dir.write("d.csv", thousand());
  const RunPlan open = learning_plan(dir, kStandardize);
  CHECK_FALSE(standardize_of(open).mean);
  const RunPlan plan = learned(open);
  CHECK(standardize_of(plan).mean.value() == Approx(499.5).epsilon(1e-12));
  CHECK(standardize_of(plan).scale.value() == Approx(288.6749902572095).epsilon(1e-12));  // np.std
  CHECK(plan.plan_hash != open.plan_hash);
  const auto again = job_from_toml(plan.job_text, dir.path());
  REQUIRE(again);
  CHECK(again->data.find_field("x")->transform == transform_of(plan));
}

TEST_CASE("a record that is bad in another field has no part in the statistics",
          "[chief][transform]") {
  const ScratchDir dir;
  std::string text;
  for (int i = 0; i < 1000; ++i)
    text += i % 10 == 3 ? str(1e6, i % 20 == 3 ? ",bad,1\n" : ",1,bad\n") : str(i % 10, ",1,1\n");
  dir.write("d.csv", text);
  const RunPlan plan = learned(plan_of(
      dir,
      "data = { source = \"d.csv\", format = \"csv\", columns = [\"x\", \"z\", \"y\"], "
      "bad_records = \"skip\", fields = { x = { transform = [\"standardize\"] }, z = {}, y = {} } "
      "}\n"
      "model = { preset = \"linear_regression\", inputs = [\"x\", \"z\"], target = \"y\" }\n"));
  CHECK(standardize_of(plan).mean.value() == Approx(42.0 / 9).epsilon(1e-12));
}

TEST_CASE("statistics of a field of keys are learned although bad records are skipped",
          "[chief][transform]") {
  const ScratchDir dir;
  std::string text;
  for (int i = 0; i < 100; ++i) text += str(i, ",", i % 3, i == 50 ? ",bad\n" : ",1\n");
  dir.write("d.csv", text);
  const RunPlan plan = learned(plan_of(
      dir,
      "data = { source = \"d.csv\", format = \"csv\", columns = [\"x\", \"z\", \"y\"], "
      "bad_records = \"skip\", fields = { x = { type = \"int64\", transform = "
      "[\"standardize\", { op = "
      "\"bucketize\", boundaries = [0.0] }] }, z = { type = \"int64\", transform = "
      "[\"identity\"] }, "
      "both = { transform = [{ op = \"cross\", fields = [\"x\", \"z\"] }] }, y = {} } }\n"
      "model = { layers = [{ name = \"out\", type = \"linear\", inputs = [\"x\", \"z\", "
      "\"both\"] }], "
      "outputs = [{ name = \"value\", input = \"out\", target = \"y\", loss = \"squared\" }] }\n"));
  CHECK(standardize_of(plan).mean.value() == Approx((4950.0 - 50) / 99).epsilon(1e-12));
}

TEST_CASE("the offset with negatives is that of a record and its negatives", "[chief]") {
  const ScratchDir dir;
  std::string text;
  for (int i = 0; i < 100; ++i) text += str(i % 7, ",", i % 11, ",1\n");
  dir.write("d.csv", text);
  for (const bool named : {false, true}) {
    for (const std::string loss : {"logistic", "hinge"}) {
      const RunPlan plan = learned(plan_of(
          dir,
          "data = { source = \"d.csv\", format = \"csv\", columns = [\"u\", \"i\", \"y\"], fields "
          "= { u = { type = \"string\" }, i = { type = \"string\" }, y = {} }, negatives = { "
          "fields "
          "= [\"i\"], per_record = 3 } }\nmodel = { preset = \"matrix_factorization\", inputs = "
          "[\"u\", \"i\"], offset = \"auto\", loss = \"" +
              loss + "\"" + (named ? ", target = \"y\"" : "") + " }\n"));
      const OutputSpec& output = plan.job.model.outputs[0];
      CHECK_FALSE(output.offset.open);
      CHECK(output.offset.value == Approx(loss == "hinge" ? -1 : -std::log(3.0)));
    }
  }
}

TEST_CASE("each op learns from its own input, and given statistics are not learned",
          "[chief][transform]") {
  const ScratchDir dir;
  dir.write("d.csv", thousand());
  const RunPlan plan = learned(learning_plan(
      dir,
      "data.filter = \"x < 5000\"\ndata.fields.x = { transform = [{ op = \"clip\", max = 899 }, "
      "\"min_max\", { op = \"standardize\", mean = 0.25, scale = 2.0 }, \"min_max\"] }\n"));
  CHECK(min_max_of(plan, 1).min == 0.0);
  CHECK(min_max_of(plan, 1).max == 899.0);
  CHECK(standardize_of(plan, 2).mean == 0.25);
  CHECK(min_max_of(plan, 3).min.value() == Approx(-0.125));
  CHECK(min_max_of(plan, 3).max.value() == Approx(0.375));
}

TEST_CASE("statistics of large numbers have the digits of doubles", "[chief][transform]") {
  const ScratchDir dir;
  std::string text;
  for (int i = 0; i < 1000; ++i) text += str(1'700'000'000 + i * 37 % 100, ".5,", i % 7, "\n");
  dir.write("d.csv", text);
  const auto with = [&](const std::string& op) {
    return learned(learning_plan(dir, "data.fields.x = { transform = [" + op + "] }\n"));
  };
  const ops::Standardize standardize = standardize_of(with("\"standardize\""));
  CHECK(standardize.mean.value() == Approx(1'700'000'050.0).epsilon(1e-15));
  CHECK(standardize.scale.value() == Approx(28.86607004772212).epsilon(1e-6));  // np.std
  CHECK(min_max_of(with("\"min_max\"")).min == 1'700'000'000.5);
  CHECK(min_max_of(with("\"min_max\"")).max == 1'700'000'099.5);
  CHECK(standardize_of(with("{ op = \"clip\", min = 1700000050 }, \"standardize\""), 1)
            .mean.value() == Approx(1'700'000'062.5).epsilon(1e-12));
  const RunPlan plan = with("{ op = \"quantile\", intervals = 4 }");
  CHECK(std::get<ops::Quantile>(transform_of(plan)[0]).boundaries ==
        std::vector<double>{1'700'000'000.5, 1'700'000'025.5, 1'700'000'050.5, 1'700'000'074.5,
                            1'700'000'099.5});
  const auto again = job_from_toml(plan.job_text, dir.path());
  REQUIRE(again);
  CHECK(std::get<ops::Quantile>(again->data.find_field("x")->transform[0]).boundaries ==
        std::get<ops::Quantile>(transform_of(plan)[0]).boundaries);
}

TEST_CASE("a constant field is divided by 1", "[chief][transform]") {
  const ScratchDir dir;
  dir.write("d.csv", "5,1\n5,2\n");
  CHECK(standardize_of(learned(learning_plan(dir, kStandardize))).scale == 1.0);
  CHECK(min_max_of(learned(learning_plan(dir, "data.fields.x = { transform = [\"min_max\"] }\n")))
            .max == 10.0);
}

TEST_CASE("the result does not depend on how the data is cut", "[chief][transform]") {
  const ScratchDir dir;
  dir.write("d.csv", thousand());
  RunPlan one = learning_plan(dir, kStandardize), many = one;
  many.shard_bytes = 100;
  one = learned(one);
  many = learned(many);
  CHECK(standardize_of(one).mean.value() ==
        Approx(standardize_of(many).mean.value()).epsilon(1e-13));
  CHECK(standardize_of(one).scale.value() ==
        Approx(standardize_of(many).scale.value()).epsilon(1e-13));
}

TEST_CASE("records that are held out do not count", "[chief][transform]") {
  const ScratchDir dir;
  dir.write("d.csv", thousand());
  const RunPlan plan =
      learned(learning_plan(dir, std::string(kStandardize) + "eval.holdout = 0.5\n"));
  const double mean = standardize_of(plan).mean.value();
  CHECK(mean != Approx(499.5).epsilon(1e-6));
  CHECK(mean == Approx(499.5).margin(5 * 289 / std::sqrt(500.0)));
}

TEST_CASE("a resumed run keeps its statistics, even with other data; --fresh does not",
          "[chief][transform]") {
  const ScratchDir dir;
  dir.write("d.csv", thousand());
  const RunPlan first = learned(learning_plan(dir, kStandardize));
  PosixStorage storage;
  REQUIRE(open_run(storage, first, {}));
  dir.write("d.csv", "1,1\n3,2\n");
  CHECK(transform_of(learned(learning_plan(dir, kStandardize))) == transform_of(first));
  CHECK(standardize_of(learned(learning_plan(dir, kStandardize), /*fresh=*/true)).mean == 2.0);
  // Another transform has no statistics yet.
  const RunPlan other =
      learned(learning_plan(dir, "data.fields.x = { transform = [\"log1p\", \"standardize\"] }\n"));
  CHECK(standardize_of(other, 1).mean.value() == Approx((std::log(2.0) + std::log(4.0)) / 2));
}

TEST_CASE("quantiles are learned, the same for any cut of the data", "[chief][transform]") {
  const ScratchDir dir;
  dir.write("d.csv", thousand());
  const char* const text =
      "data.filter = \"x < 5000\"\n"
      "data.fields.x = { transform = [{ op = \"quantile\", intervals = 3 }] }\n";
  RunPlan one = learning_plan(dir, text), many = one;
  many.shard_bytes = 100;
  one = learned(one);
  CHECK(std::get<ops::Quantile>(transform_of(one)[0]).boundaries ==
        std::vector<double>{0, 333, 666, 999});
  CHECK(transform_of(learned(many)) == transform_of(one));
  CHECK(one.job_text.find("boundaries = [0.0, 333.0, 666.0, 999.0]") != std::string::npos);
}

TEST_CASE("a squared output of a preset learns mean and deviation of its target, after the ops",
          "[chief][transform]") {
  const ScratchDir dir;
  std::string text;
  for (int i = 0; i < 1000; ++i) text += str(i % 10, ",", 1000 + i, "\n");
  dir.write("d.csv", text);
  const RunPlan plan =
      learned(learning_plan(dir, "data.fields.x = { transform = [\"quantile\"] }"));
  const OutputSpec& output = plan.job.model.outputs[0];
  CHECK_FALSE(output.offset.open);
  CHECK(double(output.offset.value) == Approx(1499.5));
  CHECK(double(output.scale.value) == Approx(288.675).epsilon(1e-5));
  PosixStorage storage;
  REQUIRE(open_run(storage, plan, {}));
  dir.write("d.csv", "1,1\n3,2\n");
  const RunPlan resumed =
      learned(learning_plan(dir, "data.fields.x = { transform = [\"quantile\"] }"));
  CHECK(resumed.job.model.outputs[0] == output);
}

TEST_CASE("a large target is standardized, too", "[chief][transform]") {
  const ScratchDir dir;
  std::string text;
  for (int i = 0; i < 1000; ++i) text += str(i % 10, ",17", i % 10, "0000000000000000\n");
  dir.write("d.csv", text);
  const RunPlan plan = learned(learning_plan(dir, "data.fields.x = {}"));
  CHECK(double(plan.job.model.outputs[0].offset.value) == Approx(1.745e18));
  CHECK(double(plan.job.model.outputs[0].scale.value) == Approx(2.872e16).epsilon(1e-3));
}

TEST_CASE("mean and deviation of a target count each record by its weight", "[chief][transform]") {
  const ScratchDir dir;
  // Records of weight 0 are not trained, so a value that stands for a missing target may be large.
  dir.write("d.csv", "1,2\n0,-99999\n3,6\n-1,-99999\n");
  const RunPlan plan = learned(learning_plan(dir,
                                             "data.fields.x = {}\nmodel.inputs = [\"x\"]\n"
                                             "model.weights = \"x\"\n"));
  CHECK(double(plan.job.model.outputs[0].offset.value) == Approx(5));
  CHECK(double(plan.job.model.outputs[0].scale.value) == Approx(std::sqrt(3.0)));
}

TEST_CASE("a logistic output with offset = \"auto\" starts at the log-odds of its target",
          "[chief][transform]") {
  const ScratchDir dir;
  // Labels of -1 and 1 mean 0 and 1, as in the loss.
  const std::string other = GENERATE("0", "-1");
  dir.write("d.csv", "1,1\n2," + other + "\n3," + other + "\n4," + other + "\n");
  const RunPlan plan = learned(
      plan_of(dir,
              "data.source = \"d.csv\"\ndata.format = \"csv\"\ndata.columns = [\"x\", \"y\"]\n"
              "data.fields = { x = {}, y = {} }\nmodel.preset = \"logistic_regression\"\n"
              "model.target = \"y\"\nmodel.offset = \"auto\"\n"));
  CHECK(double(plan.job.model.outputs[0].offset.value) == Approx(std::log(1.0 / 3)));
}

TEST_CASE("the offset of targets of one class is as far from 0 as their number allows",
          "[chief][transform]") {
  const ScratchDir dir;
  const bool ones = GENERATE(true, false);
  std::string lines;
  for (int i = 0; i < 99; ++i) lines += str(i, ones ? ",1\n" : ",0\n");
  dir.write("d.csv", lines);
  const RunPlan plan = learned(
      plan_of(dir,
              "data.source = \"d.csv\"\ndata.format = \"csv\"\ndata.columns = [\"x\", \"y\"]\n"
              "data.fields = { x = {}, y = {} }\nmodel.preset = \"logistic_regression\"\n"
              "model.target = \"y\"\nmodel.offset = \"auto\"\n"));
  CHECK(double(plan.job.model.outputs[0].offset.value) ==
        Approx((ones ? 1 : -1) * std::log(99.5 / 0.5)));
}

TEST_CASE("a hinge output with offset = \"auto\" starts at the margin of the more frequent target",
          "[chief][transform]") {
  const ScratchDir dir;
  const bool more_ones = GENERATE(true, false);
  dir.write("d.csv", more_ones ? "1,1\n2,0\n3,1\n" : "1,0\n2,0\n3,1\n");
  const RunPlan plan = learned(
      plan_of(dir,
              "data.source = \"d.csv\"\ndata.format = \"csv\"\ndata.columns = [\"x\", \"y\"]\n"
              "data.fields = { x = {}, y = {} }\nmodel.preset = \"wide_deep\"\n"
              "model.loss = \"hinge\"\nmodel.target = \"y\"\nmodel.offset = \"auto\"\n"));
  CHECK(plan.job.model.outputs[0].offset.value == (more_ones ? 1.0F : -1.0F));
}

TEST_CASE("a bad record ends the pass with an error that names its line", "[chief][transform]") {
  const ScratchDir dir;
  dir.write("d.csv", "5,1\nsix,2\n");
  RunPlan plan = learning_plan(dir, "data.fields.x = { transform = [\"standardize\"] }\n");
  const auto done = learn_statistics(plan, false);
  REQUIRE_FALSE(done);
  CHECK(done.error().code == ErrorCode::kBadData);
  CHECK(done.error().where.ends_with("d.csv:2"));
}

TEST_CASE("the hint for a record without a target is to leave it out, not to give it one",
          "[chief][transform]") {
  const ScratchDir dir;
  dir.write("d.csv", "5,1\n6,\n7,2\n");
  RunPlan plan = learning_plan(dir, "data.fields.x = {}\nmodel.offset = \"auto\"\n");
  const auto done = learn_statistics(plan, false);
  REQUIRE_FALSE(done);
  CHECK(done.error().where.ends_with("d.csv:2"));
  CHECK(done.error().hint == "correct the record, or set data.bad_records = \"skip\"");
}

/// Returns `records` lines with the labels a and b, and in the last line `last`.
std::string labelled(int records, const char* last) {
  std::string text;
  for (int i = 1; i < records; ++i) text += str(i, ",", i % 3 == 0 ? "a" : "b", "\n");
  return text + str(records, ",", last, "\n");
}

TEST_CASE("the classes of a label are the texts of all records", "[chief]") {
  const ScratchDir dir;
  DataSpec data;
  data.format = DataFormat::kCsv;
  data.columns = {"x", "y"};
  data.fields = {{.name = "x"}, {.name = "y", .type = FieldType::kString, .classes = {"a", "b"}}};
  data.source.paths = {dir.write("d.csv", labelled(30'000, "rare"))};
  CHECK(find_classes(data, "y", dir.path()).value().texts ==
        std::vector<std::string>{"a", "b", "rare"});
  // Several ranges; only the first 1,000 records are read.
  std::string wide = labelled(1000, "b");
  for (int i = 0; i < 400'000; ++i) wide += str("123456789", i, ",c\n");
  data.source.paths = {dir.write("wide.csv", wide)};
  data.source.take = 1000;
  CHECK(find_classes(data, "y", dir.path()).value().texts == std::vector<std::string>{"b", "a"});
  data.source.take = SourceSpec{}.take;
  CHECK(find_classes(data, "y", dir.path()).value().most_frequent == "c");
  data.source.paths = {dir.write("two.csv", labelled(300, "a"))};
  CHECK(find_classes(data, "y", dir.path()).value().texts == std::vector<std::string>{"b", "a"});
  data.source.paths = {dir.write("one.csv", "1,a\n2,a\n")};
  CHECK(find_classes(data, "y", dir.path()).error().what ==
        "all records have the same value of the target `y`: \"a\"");
  std::string many;
  for (int i = 0; i < 1001; ++i) many += str(i, ",t", i, "\n");
  data.source.paths = {dir.write("many.csv", many)};
  CHECK(find_classes(data, "y", dir.path()).error().what ==
        "the target `y` has more than 1000 different texts");
}

TEST_CASE("a data file that is sorted by a label of texts has all its classes", "[chief]") {
  const ScratchDir dir;
  std::string lines = "x,kind\n";
  for (const char* kind : {"fox", "horse", "mouse"})
    for (int i = 0; i < 12'000; ++i) lines += str(i % 97, ",", kind, "\n");
  const auto given = load_given_job(dir.write("sorted.csv", lines), {});
  INFO((given ? "" : given.error().what));
  REQUIRE(given);
  CHECK(given->loaded.job.data.find_field("kind")->classes ==
        std::vector<std::string>{"fox", "horse", "mouse"});
  CHECK(given->loaded.job.model.outputs[0].loss == "softmax_cross_entropy");
  CHECK(given->sniffed.find("3 classes in all records") != std::string::npos);

  const std::vector<Override> logistic = {{"model.loss", "logistic", "--set"}};
  const auto binary = load_given_job(dir / "sorted.csv", logistic);
  REQUIRE(binary);
  CHECK(binary->loaded.job.data.find_field("kind")->positive == std::vector<std::string>{"fox"});
}

TEST_CASE("a job for several data files reads all of them", "[chief]") {
  const ScratchDir dir;
  std::filesystem::create_directories(dir / "days");
  for (const int day : {1, 2, 3}) {
    std::string lines = "x,kind\n";
    for (int i = 0; i < 400; ++i) lines += str(i % 97, ",kind", day, "\n");
    dir.write(str("days/", day, ".csv"), lines);
  }
  const auto classes_of = [](const std::vector<std::string>& paths) {
    const auto given = load_given_job(paths, {});
    INFO((given ? "" : given.error().what));
    REQUIRE(given);
    CHECK(given->loaded.job.data.source.paths == paths);
    return given->loaded.job.data.find_field("kind")->classes;
  };
  const std::vector<std::string> all = {"kind1", "kind2", "kind3"};
  CHECK(classes_of({dir / "days"}) == all);
  CHECK(classes_of({dir / "days/*.csv"}) == all);
  CHECK(classes_of({dir / "days/3.csv", dir / "days/1.csv"}) ==
        std::vector<std::string>{"kind1", "kind3"});
  const auto folder = load_given_job(dir / "days/", {});
  REQUIRE(folder);
  CHECK(folder->loaded.job.name == "days");

  const std::vector<std::string> mixed = {dir.write("job.toml", ""), dir / "days"};
  const auto refused = load_given_job(mixed, {});
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == ErrorCode::kUsage);
  CHECK(refused.error().where == mixed[0]);
}

TEST_CASE("a data file is detected with the settings that the overrides give", "[chief]") {
  const ScratchDir dir;
  std::string lines = "x,a note,kind\n";
  for (int i = 0; i < 300; ++i)
    lines += str(i % 97, ",\"one\ntwo\",", i % 3 == 0 ? "fox" : "horse", "\n");
  const std::string path = dir.write("d.csv", "made by hand\n" + lines);
  const std::vector<Override> overrides = {{"data.skip_lines", "1", "--set"},
                                           {"data.quoted_newlines", "true", "--set"},
                                           {"train.epochs", "3", "--set"}};
  const auto given = load_given_job(path, overrides);
  INFO((given ? "" : given.error().what));
  REQUIRE(given);
  const DataSpec& data = given->loaded.job.data;
  CHECK(data.columns == std::vector<std::string>{"x", "a note", "kind"});
  CHECK(data.header);
  CHECK(data.quoted_newlines);
  CHECK(data.skip_lines == 1);
  CHECK(given->loaded.job.model.outputs[0].target == "kind");

  std::string texts = "text,mood\n";
  for (int i = 0; i < 300; ++i) texts += str("a word", i % 7, i % 3 == 0 ? ",sad\n" : ",glad\n");
  dir.write("t.csv", texts);
  CHECK(load_given_job(dir / "t.csv", {})->loaded.job.data.header);
  const std::vector<Override> no_header = {{"data.header", "false", "--set"}};
  const auto without = load_given_job(dir / "t.csv", no_header);
  REQUIRE(without);
  CHECK_FALSE(without->loaded.job.data.header);
  CHECK(without->loaded.job.data.columns == std::vector<std::string>{"c1", "label"});
  const std::vector<Override> unknown = {{"data.skip_lines", "one", "--set"}};
  CHECK_FALSE(load_given_job(path, unknown));
}

TEST_CASE("logistic_regression for a data file predicts as many classes as the target has",
          "[chief]") {
  const ScratchDir dir;
  const std::vector<Override> linear = {{"model.preset", "logistic_regression", "--set"}};
  const auto model_of = [&](const std::string& lines) {
    const auto given = load_given_job(dir.write("data.csv", lines), linear);
    INFO((given ? "" : given.error().what));
    REQUIRE(given);
    return given->loaded.job.model;
  };
  std::string kinds = "x,kind\n", numbers = "x,price\n";
  for (int i = 0; i < 300; ++i) {
    kinds += str(i % 97, i % 3 == 0 ? ",fox\n" : i % 3 == 1 ? ",horse\n" : ",mouse\n");
    numbers += str(i % 97, ",0.", i, "\n");
  }
  CHECK(model_of(kinds).outputs[0].loss == "softmax_cross_entropy");
  CHECK(model_of(kinds).layers[0].units == std::vector<uint32_t>{3});
  CHECK(model_of(numbers).outputs[0].loss == "logistic");  // shares are good targets
  for (int i = 0; i < 20'000; ++i) numbers += str(i % 97, ",0.", i, "\n");
  CHECK(model_of(numbers).outputs[0].loss == "logistic");  // also of a file that is read whole
  // The default model of arrays is a perceptron, whose last width is the number of classes.
  dir.write("x-labels-idx1-ubyte", std::string("\0\0\x08\x01\0\0\0\x01\x07", 9));
  const std::string header("\0\0\x08\x03\0\0\0\x01\0\0\0\x1c\0\0\0\x1c", 16);
  const auto images =
      load_given_job(dir.write("x-images-idx3-ubyte", header + std::string(784, '\x01')), linear);
  INFO((images ? "" : images.error().what));
  REQUIRE(images);
  CHECK(images->loaded.job.model.outputs[0].loss == "softmax_cross_entropy");
  CHECK(images->loaded.job.model.layers[0].units == std::vector<uint32_t>{10});
  const std::vector<Override> network = {{"model.preset", "wide_deep", "--set"}};
  const auto deep = load_given_job(dir / "x-images-idx3-ubyte", network);
  REQUIRE(deep);
  const LayerSpec& tower = deep->loaded.job.model.layers[1];
  CHECK(tower.type == "dense");
  CHECK(tower.units == std::vector<uint32_t>{128, 10});
}

TEST_CASE("a preset with a loss of its own takes the one that fits the target of a data file",
          "[chief]") {
  const ScratchDir dir;
  const std::vector<Override> factors = {{"model.preset", "matrix_factorization", "--set"}};
  const auto loss_of = [&](const std::string& target, const std::vector<Override>& overrides) {
    std::string lines = "user_id,item_id," + target + "\n";
    for (int i = 0; i < 300; ++i)
      lines += str(i % 40, ",", i % 23, ",", target == "clicked" ? str(i % 2) : str(i, ".5"), "\n");
    const auto given = load_given_job(dir.write("data.csv", lines), overrides);
    INFO((given ? "" : given.error().what));
    REQUIRE(given);
    return given->loaded.job.model.outputs[0].loss;
  };
  CHECK(loss_of("clicked", factors) == "logistic");
  CHECK(loss_of("price", factors) == "squared");
  CHECK(loss_of("clicked", {factors[0], {"model.loss", "squared", "--set"}}) == "squared");
}

TEST_CASE("evaluation data with other labels are refused before training, or left out", "[chief]") {
  const ScratchDir dir;
  Job job;
  job.data.format = DataFormat::kCsv;
  job.data.columns = {"x", "y"};
  job.data.fields = {{.name = "x"},
                     {.name = "y", .type = FieldType::kString, .classes = {"a", "b"}}};
  job.model.outputs = {{.name = "o", .loss = "logistic", .target = "y"}};
  CHECK(check_labels(job).value().empty());
  job.eval.source.paths = {dir.write("known.csv", "1,a\n2,b\n")};
  CHECK(check_labels(job).value().empty());
  job.eval.source.paths = {dir.write("other.csv", "1,a\n2,a.\n3,a.\n4,b.\n")};
  const Error error = check_labels(job).error();
  CHECK(error.what ==
        "the evaluation data have labels that are none of the classes of `y`: \"a.\" (2 records), "
        "\"b.\" (1 record)");
  CHECK(error.where == "data.fields.y.classes");
  job.eval.unknown_labels = "skip";
  CHECK(check_labels(job).value().starts_with("evaluations leave out 3 records, whose labels"));
}

}  // namespace
}  // namespace downpour::chief
