// Counter rows: a data set and a model whose weights tell how often each row counted.
#pragma once

#include <map>
#include <sstream>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/support/program.h"

namespace downpour::testing {

/// Row i as libsvm: its one feature is 1,000,000 + i, and its target so large that each time the
/// row counts its weight grows by exactly 1 (gradient -2^31, rate 2^-31).
inline std::string counter_row(int i) {
  return "1073741824 " + std::to_string(1'000'000 + i) + ":1\n";
}

/// The keys of a job file for that: model and optimizer.
inline std::string counter_model() {
  return "model.layers = [{ name = \"w\", type = \"linear\", inputs = [\"features\"], bias = false "
         "}]\n"
         "model.outputs = [{ name = \"y\", input = \"w\", loss = \"squared\", target = \"label\" "
         "}]\n"
         "optimizer = { type = \"sgd\", learning_rate = 4.656612873077392578125e-10 }\n";
}

/// How often the rows of these files counted in the run below `dir`: rows by count.
inline std::map<int, int> rows_by_count(const ScratchDir& dir,
                                        const std::vector<std::string>& files) {
  std::vector<std::string> arguments = {"predict", dir / "run", "--allow-exec", "--data"};
  for (const std::string& file : files) arguments.push_back(dir / file);
  const Ended predicted = Program("downpour", arguments, dir.path()).wait(120);
  INFO(predicted.err);
  REQUIRE(predicted.status == 0);
  std::map<int, int> rows;
  std::istringstream lines(predicted.out);
  for (double weight = 0; lines >> weight;) ++rows[int(weight)];
  return rows;
}

}  // namespace downpour::testing
