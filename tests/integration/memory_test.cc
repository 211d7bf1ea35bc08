// A real job whose tables exceed cluster.ps_memory: it ends with the reason, and resumes with more
// memory.
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/support/program.h"

namespace downpour::testing {
namespace {

using Json = nlohmann::json;

constexpr int kRows = 20'000;

Ended train(const ScratchDir& dir, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(),
                   {"train", dir / "job.toml", "--log-format", "json", "--quiet"});
  return Program("downpour", arguments, dir.path()).wait(120);
}

uint64_t table_bytes_max(const Json& done) {
  uint64_t most = 0;
  for (const Json& process : done["processes"]) {
    if (process["role"] == "ps") most = std::max(most, process["table_bytes"].get<uint64_t>());
  }
  return most;
}

TEST_CASE(
    "a job whose tables exceed cluster.ps_memory ends with the table's name, and resumes with more "
    "memory",
    "[integration]") {
  const ScratchDir dir;
  const Ended made =
      Program("downpour",
              {"synth", dir / "train.svm", "--rows", std::to_string(kRows), "--ids", "20000"},
              dir.path())
          .wait(60);
  REQUIRE(made.status == 0);
  dir.write("job.toml",
            "data = { source = \"train.svm\", format = \"libsvm\", shard_records = 500 }\n"
            "model = { preset = \"logistic_regression\" }\n"
            "optimizer = { type = \"ftrl\", learning_rate = 0.1 }\n"
            "train = { epochs = 1, batch_size = 100, checkpoint = { every = 40 } }\n");
  for (const std::vector<std::string>& cluster :
       {std::vector<std::string>{}, {"--ps", "2", "--workers", "2"}}) {
    const auto with = [&](std::vector<std::string> more) {
      more.insert(more.end(), cluster.begin(), cluster.end());
      return more;
    };
    const Ended whole = train(dir, with({"--fresh"}));
    INFO(whole.err);
    REQUIRE(whole.status == 0);
    const uint64_t all_bytes = table_bytes_max(Json::parse(whole.out));
    REQUIRE(all_bytes > 0);

    const Ended full = train(
        dir, with({"--fresh", "--set", "cluster.ps_memory=" + std::to_string(all_bytes / 2)}));
    INFO(full.err);
    CHECK(full.status == 78);
    CHECK(full.err.find("DP-2401") != std::string::npos);
    CHECK(full.err.find("(cluster.ps_memory); the largest table is ") != std::string::npos);
    CHECK(full.err.find("is restarted") == std::string::npos);

    const Ended more = train(dir, with({}));
    INFO(more.err);
    REQUIRE(more.status == 0);
    const Json done = Json::parse(more.out);
    REQUIRE(done["accounts"].size() == 1);
    CHECK(done["accounts"][0]["read"] == kRows);
    CHECK(done["accounts"][0]["applied"] == kRows);
  }
}

}  // namespace
}  // namespace downpour::testing
