#include "chief/runtime/history_file.h"

#include <catch2/catch.hpp>

#include "chief/runtime/history.h"
#include "shared/optim/schedule.h"

namespace downpour::chief {
namespace {

Job regression() {
  Job job;
  job.model.outputs = {{.name = "value", .loss = "squared"}};
  job.optimizer.learning_rate = 0.5F;
  job.train.epochs = 4;
  return job;
}

EpochAccount account_of(uint32_t epoch, double squared) {
  EpochAccount account{.epoch = epoch, .shards = 3, .version = 7 * (epoch + 1)};
  account.counts.batches = 10;
  account.counts.applied = 100;
  account.wall_ns = 2 * kSecond;
  account.metrics = {{.weight = 100, .loss = 100 * squared, .squared_error = 100 * squared}};
  return account;
}

Evaluation evaluation_of(uint32_t epochs, double squared) {
  Evaluation evaluation{.id = epochs, .epochs_trained = epochs};
  evaluation.counts.applied = 10;
  evaluation.outputs.emplace_back().sums = {
      .weight = 10, .loss = 10 * squared, .squared_error = 10 * squared};
  return evaluation;
}

TEST_CASE("a line has the figures of an epoch and of the evaluation after it", "[chief][history]") {
  const auto lines =
      history_lines(regression(), {account_of(0, 9), account_of(1, 4)}, {evaluation_of(1, 16)});
  REQUIRE(lines.size() == 2);
  CHECK(lines[0].epoch == 1);
  CHECK(lines[1].steps == 20);
  CHECK(lines[1].seconds == 2);
  CHECK(figure_of(lines[0].train, "rmse") == 3.0);
  CHECK(figure_of(lines[0].eval, "loss") == 16.0);
  CHECK(figure_of(lines[0].eval, "rmse") == 4.0);
  CHECK(lines[1].eval.empty());
  CHECK(lines[0].learning_rate == 0.5);
}

TEST_CASE("the learning rate of an epoch follows the schedule", "[chief][history]") {
  Job job = regression();
  job.optimizer.schedule = {.type = ScheduleType::kPlateau, .factor = 0.5F, .patience = 1};
  job.optimizer.schedule.min = 0.01F;
  const auto lines = history_lines(job, {account_of(0, 9), account_of(1, 9), account_of(2, 9)},
                                   {evaluation_of(1, 1), evaluation_of(2, 2), evaluation_of(3, 3)});
  // The second evaluation is not better, so the third epoch has the reduced rate.
  CHECK(lines[1].learning_rate == 0.5);
  CHECK(lines[2].learning_rate == 0.25);
}

TEST_CASE("a recorded epoch keeps its rate and steps when the job changes", "[chief][history]") {
  Job job = regression();
  job.optimizer.schedule = {
      .type = ScheduleType::kExponential, .decay_steps = 8, .decay_rate = 0.5F};
  job.train.mode = TrainMode::kSync;
  job.train.replicas = 2;
  EpochAccount first = account_of(0, 9);
  const HistoryLine before = history_lines(job, {first}, {})[0];
  CHECK(before.steps_counted == 7);
  first.learning_rate = before.learning_rate;
  first.steps_counted = before.steps_counted;
  // As a manifest stores it.
  std::vector<EpochAccount> epochs;
  std::vector<Evaluation> evaluations;
  from_records(to_records({first}, {}), job.model.outputs, epochs, evaluations);
  CHECK(epochs == std::vector<EpochAccount>{first});
  job.train = TrainSpec{};
  job.optimizer.learning_rate = 0.25F;
  EpochAccount second = account_of(1, 4);
  second.version = 17;  // 10 batches after 7 steps
  const auto lines = history_lines(job, {epochs[0], second}, {});
  CHECK(lines[0] == before);
  CHECK(lines[1].steps == 20);
  CHECK(lines[1].steps_counted == 17);
  CHECK(lines[1].learning_rate == 0.25 * optim::schedule_factor(job.optimizer.schedule, 17, 0));
}

TEST_CASE("the schedule counts the steps of the mode", "[chief][history]") {
  Job job = regression();
  job.optimizer.schedule = {
      .type = ScheduleType::kExponential, .decay_steps = 8, .decay_rate = 0.5F};
  const auto rate = [&] { return history_lines(job, {account_of(0, 9)}, {})[0].learning_rate; };
  const auto rate_of_step = [&](uint64_t step) {
    return 0.5 * optim::schedule_factor(job.optimizer.schedule, step, 0);
  };
  CHECK(rate() == rate_of_step(10));
  job.train.mode = TrainMode::kSync;
  job.train.replicas = 2;
  CHECK(rate() == rate_of_step(7));
  job.train.mode = TrainMode::kLocal;
  job.train.sync_every = 4;
  CHECK(rate() == rate_of_step(28));  // seven rounds of four batches
  job.train.sync_every = kSyncEveryEpoch;
  job.train.batch_size = 3;
  CHECK(rate() == rate_of_step(7 * 4));  // seven rounds of 10 records, in batches of three
}

TEST_CASE("a line of a job with replicas also has the steps of all replicas", "[chief][history]") {
  Job job = regression();
  const std::vector<EpochAccount> epochs = {account_of(0, 9), account_of(1, 4)};
  CHECK(history_lines(job, epochs, {})[1].steps_counted == 20);
  CHECK(history_text(history_lines(job, epochs, {})).find("steps_counted") == std::string::npos);
  job.train.mode = TrainMode::kSync;
  job.train.replicas = 2;
  const auto lines = history_lines(job, epochs, {});
  CHECK(lines[1].steps == 20);
  CHECK(lines[1].steps_counted == 14);
  CHECK(*parse_history(history_text(lines), "history.jsonl") == lines);
}

TEST_CASE("lines are read back, and a repeated epoch counts once", "[chief][history]") {
  const auto lines = history_lines(regression(), {account_of(0, 9), account_of(1, 4)},
                                   {evaluation_of(1, 16), evaluation_of(2, 8)});
  const std::string text = history_text(lines);
  CHECK(*parse_history(text, "history.jsonl") == lines);
  CHECK(*parse_history(text + text, "history.jsonl") == lines);
  CHECK(parse_history("", "history.jsonl")->empty());
}

TEST_CASE("a line that is not an object with an epoch is an error at its place",
          "[chief][history]") {
  for (const char* bad : {"{", "[1]", "{\"steps\":1}", "{\"epoch\":\"x\"}"}) {
    CAPTURE(bad);
    const auto parsed = parse_history(std::string("{\"epoch\":1}\n\n") + bad + "\n", "h.jsonl");
    REQUIRE(!parsed);
    CHECK(parsed.error().code == ErrorCode::kBadData);
    CHECK(parsed.error().where == "h.jsonl:3");
  }
}

TEST_CASE("reliability bins are kept in the manifest and in the history", "[chief][history]") {
  const std::vector<ReliabilityBin> bins = {{0.1, 0.125, 8}, {0.75, 0.5, 2}};
  std::vector<Evaluation> evaluations = {evaluation_of(1, 16), evaluation_of(2, 8)};
  evaluations[1].reliability = {bins};
  std::vector<EpochAccount> epochs;
  std::vector<Evaluation> read;
  from_records(to_records({account_of(0, 9), account_of(1, 4)}, evaluations),
               regression().model.outputs, epochs, read);
  const auto lines = history_lines(regression(), epochs, read);
  REQUIRE(lines.size() == 2);
  CHECK(lines[0].reliability.empty());
  CHECK(lines[1].reliability == std::vector<ReliabilityFigures>{{"value", bins}});
  const std::string text = history_text(lines);
  CHECK(text.find("\"reliability\":{\"value\":[[0.1,0.125,8],[0.75,0.5,2]]}") != std::string::npos);
  CHECK(*parse_history(text, "history.jsonl") == lines);
}

TEST_CASE("the lines of a manifest are those of the chief that wrote it", "[chief][history]") {
  const std::vector<EpochAccount> epochs = {account_of(0, 9), account_of(1, 4)};
  const std::vector<Evaluation> evaluations = {evaluation_of(1, 16), evaluation_of(2, 8)};
  std::vector<EpochAccount> epochs_read;
  std::vector<Evaluation> evaluations_read;
  from_records(to_records(epochs, evaluations), regression().model.outputs, epochs_read,
               evaluations_read);
  CHECK(history_lines(regression(), epochs_read, evaluations_read) ==
        history_lines(regression(), epochs, evaluations));
}

}  // namespace
}  // namespace downpour::chief
