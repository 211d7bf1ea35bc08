#include "shared/job/outline.h"

#include <catch2/catch.hpp>

#include "shared/job/file_job.h"
#include "shared/job/job_file.h"
#include "shared/job/preset.h"

namespace downpour {
namespace {

std::optional<std::string> no_environment(const std::string&) { return std::nullopt; }

FileFacts facts_of(DataFormat format) {
  FileFacts facts{.path = "/data/clicks.csv", .format = format, .records_estimated = 60'000};
  if (format == DataFormat::kLibsvm) {
    facts.path = "/data/clicks.libsvm";
    facts.pairs_per_record = 50;
    return facts;
  }
  facts.columns = {"age", "c1", "c2", "c3", "label"};
  facts.header = true;
  facts.target = "label";
  FieldSpec age{.name = "age", .fallback = "37"};
  age.transform.push_back(ops::Quantile{.intervals = 64});
  facts.fields.push_back(age);
  for (const char* name : {"c1", "c2", "c3"})
    facts.fields.push_back({.name = name, .type = FieldType::kString, .fallback = ""});
  facts.fields.push_back({.name = "label"});
  return facts;
}

/// Returns the complete job of a text.
Job complete(const std::string& text) {
  auto loaded = load_job(JobSource{"/jobs/clicks.toml", text}, {}, no_environment);
  INFO((loaded ? "" : loaded.error().what + " " + loaded.error().where) << "\n" << text);
  REQUIRE(loaded);
  const auto done = complete_job(loaded->job);
  INFO((done ? "" : done.error().what));
  REQUIRE(done);
  return loaded->job;
}

TEST_CASE("an outline loads back to the job that the whole text gives", "[job][outline]") {
  for (const DataFormat format : {DataFormat::kCsv, DataFormat::kLibsvm}) {
    for (const uint32_t classes : {0U, 2U, 5U}) {
      CAPTURE(int(format), classes);
      FileFacts facts = facts_of(format);
      facts.classes = classes;
      const Job job = job_for_file(facts, "/jobs");
      CHECK(complete(job_outline(job)) == complete(job_to_toml(job)));
    }
  }
}

TEST_CASE("an outline is short: values that differ from the defaults, and a line per field",
          "[job][outline]") {
  Job job = job_for_file(facts_of(DataFormat::kCsv), "/jobs");
  const std::string text = job_outline(job);
  CAPTURE(text);
  CHECK(std::count(text.begin(), text.end(), '\n') < 40);
  CHECK(text.find("fields.\"c1..c3\" = { type = \"string\", default = \"\" }\n") !=
        std::string::npos);
  CHECK(text.find("in_flight") == std::string::npos);
  CHECK(text.find("\ntarget = \"label\"" + std::string(18, ' ') + "# the field to predict\n") !=
        std::string::npos);
  CHECK(text.find("# The preset chooses the optimizers: adam with learning rate 0.001;\n"
                  "# for wide/weights ftrl") != std::string::npos);
}

TEST_CASE("an outline shows type and rate of an optimizer, also with their default values",
          "[job][outline]") {
  const std::string text = job_outline(job_for_file(facts_of(DataFormat::kLibsvm), "/jobs"));
  CAPTURE(text);
  CHECK(text.find("[optimizer]\ntype = \"ftrl\"") != std::string::npos);
  CHECK(text.find("learning_rate = 0.2") != std::string::npos);
  CHECK(text.find("rules = [{ variables = \"linear/*\", type = \"ftrl\", learning_rate = 0.1, "
                  "l2 = 1.0 }]") != std::string::npos);
}

}  // namespace
}  // namespace downpour
