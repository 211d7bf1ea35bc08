// The type rules of ops, and the errors for an op that does not accept its input.
#include "shared/job/field_output.h"

#include "tests/shared/job/job_test_support.h"

namespace downpour {
namespace {

std::string csv_job(const std::string& fields) {
  return "data.source = \"d\"\ndata.format = \"csv\"\ndata.columns = [\"x\", \"label\"]\n"
         "model.preset = \"logistic_regression\"\ndata.fields.label = {}\n" +
         fields + "\n";
}

TEST_CASE("an op on a type that it does not accept is an error with line, field and hint",
          "[job][transform]") {
  struct Case {
    const char* field;
    const char* what;
  };
  for (const auto& [field, what] : std::initializer_list<Case>{
           {"{ transform = [\"hash\"] }", "hash in field `x` can't be applied to numbers"},
           {"{ transform = [\"identity\"] }", "identity in field `x` can't be applied to numbers"},
           {"{ transform = [{ op = \"vocabulary\", words = [\"a\"] }] }",
            "vocabulary in field `x` can't be applied to numbers"},
           {"{ type = \"string\", transform = [{ op = \"bucketize\", boundaries = [1] }] }",
            "bucketize in field `x` can't be applied to strings"},
           {"{ type = \"string\", transform = [\"identity\"] }",
            "identity in field `x` can't be applied to strings"},
           {"{ type = \"int64\", transform = [\"log1p\", \"hash\"] }",
            "hash in field `x` can't be applied to numbers"},
           {"{ shape = [-1], transform = [\"standardize\", \"pool\"] }",
            "standardize in field `x` can't learn from lists"},
           {"{ transform = [{ op = \"pad\", length = 3 }] }",
            "pad in field `x` needs a field of any length"},
           {"{ type = \"string\", transform = [\"hash\", \"tokens\"] }",
            "tokens in field `x` can't be applied to keys"},
           {"{ transform = [{ op = \"noise\", stddev = 1 }, { op = \"bucketize\", boundaries = "
            "[1] }] }",
            "bucketize in field `x` follows an op for lists or a random op"},
           {"{ transform = [{ op = \"cross\", fields = [\"label\"] }] }",
            "cross in field `x` crosses fewer than two fields"},
           {"{ transform = [{ op = \"cross\", fields = [\"label\", \"other\"] }] }",
            "cross in field `x` crosses `label`, which gives numbers"},
           {"{ type = \"string\", shape = [-1], transform = [{ op = \"pad\", length = 3 }] }",
            "pad in field `x` can't be applied to strings"},
           {"{ transform = [{ op = \"bucketize\", boundaries = [1] }, \"log1p\"] }",
            "log1p in field `x` can't be applied to keys"}}) {
    INFO(field);
    const Error error = test::error_of(csv_job(str("data.fields.x = ", field)));
    CHECK(error.what == what);
    CHECK(error.where.starts_with("/jobs/job.toml:6:"));
    CHECK(error.id == "DP-2106");
    CHECK_FALSE(error.hint.empty());
  }
}

TEST_CASE("with several ops the error points at the wrong one", "[job][transform]") {
  const Error error = test::error_of(
      csv_job("[data.fields.x]\ntype = \"string\"\ntransform = [\n  \"hash\",\n  \"log1p\",\n]"));
  CHECK(error.what == "log1p in field `x` can't be applied to keys");
  CHECK(error.where == "/jobs/job.toml:10:3");
}

TEST_CASE("invalid options are reported when the job is read", "[job][transform]") {
  const auto what = [](const std::string& type, const std::string& op) {
    return test::error_of(csv_job(str("data.fields.x = { type = \"", type, "\", transform = [{ ",
                                      op, " }] }")))
        .what;
  };
  CHECK(what("float32", "op = \"bucketize\"") == "bucketize in field `x` has no boundaries");
  CHECK(what("float32", "op = \"bucketize\", boundaries = [2, 1]") ==
        "bucketize in field `x` has boundaries that are not in ascending order: 2, 1");
  CHECK(what("float32", "op = \"bucketize\", boundaries = [1, 1]") ==
        "bucketize in field `x` has boundaries that are not in ascending order: 1, 1");
  CHECK(what("float32", "op = \"bucketize\", boundaries = [nan]") ==
        "`data.fields.x.transform[0].boundaries` can't be infinite or NaN");
  CHECK(what("float32", "op = \"standardize\", mean = 1") ==
        "standardize in field `x` has only one of mean and scale");
  CHECK(what("float32", "op = \"standardize\", mean = 1, scale = 0") ==
        "standardize in field `x` needs a scale above 0");
  CHECK(what("float32", "op = \"min_max\", min = 1, max = 1") ==
        "min_max in field `x` needs a min below its max");
  CHECK(what("float32", "op = \"quantile\", boundaries = [1]") ==
        "quantile in field `x` has 1 boundaries");
  CHECK(what("float32", "op = \"quantile\", boundaries = [2, 1]") ==
        "quantile in field `x` has boundaries that are not in ascending order: 2, 1");
  CHECK(what("string", "op = \"vocabulary\"") ==
        "vocabulary in field `x` needs either a file or a list of words");
  CHECK(what("string", "op = \"vocabulary\", words = [\"a\", \"b\", \"a\"]") ==
        "vocabulary in field `x` has the word \"a\" twice");
  CHECK(what("string", "op = \"vocabulary\", words = [\"a\"], unknown = \"default\"") ==
        "vocabulary in field `x` has no default for unknown words");
  CHECK(what("string", "op = \"vocabulary\", words = [\"a\"], unknown = \"hash\", buckets = 0") ==
        "`data.fields.x.transform[0].buckets` can't be 0");
  CHECK(what("int64", "op = \"identity\", buckets = 8, default = 8") ==
        "identity in field `x` has a default that is not less than `buckets`");
}

TEST_CASE("integers that are equal as 32-bit floats are valid boundaries of an int64 field",
          "[job][transform]") {
  const std::string op =
      "transform = [{ op = \"bucketize\", boundaries = [20240100, 20240101] }] }";
  const Job job = test::completed(csv_job("data.fields.x = { type = \"int64\", " + op));
  CHECK(job.data.find_field("x")->transform ==
        std::vector<TransformSpec>{ops::Bucketize{.boundaries = {20240100, 20240101}}});
  CHECK(
      test::error_of(csv_job("data.fields.x = { " + op)).what ==
      "bucketize in field `x` has boundaries that are not in ascending order: 20240100, 20240101");
}

TEST_CASE("a job with ops is printed and reads back unchanged", "[job][transform]") {
  for (const TransformSpec& op : {TransformSpec(ops::Quantile{.intervals = 7}),
                                  TransformSpec(ops::Quantile{.boundaries = {0.5, 2.0}})}) {
    Job quantiles = test::completed(csv_job("data.fields.x = { transform = [\"quantile\"] }"));
    quantiles.data.fields[0].transform = {op};
    const auto read = job_from_toml(job_to_toml(quantiles), "/elsewhere");
    REQUIRE(read);
    CHECK(read->data.fields == quantiles.data.fields);
  }
  const Job job = test::completed(
      csv_job("data.fields.x = { transform = [{ op = \"min_max\", min = -1, max = 3 }, { op = "
              "\"bucketize\", boundaries = [0.1, 0.5] }] }\n"
              "data.fields.y = { column = \"x\", type = \"string\", transform = [{ op = "
              "\"vocabulary\", file = \"words.txt\", unknown = \"hash\", buckets = 64 }] }"));
  CHECK(std::get<ops::Vocabulary>(job.data.find_field("y")->transform[0]).file ==
        "/jobs/words.txt");
  const auto again = job_from_toml(job_to_toml(job), "/elsewhere");
  REQUIRE(again);
  CHECK(again->data.fields == job.data.fields);
}

TEST_CASE("tokens and strings are hashed by default, and a cross needs no column",
          "[job][transform]") {
  const Job job = test::completed(
      csv_job("data.fields.x = { type = \"string\", transform = [\"tokens\"] }\n"
              "data.fields.y = { column = \"x\", type = \"string\" }\n"
              "data.fields.xy = { transform = [{ op = \"cross\", fields = [\"x\", \"y\"], "
              "buckets = 100 }] }"));
  REQUIRE(job.data.find_field("x")->transform.size() == 2);
  CHECK(job.data.find_field("x")->transform[1] == TransformSpec(ops::Hash{}));
  CHECK(is_cross(*job.data.find_field("xy")));
  const auto again = job_from_toml(job_to_toml(job), "/elsewhere");
  REQUIRE(again);
  CHECK(again->data.fields == job.data.fields);
}

TEST_CASE("pad and pool determine the shape of a field of numbers of any length",
          "[job][transform]") {
  FieldSpec field{.name = "x", .shape = {-1}, .transform = {ops::Pad{.length = 7}}};
  CHECK_FALSE(is_sparse(field));
  CHECK(number_shape(field) == std::vector<int64_t>{7});
  field.transform = {ops::Pool{}};
  CHECK(number_shape(field).empty());
}

TEST_CASE("the ops of a field decide if it gives keys or numbers", "[job][transform]") {
  FieldSpec field{.name = "x"};
  CHECK_FALSE(is_sparse(field));
  field.transform = {ops::Log1p{}, ops::Bucketize{}};
  CHECK(is_sparse(field));
  field = {.name = "x", .type = FieldType::kInt64};
  CHECK_FALSE(is_sparse(field));
  field.transform = {ops::Vocabulary{}};
  CHECK(is_sparse(field));
}

TEST_CASE("a model of layers that reads the target of its output is rejected", "[job]") {
  const auto job = [](const std::string& loss, const std::string& last) {
    return "data = { source = \"d\", format = \"csv\", columns = [\"x\", \"y\", \"z\"], fields = { "
           "x = {}, "
           "y = {}, z = {} } }\nmodel.layers = [{ name = \"h\", type = \"dense\", inputs = "
           "[\"x\", \"y\"], units = 2 }, { name = \"a\", type = \"dense\", inputs = [\"" +
           last +
           "\"], units = 1 }]\nmodel.outputs = [{ name = \"out\", input = \"a\", target = "
           "\"y\", loss = \"" +
           loss + "\" }]\n";
  };
  const Error error = test::error_of(job("logistic", "h"));
  CHECK(error.what == "output `out` predicts `y`, which its layers read");
  CHECK(error.id == "DP-2107");
  // Another output may read it, and an autoencoder predicts its inputs.
  test::completed(job("squared", "h"));
  test::completed(job("logistic", "z"));
}

}  // namespace
}  // namespace downpour
