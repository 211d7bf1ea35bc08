// The summary that ends a run.
#include "chief/runtime/report_summary.h"

#include <cstdlib>

#include <catch2/catch.hpp>

#include "tests/support/lines.h"

namespace downpour::chief {
namespace {

using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;
using testing::lines_of;

OutputMetrics metrics(double loss_sum) {
  OutputMetrics output;
  output.sums.weight = 4;
  output.sums.loss = loss_sum;
  output.sums.label = 1;
  output.sums.label_squared = 1;
  return output;
}

/// Two epochs with an evaluation each, of which the first one is the better.
Finish trained(double best_loss_sum = 2, uint64_t records = 100) {
  Finish finish;
  JobSummary& s = finish.summary;
  s.epochs_wanted = s.epochs_sealed = 2;
  for (uint32_t e = 0; e < 2; ++e) {
    EpochAccount account;
    account.epoch = e;
    account.counts = {.read = 40, .applied = 36, .filtered = 4};
    s.epochs.push_back(account);
    Evaluation evaluation;
    evaluation.epochs_trained = e + 1;
    evaluation.counts.applied = records;
    evaluation.outputs = {metrics(best_loss_sum + e)};
    s.evaluations.push_back(evaluation);
  }
  s.checkpoint_folder = "/runs/x/checkpoint-1.2";
  s.best_epochs = 1;
  s.best_checkpoint = {1, 1};
  s.partitions_moved = 3;
  ProcessPeak worker;
  worker.role = wire::Role::kWorker;
  worker.work.compute_ns = 1;
  s.processes = {worker};
  return finish;
}

std::string summary(const Finish& finish, SummaryOptions options = {},
                    const std::optional<LinearBaseline>& linear = std::nullopt,
                    const std::string& weights = "", const std::string& reduction = "mean") {
  Job job;
  job.train.reduction = reduction;
  job.data.fields = {{.name = "y"}};
  job.model.outputs = {{.name = "o", .loss = "logistic", .target = "y", .metrics = {"logloss"}}};
  job.model.outputs[0].weights = weights;
  char* text = nullptr;
  size_t size = 0;
  options.out = open_memstream(&text, &size);
  print_summary(finish, job, {},
                {"/runs/x", {"downpour train x.toml --ps 2", " --epochs 2"}, linear}, options);
  std::fclose(options.out);
  std::string printed(text, size);
  std::free(text);
  return printed;
}

TEST_CASE("the summary begins with the result of the best epoch and the next commands",
          "[chief][report]") {
  const std::vector<std::string> lines = lines_of(summary(trained()));
  REQUIRE(lines.size() > 5);
  CHECK(lines[0] == "result  logloss 0.5000  (best constant: logloss 0.5623)");
  CHECK(lines[1] ==
        "        on 100 records of the evaluation data, after epoch 1 of 2, which has the lowest "
        "evaluation loss");
  CHECK(lines[2] == "        eval and predict use its checkpoint, 1.1");
  CHECK(lines[3] == "model   /runs/x");
  CHECK(lines[4] == "next    evaluate: downpour eval /runs/x --data FILE");
  CHECK(lines[5] == "        or train 2 more epochs: downpour train x.toml --ps 2 --epochs 4");

  Finish stopped = trained();
  stopped.summary.stopped_early = true;
  CHECK_THAT(summary(stopped), Contains("stopped after epoch 2: the evaluation loss has not"));
  CHECK_THAT(summary(stopped), Contains("--ps 2 --epochs 2 --set eval.early_stop.patience="));
  Finish signal = trained();
  signal.code = 143;
  CHECK_THAT(summary(signal), Contains("next    resume with the same command: downpour train "
                                       "x.toml --ps 2 --epochs 2\n"));
  Finish unmeasured = trained();
  unmeasured.summary.evaluations.clear();
  CHECK_THAT(summary(unmeasured), StartsWith("result  loss "));
  CHECK_THAT(summary(unmeasured), Contains("there are no evaluation data"));
}

TEST_CASE("the summary does not call a kept epoch the best one if another epoch was better",
          "[chief][report]") {
  Finish finish = trained();
  finish.summary.best_epochs = 2;
  finish.summary.best_checkpoint = {1, 2};
  CHECK_THAT(summary(finish), Contains("after epoch 2, the best of the kept epochs\n"));
}

TEST_CASE("the summary warns of evaluation data that were trained on", "[chief][report]") {
  Finish finish = trained();
  finish.summary.evaluations[0].trained_on = true;
  CHECK_THAT(
      summary(finish),
      Contains("warning: earlier epochs, or the run of the warm start, have trained on some"));
}

TEST_CASE("the summary warns of a model that is worse than a constant", "[chief][report]") {
  CHECK_THAT(summary(trained()), !Contains("warning"));
  CHECK_THAT(summary(trained(2, 99)),
             Contains("\nwarning: the evaluation data have only 99 records, so these metrics say"));
  const std::string poor = summary(trained(4), {.color = true});
  CHECK_THAT(poor, Contains("\033[33mwarning: output o predicts worse than a constant: its logloss "
                            "is 1.0000, that of the best constant is 0.5623"));
}

TEST_CASE("the summary warns of records without weights", "[chief][report]") {
  Finish finish = trained();
  JobSummary& s = finish.summary;
  for (EpochAccount& epoch : s.epochs) epoch.metrics.resize(1);
  s.epochs.back().metrics[0].weight = 3;
  CHECK_THAT(summary(finish, {}, {}, "w"), !Contains("warning"));
  s.evaluations[0].outputs[0].sums.weight = 0;
  CHECK_THAT(summary(finish, {}, {}, "w"),
             Contains("\nwarning: no record of the evaluation data has a `w` above 0, so output o "
                      "has no metrics\n"));
  s.epochs.back().metrics[0].weight = 0;
  CHECK_THAT(summary(finish, {}, {}, "w"),
             Contains("\nwarning: no record of the training data has a `w` above 0, so output o "
                      "has learned nothing\n"));
  CHECK_THAT(summary(finish), !Contains("has learned nothing"));
}

TEST_CASE("the summary warns of weights in another unit if gradients are summed",
          "[chief][report]") {
  Finish finish = trained();
  JobSummary& s = finish.summary;
  for (EpochAccount& epoch : s.epochs) epoch.metrics.resize(1);
  for (const auto& [mean, warns] : {std::pair(0.01, true), {0.5, false}, {40.0, true}}) {
    s.epochs.back().metrics[0].weight = mean * 36;
    const std::string text = summary(finish, {}, {}, "w", "sum");
    CHECK((text.find("warning: the mean of `w` is ") != std::string::npos) == warns);
    CHECK_THAT(summary(finish, {}, {}, "w"), !Contains("the mean of `w`"));
  }
  CHECK_THAT(summary(finish, {}, {}, "", "sum"), !Contains("the mean of"));
}

TEST_CASE("the summary warns of an evaluation without records", "[chief][report]") {
  Finish finish = trained(2, /*records=*/0);
  for (Evaluation& evaluation : finish.summary.evaluations) {
    evaluation.counts.read = evaluation.counts.filtered = 7;
    evaluation.outputs.clear();
  }
  CHECK_THAT(summary(finish), Contains("warning: the evaluation data have no record (read 7 = "
                                       "applied 0 + filtered 7"));
}

TEST_CASE("the summary compares the model with a linear one", "[chief][report]") {
  CHECK_THAT(summary(trained(), {}, LinearBaseline{0.55, 3}),
             Contains("\n        a linear model has logloss 0.5500 after 3 epochs\n"));
  CHECK_THAT(
      summary(trained(), {}, LinearBaseline{0.45, 1}),
      Contains("\nwarning: a linear model has logloss 0.4500 after 1 epoch, which is better: "
               "use it, --set model.preset=logistic_regression\n"));
  // It is better than the model, but not than a constant.
  CHECK_THAT(summary(trained(90), {}, LinearBaseline{0.9, 1}),
             Contains("\n        a linear model has logloss 0.9000 after 1 epoch\n"));
}

TEST_CASE("the summary fits the terminal, with colors only on request", "[chief][report]") {
  for (const uint32_t columns : {60U, 80U, 120U}) {
    CAPTURE(columns);
    const std::string text = summary(trained(), {.columns = columns});
    CHECK_THAT(text, !Contains("\033"));
    for (const std::string& line : lines_of(text)) {
      CAPTURE(line);
      const bool command = line.find("downpour ") != std::string::npos;  // is not wrapped
      const bool row = line.starts_with(" ") && line.find("best constant") != std::string::npos;
      CHECK((line.size() <= columns || command || row));
    }
    CHECK_THAT(text, Contains("account read 80 = applied 72 + filtered 8 + skipped 0"));
  }
  const std::string colored = summary(trained(), {.color = true});
  CHECK_THAT(colored, StartsWith("\033[1mresult"));
  CHECK_THAT(colored, Contains("  best\033[0m\n"));
}

TEST_CASE("the summary has the workers' time and moves of partitions with --verbose",
          "[chief][report]") {
  CHECK_THAT(summary(trained()), !Contains("time    workers") && !Contains("moves   3"));
  CHECK_THAT(summary(trained(), {.verbose = true}),
             Contains("time    workers spent 100 % computing") && Contains("moves   3 partitions"));
}

}  // namespace
}  // namespace downpour::chief
