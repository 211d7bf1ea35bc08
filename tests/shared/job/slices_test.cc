// The key eval.slices: how it is read, printed and checked.
#include <catch2/catch.hpp>

#include "tests/shared/job/job_test_support.h"

namespace downpour::test {
namespace {

std::string job_with(const std::string& slices, const std::string& more = "") {
  return "data.source = \"a9a\"\ndata.format = \"csv\"\n"
         "data.columns = [\"x\", \"y\", \"city\", \"tags\"]\n"
         "data.fields = { x = {}, y = {}, city = { type = \"string\" }, tags = { type = "
         "\"string\", shape = [-1] } }\n"
         "model.layers = [{ name = \"l\", type = \"linear\", inputs = [\"x\"] }]\n"
         "model.outputs = [{ name = \"o\", input = \"l\", loss = \"squared\", target = \"y\" }]\n"
         "eval.holdout = 0.1\neval.slices = " +
         slices + "\n" + more;
}

TEST_CASE("a slice is a name or a table, and is printed with all that was chosen", "[job]") {
  Job job = loaded(job_with("[\"city\", { field = \"x\", values = [\"1\", \"a \\\"b\\\"\"] }]"));
  REQUIRE(job.eval.slices.size() == 2);
  CHECK(job.eval.slices[0] == SliceSpec{.field = "city"});
  CHECK(job.eval.slices[0].rows() == 21);
  CHECK(job.eval.slices[1].rows() == 3);
  CHECK(job.eval.slices[1].values[1] == "a \"b\"");
  CHECK(loaded(job_with("[{ field = \"city\", top = 3 }]")).eval.slices[0].rows() == 4);
  job.eval.slices[0].values = {"Oslo"};
  const auto again = job_from_toml(job_to_toml(job), job.base_dir);
  REQUIRE(again);
  CHECK(again->eval.slices == job.eval.slices);
}

TEST_CASE("wrong slices are errors that name the key", "[job]") {
  struct Case {
    const char* slices;
    const char* what;
  };
  for (const auto& [slices, what] :
       {Case{"[\"town\"]", "there is no field `town`"},
        Case{"\"city\"", "a list of names or tables"}, Case{"[3]", "a list of names or tables"},
        Case{"[{ values = [\"a\"] }]", "a slice needs a `field`"},
        Case{"[\"tags\"]", "no single value"},
        Case{"[\"city\", \"city\"]", "`city` is listed twice"},
        Case{"[{ field = \"city\", values = [\"a\", \"a\"] }]", "\"a\" is listed twice"},
        Case{"[{ field = \"city\", values = [\"\"] }]", "missing value"},
        Case{"[{ field = \"city\", top = 1000 }, \"x\", \"y\"]", "1043 rows"},
        Case{"[{ field = \"city\", top = 0 }]", "top"}}) {
    CAPTURE(slices);
    const Error error = error_of(job_with(slices));
    CHECK((error.what + error.where).find(what) != std::string::npos);
    CHECK(error.where.find("job.toml:8") != std::string::npos);
  }
}

TEST_CASE("groups need a field, a logistic output and batches that fit a message", "[job]") {
  const std::string base =
      "data.source = \"a9a\"\ndata.format = \"csv\"\ndata.columns = [\"x\", \"y\", \"user\"]\n"
      "data.fields = { x = {}, y = {}, user = { type = \"string\" } }\n"
      "model = { preset = \"logistic_regression\", target = \"y\", inputs = [\"x\"] }\n";
  const Job job = completed(base +
                            "eval = { group_by = \"user\", ndcg_at = 5, metrics = "
                            "[\"gauc\", \"ndcg\"] }\n");
  CHECK(job.eval.group_by == "user");
  const auto again = job_from_toml(job_to_toml(job), job.base_dir);
  REQUIRE(again);
  CHECK(again->eval == job.eval);
  CHECK(error_of(base + "eval.metrics = [\"auc\", \"gauc\"]\n").what ==
        "the metric gauc needs groups");
  CHECK(error_of(base + "eval.early_stop = { metric = \"ndcg\", patience = 2 }\n").what ==
        "the metric ndcg needs groups");
  CHECK(error_of(base + "eval.group_by = \"usr\"\n").hint == "did you mean `user`?");
  CHECK(error_of(base + "eval.group_by = \"user\"\ntrain.batch_size = 65537\n").what ==
        "with eval.group_by a batch may have at most 65536 records, but it has 65537");
  CHECK(error_of(job_with("[]", "eval.group_by = \"city\"\n")).what.find("target is 0 or 1") !=
        std::string::npos);
}

TEST_CASE("top_k is read, printed and checked", "[job]") {
  const Job job = loaded(job_with("[]", "eval.top_k = 3\n"));
  CHECK(job.eval.top_k == 3);
  CHECK(job_from_toml(job_to_toml(job), job.base_dir)->eval.top_k == 3);
  CHECK(error_of(job_with("[]", "eval.top_k = 0\n")).where.find("job.toml:9") != std::string::npos);
}

}  // namespace
}  // namespace downpour::test
