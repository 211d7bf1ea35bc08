// The command line of a program without verbs.
#include "shared/flags/flags.h"

#include <optional>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "shared/base/result.h"

namespace downpour {
namespace {

struct Values {
  std::string job, bind = "here", role = "worker";
  bool fresh = false;
  uint32_t threads = 1, index = 7;
  int64_t wait_s = 10;
  std::vector<std::string> set;
};

/// Parses the arguments into `values`. Returns what parse_flags() returns.
std::optional<int> parse(Values& values, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "program");
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  return parse_flags(
      {.purpose = "Runs.", .examples = "Example:\n  program job.toml"},
      {{.name = "job", .target = &values.job, .help = "Job", .required = true},
       {.name = "--bind", .target = &values.bind, .help = "Address"},
       {.name = "--role",
        .target = &values.role,
        .help = "Role",
        .group = "Cluster",
        .allowed = {"worker", "input"}},
       {.name = "--fresh", .target = &values.fresh, .help = "New run"},
       {.name = "--threads", .target = &values.threads, .help = "Threads", .range = {{1, 256}}},
       {.name = "--index", .target = &values.index, .help = "Index", .default_shown = false},
       {.name = "--wait", .target = &values.wait_s, .help = "Seconds"},
       {.name = "--set", .target = &values.set, .help = "Override"}},
      int(argv.size()), argv.data());
}

TEST_CASE("each flag sets its variable, and the others keep their values", "[flags]") {
  Values values;
  REQUIRE_FALSE(parse(values, {"--fresh", "job.toml", "--threads=8", "--wait", "-1", "--set", "a=1",
                               "--set", "b=2"}));
  CHECK(values.job == "job.toml");
  CHECK(values.fresh);
  CHECK(values.threads == 8);
  CHECK(values.wait_s == -1);
  CHECK(values.set == std::vector<std::string>{"a=1", "b=2"});
  CHECK(values.bind == "here");
  CHECK(values.role == "worker");
  CHECK(values.index == 7);
}

TEST_CASE("a wrong command line ends the program with the exit status of wrong usage", "[flags]") {
  const std::vector<std::vector<std::string>> wrong = {
      {},                              // the job is required
      {"job", "more"},                 // a vector takes one value for each --set
      {"job", "--set", "a=1", "b=2"},  //
      {"job", "--threads", "0"},       // below the range
      {"job", "--threads", "257"},     // above the range
      {"job", "--index", "-1"},        // not an unsigned number
      {"job", "--role", "chief"},      // not one of the allowed values
      {"job", "--unknown"},            //
  };
  for (const std::vector<std::string>& arguments : wrong) {
    Values values;
    CAPTURE(arguments);
    CHECK(parse(values, arguments) == exit_code(ErrorCode::kUsage));
  }
}

TEST_CASE("--help and --version end the program with success", "[flags]") {
  Values values;
  CHECK(parse(values, {"--help"}) == 0);
  CHECK(parse(values, {"--version"}) == 0);
}

}  // namespace
}  // namespace downpour
