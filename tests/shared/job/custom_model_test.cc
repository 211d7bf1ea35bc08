// Models of variables, whose gradients a program computes: reading, printing and errors.
#include "tests/shared/job/job_test_support.h"

using namespace downpour;
using namespace downpour::test;

namespace {

std::string custom_job(const std::string& model, const std::string& more = {}) {
  return "data.source = \"d.csv\"\ndata.format = \"csv\"\ndata.columns = [\"a\", \"b\", \"id\", "
         "\"label\"]\ndata.fields = { a = {}, b = {}, id = { type = \"string\" }, label = {} }\n" +
         more + "[model]\n" + model + "\n";
}

constexpr const char* kVariables =
    "variables = [{ name = \"w\", shape = [2, 1] }, { name = \"rows\", fields = [\"id\"], dim = 8, "
    "init = { type = \"normal\", scale = 0.5 } }]\n";
constexpr const char* kOutputs =
    "outputs = [{ name = \"p\", loss = \"logistic\", target = \"label\" }]\n";

std::string what_of(const std::string& model, const std::string& more = {}) {
  const Error error = error_of(custom_job(model, more));
  return error.what + " | " + error.hint;
}

}  // namespace

TEST_CASE("a model of variables is read, and printed as it was read", "[job]") {
  const Job job = completed(custom_job(std::string(kVariables) + kOutputs));
  CHECK(job.model.is_custom());
  REQUIRE(job.model.variables.size() == 2);
  CHECK(job.model.variables[0].shape == std::vector<uint32_t>{2, 1});
  CHECK(job.model.variables[1].fields == std::vector<std::string>{"id"});
  CHECK(job.model.variables[1].dim == 8);
  CHECK(job.model.variables[1].init == InitSpec{InitType::kNormal, 0.5F});
  CHECK(job.model.outputs[0].metrics == std::vector<std::string>{"auc", "logloss", "calibration"});
  const auto again = job_from_toml(job_to_toml(job), "/jobs");
  REQUIRE(again);
  CHECK(again->model == job.model);
}

TEST_CASE("errors of a model of variables name the key and what to change", "[job]") {
  using Catch::Contains;
  const std::string both = std::string(kVariables) + kOutputs;
  CHECK_THAT(what_of("preset = \"wide_deep\"\n" + both), Contains("can't be combined with layers"));
  CHECK_THAT(what_of("target = \"label\"\n" + both), Contains("can't be combined with layers"));
  CHECK_THAT(what_of(both, "train = { mode = \"local\", replicas = 2 }\n"),
             Contains("mode \"local\" needs a model of layers"));
  CHECK_THAT(what_of(both, "train = { mode = \"mixed\", replicas = 2 }\n"),
             Contains("mode \"mixed\" needs a model of layers"));
  CHECK_THAT(what_of(kVariables), Contains("the model has no outputs"));
  const auto variable = [](const char* text) {
    return what_of(str("variables = [{ ", text, " }]\n", kOutputs));
  };
  CHECK_THAT(variable("name = \"w\""), Contains("needs either fields or a shape"));
  CHECK_THAT(variable("name = \"w\", shape = [2], fields = [\"id\"], dim = 2"),
             Contains("needs either fields or a shape"));
  CHECK_THAT(variable("name = \"w\", fields = [\"id\"]"), Contains("has no dim"));
  CHECK_THAT(variable("name = \"w\", shape = [2], dim = 2"), Contains("has a shape and a dim"));
  CHECK_THAT(variable("name = \"w\", shape = [0]"), Contains("from 1 to"));
  CHECK_THAT(variable("name = \"w*\", shape = [2]"), Contains("can't have the name"));
  CHECK_THAT(variable("name = \"w\", fields = [\"a\"], dim = 2"), Contains("`a` gives numbers"));
  CHECK_THAT(variable("name = \"w\", fields = [\"ID\"], dim = 2"), Contains("there is no field"));
  CHECK_THAT(what_of(std::string(kVariables) +
                     "outputs = [{ name = \"p\", input = \"w\", loss = \"logistic\", target = "
                     "\"label\" }]\n"),
             Contains("has an input, but the model has no layers"));
  CHECK_THAT(what_of(std::string(kVariables) +
                     "outputs = [{ name = \"p\", loss = \"logistic\", offset = \"auto\", target = "
                     "\"label\" }]\n"),
             Contains("has an offset or a scale, but the model has no layers"));
}
