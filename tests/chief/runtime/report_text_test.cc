// The texts of reports.
#include "chief/runtime/report_text.h"

#include <cmath>

#include <catch2/catch.hpp>

namespace downpour::chief {
namespace {

/// Returns the text for one output, whose four records have labels 0, 0, 0 and `high`.
std::string text_of(const std::string& loss, double high, double loss_sum,
                    const std::vector<std::string>& metrics) {
  Job job;
  job.data.fields = {{.name = "y"}};
  job.model.outputs = {{.name = "o", .loss = loss, .target = "y", .metrics = metrics}};
  Evaluation evaluation;
  OutputMetrics output;
  output.sums.weight = 4;
  output.sums.loss = loss_sum;
  output.sums.label = high;
  output.sums.label_squared = high * high;
  output.sums.squared_error = loss_sum;
  evaluation.outputs = {output};
  return evaluation_text(job, evaluation);
}

TEST_CASE("an evaluation's loss stands beside that of the best constant, in the target's unit",
          "[chief][report]") {
  CHECK(text_of("squared", 400'000, 4e10, {"rmse"}) == "rmse 100000  (best constant: rmse 173205)");
  CHECK(text_of("squared", 4, 4, {"rmse"}) == "rmse 1.0000  (best constant: rmse 1.7321)");
  CHECK(text_of("logistic", 1, 2, {"logloss"}) ==
        "logloss 0.5000  (best constant: logloss 0.5623)");
  CHECK(text_of("logistic", 1, 2, {"calibration"})
            .ends_with("  (logloss 0.5000, best constant 0.5623)"));
}

TEST_CASE("the training loss of a regression is shown as its rmse", "[chief][report]") {
  Job job;
  job.model.outputs = {{.name = "o", .loss = "squared", .weight = 0.5F}};
  CHECK(std::string(shown_loss(job, 8).name) == "rmse");
  CHECK(shown_loss(job, 8).value == "4.0000");
  CHECK(shown_loss(job, NAN).value == "-");
  job.model.outputs.push_back({.name = "p", .loss = "logistic"});
  CHECK(std::string(shown_loss(job, 8).name) == "loss");
  CHECK(shown_loss(job, 8).value == "8.0000");
}

TEST_CASE("large numbers have fewer decimals", "[chief][report]") {
  CHECK(number(0.123456) == "0.1235");
  CHECK(number(-1234.5678) == "-1234.57");
  CHECK(number(2'620'437'271.2578) == "2620437271");
  CHECK(number(2.345e-10) == "2.35e-10");
  CHECK(number(0) == "0.0000");
  CHECK(number(NAN) == "-");
}

}  // namespace
}  // namespace downpour::chief
