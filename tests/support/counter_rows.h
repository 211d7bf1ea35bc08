// Counter rows: a data set and a model whose weights show how often each row was applied.
#pragma once

#include <map>
#include <sstream>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/support/program.h"

namespace downpour::testing {

/// Returns row i as a libsvm line. Its only feature is 1,000,000 + i. Its target is so large that
/// the weight of this feature grows by exactly 1 whenever the row is applied (gradient -2^31,
/// learning rate 2^-31).
inline std::string counter_row(int i) {
  return "1073741824 " + std::to_string(1'000'000 + i) + ":1\n";
}

/// Returns rows 0 to `count` - 1.
inline std::string counter_rows(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += counter_row(i);
  return text;
}

/// Returns the keys of a job file that define this model and its optimizer.
inline std::string counter_model() {
  return "model.layers = [{ name = \"w\", type = \"linear\", inputs = [\"features\"], bias = false "
         "}]\n"
         "model.outputs = [{ name = \"y\", input = \"w\", loss = \"squared\", target = \"label\" "
         "}]\n"
         "optimizer = { type = \"sgd\", learning_rate = 4.656612873077392578125e-10 }\n";
}

/// Returns how often the rows of these files were applied in the run in `dir`/run: number of rows
/// by count.
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
