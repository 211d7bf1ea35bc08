// Helpers for the tests of jobs: jobs from text, with an environment that the test sets.
#pragma once

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>

#include <catch2/catch.hpp>

#include "shared/job/job_file.h"
#include "shared/job/preset.h"
#include "shared/job/validate.h"

namespace downpour::test {

inline Environment environment_of(std::map<std::string, std::string> values) {
  return [values = std::move(values)](const std::string& name) -> std::optional<std::string> {
    const auto found = values.find(name);
    if (found == values.end()) return std::nullopt;
    return found->second;
  };
}

inline Result<LoadedJob> load_text(const std::string& text, std::vector<Override> overrides = {},
                                   std::map<std::string, std::string> values = {}) {
  return load_job(JobSource{"/jobs/job.toml", text}, overrides, environment_of(std::move(values)));
}

inline Job loaded(const std::string& text, std::vector<Override> overrides = {},
                  std::map<std::string, std::string> values = {}) {
  auto job = load_text(text, std::move(overrides), std::move(values));
  INFO((job ? std::string() : job.error().where + ": " + job.error().what));
  REQUIRE(job);
  return std::move(*job).job;
}

inline Job completed(const std::string& text) {
  Job job = loaded(text);
  const auto done = complete_job(job);
  INFO((done ? std::string() : done.error().where + ": " + done.error().what));
  REQUIRE(done);
  return job;
}

/// Returns the error of the text, from any step on the way to a complete job.
inline Error error_of(const std::string& text, std::vector<Override> overrides = {},
                      std::map<std::string, std::string> values = {}) {
  auto job = load_text(text, std::move(overrides), std::move(values));
  if (!job) return std::move(job).error();
  auto done = complete_job(job->job);
  REQUIRE_FALSE(done);
  return located(std::move(done).error(), job->origins);
}

/// Returns the text of a small, complete job. A test can append to it.
inline std::string small_job(const std::string& more = {}) {
  return "data.source = \"a9a\"\ndata.format = \"libsvm\"\nmodel.preset = "
         "\"logistic_regression\"\n" +
         more;
}

inline std::filesystem::path examples_dir() {
  return std::filesystem::path(__FILE__).parent_path() / "../../../docs/examples";
}

inline std::string read_text(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

}  // namespace downpour::test
