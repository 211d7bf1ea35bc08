// data.negatives and the losses that need it: what a job may say.
#include "shared/job/resume.h"
#include "tests/shared/job/job_test_support.h"

namespace downpour::test {
namespace {

/// Returns a job of users and items. `negatives` is the text of the key's table.
std::string implicit_job(
    const std::string& negatives,
    const std::string& model = "preset = \"matrix_factorization\", loss = \"bpr\"",
    const std::string& fields = "") {
  return "data = { source = \"x.csv\", format = \"csv\", header = true, " +
         (negatives.empty() ? "" : "negatives = { " + negatives + " }, ") +
         "fields = { user = { type = \"string\" }, item = { type = \"string\" }" + fields +
         " } }\nmodel = { " + model + " }\n";
}

constexpr const char* kItem = "fields = [\"item\"], per_record = 4";

TEST_CASE("negatives are read and printed, and need no target", "[job]") {
  const Job job = completed(implicit_job(kItem));
  CHECK(job.data.negatives == NegativesSpec{{"item"}, 4});
  REQUIRE(job.model.outputs.size() == 1);
  const OutputSpec& output = job.model.outputs[0];
  CHECK(output.target.empty());
  CHECK(output.name == "score");
  CHECK(output.metrics == std::vector<std::string>{"auc", "loss"});
  CHECK(job_from_toml(job_to_toml(job), job.base_dir)->data.negatives == job.data.negatives);
  CHECK(job_to_toml(completed(small_job())).find("negatives") == std::string::npos);
}

TEST_CASE("presets take the losses with negatives, and a field named label is their target",
          "[job]") {
  for (const char* const loss : {"bpr", "sampled_softmax", "logistic", "hinge"}) {
    for (const char* const preset :
         {"matrix_factorization", "factorization_machine", "deepfm", "wide_deep", "dcn_v2"}) {
      CAPTURE(loss, preset);
      const std::string model = str("preset = \"", preset, "\", loss = \"", loss, "\"");
      CHECK(completed(implicit_job(kItem, model)).model.outputs[0].loss == loss);
      CHECK(completed(implicit_job(kItem, model, ", label = {}")).model.outputs[0].target ==
            "label");
    }
  }
  CHECK(error_of(implicit_job(kItem, "preset = \"deepfm\", loss = \"bpr\", target = \"click\""))
            .what == "the preset's target `click` is not a field");
}

TEST_CASE("a loss that compares needs negatives", "[job]") {
  for (const char* const loss : {"bpr", "sampled_softmax"}) {
    for (const char* const label : {"", ", label = {}"}) {
      CAPTURE(loss, label);
      const Error error =
          error_of(implicit_job("", str("preset = \"deepfm\", loss = \"", loss, "\""), label));
      CHECK(error.what ==
            str("the loss ", loss, " compares records with negatives, but the job has none"));
      CHECK(error.hint.find("data.negatives = { fields = [\"item\"], per_record = 4 }") !=
            std::string::npos);
    }
  }
}

TEST_CASE("errors of negatives name the key and the field", "[job]") {
  const auto what = [](const std::string& negatives, const std::string& fields = "",
                       const std::string& model = "preset = \"deepfm\", loss = \"bpr\"") {
    return error_of(implicit_job(negatives, model, fields)).what;
  };
  CHECK(what("per_record = 4") == "data.negatives has no `fields`");
  CHECK(what("fields = [\"item\"]") == "data.negatives has no `per_record`");
  CHECK(what("fields = [\"items\"], per_record = 4") == "there is no field `items`");
  CHECK(what("fields = [\"item\", \"item\"], per_record = 4") ==
        "the field `item` is listed twice");
  CHECK(what("fields = [\"item\", \"label\"], per_record = 4", ", label = {}") ==
        "the field `label` is the target or the weights of output `score`");
  CHECK(what("fields = [\"item\"], per_record = 4", ", label = { shape = [2] }") ==
        "the target `label` has a shape, but the target of a record is 1 and that of a negative 0");
  CHECK(what("fields = [\"item\"], per_record = 0").find("per_record") != std::string::npos);
  CHECK(what("fields = [\"item\"], per_record = 1025").find("1025") != std::string::npos);
  CHECK(what("fields = [\"user\"], per_record = 2", "",
             "preset = \"deepfm\", loss = \"bpr\", inputs = [\"item\"]") ==
        "no layer reads the field `user`");
  CHECK(what(kItem, "", "preset = \"deepfm\", loss = \"squared\"") ==
        "output `value` has the loss squared, which data.negatives does not support");
  CHECK(error_of("train.batch_size = 1000000\n" +
                 implicit_job("fields = [\"item\"], per_record = 20"))
            .what ==
        "a batch of 1000000 records with 20 negatives each has 21000000 rows, but at most 16777216 "
        "are possible");
  CHECK(error_of(
            implicit_job(kItem,
                         "variables = [{ name = \"v\", fields = [\"item\"], dim = 2 }], outputs = "
                         "[{ name = \"score\", loss = \"bpr\", target = \"label\" }]",
                         ", label = {}"))
            .what == "data.negatives does not support a model of variables");
}

TEST_CASE("a cross may have fields of the item or other fields, but not both", "[job]") {
  const std::string model = "preset = \"deepfm\", loss = \"bpr\"";
  const std::string more =
      ", genre = { type = \"string\" }, age = { type = \"string\" }, both = { transform = [{ op = "
      "\"cross\", fields = [";
  const auto job = [&](const std::string& crossed, const std::string& listed = "") {
    return implicit_job("fields = [\"item\", \"genre\"" + listed + "], per_record = 4", model,
                        more + crossed + "] }] }");
  };
  completed(job("\"item\", \"genre\""));
  completed(job("\"item\", \"genre\"", ", \"both\""));
  completed(job("\"user\", \"age\""));
  CHECK(error_of(job("\"item\", \"age\"")).what ==
        "the field `both` crosses `item` of the item with `age`, and a negative would need a key "
        "that was not pulled");
  CHECK(error_of(job("\"user\", \"age\"", ", \"both\"")).what ==
        "the field `both` crosses `age`, which does not describe the item");
}

TEST_CASE("machines of scores that are compared train with summed gradients", "[job]") {
  for (const char* preset : {"factorization_machine", "matrix_factorization"}) {
    const Job job =
        completed(implicit_job(kItem, str("preset = \"", preset, "\", loss = \"bpr\"")));
    CHECK(job.train.reduction == "sum");
    CHECK(job.optimizer.type == OptimizerType::kAdagrad);
    CHECK(job.optimizer_rules.empty());
  }
}

TEST_CASE("the negatives of an epoch that has begun do not change", "[job][resume]") {
  const Job saved = completed(implicit_job(kItem));
  const Job now = completed(implicit_job("fields = [\"item\"], per_record = 5"));
  CHECK(frozen_differences(saved, now, /*epoch_open=*/false).empty());
  const auto differences = frozen_differences(saved, now, /*epoch_open=*/true);
  REQUIRE(differences.size() == 1);
  CHECK(differences[0].key == "data.negatives.per_record");
}

}  // namespace
}  // namespace downpour::test
