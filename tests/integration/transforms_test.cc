// The transforms example as a user runs it: train, resume, eval, predict.
#include <algorithm>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/support/program.h"

namespace downpour::testing {
namespace {

std::string articles(int rows) {
  static const char* const kColors[] = {"red", "green", "blue", "pink", ""};
  std::string text;
  for (int i = 0; i < rows; ++i) {
    const int age = 15 + i * 7 % 70;
    text += std::to_string(int(age > 40) ^ int(i % 11 == 0)) + "," + std::to_string(age) + "," +
            std::to_string(i % 90) + ".5," + kColors[i % 5] + "," + std::to_string(i % 12) +
            ",The Lamp of the House " + std::to_string(i % 40) + ",";
    for (int k = 0; k < i % 5; ++k) text += std::to_string(i % (k + 2)) + " ";
    text += "\n";
  }
  return text;
}

TEST_CASE("the transforms example trains, resumes, is evaluated and predicts", "[integration]") {
  const ScratchDir dir;
  const std::string example = std::string(DP_SOURCE_DIR) + "/docs/examples/transforms.toml";
  const std::string data = dir.write("a.csv", articles(3000)), run = dir / "run";
  const auto go = [&](std::vector<std::string> arguments) {
    const Ended ended = Program("downpour", arguments, dir.path()).wait(120);
    INFO(ended.err);
    CHECK(ended.status == 0);
    return ended;
  };
  const auto train = [&](const char* epochs) {
    return go({"train", example, "--quiet", "--set", "data.source=" + data, "--set",
               "run_dir=" + run, "--epochs", epochs});
  };
  train("1");
  const std::string job = read_text(run + "/job.toml");
  CHECK(job.find("op = \"standardize\", mean = ") != std::string::npos);
  CHECK(job.find("op = \"min_max\", min = 15.0, max = 78.0") != std::string::npos);
  // The data change after the first epoch. The learned parameters stay.
  dir.write("a.csv", articles(1000) + "0,500,1,red,1,x,1\n");
  train("2");
  CHECK(read_text(run + "/job.toml").find("min = 15.0, max = 78.0") != std::string::npos);
  go({"eval", run, "--data", data});
  const Ended predicted = go({"predict", run, "--data", data});
  CHECK(std::count(predicted.out.begin(), predicted.out.end(), '\n') == 1001);
  CHECK(go({"predict", run, "--data", data}).out == predicted.out);  // noise and dropout are off
}

}  // namespace
}  // namespace downpour::testing
