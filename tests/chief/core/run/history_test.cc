// The epochs of a run: what is complete, sealed, partial, rolled back.
#include "chief/core/run/history.h"

#include <catch2/catch.hpp>

namespace downpour::chief {
namespace {

ChiefConfig two_epochs() {
  ChiefConfig config;
  config.job.train.epochs = 2;
  return config;
}

EpochAccount account_of(uint32_t epoch, uint32_t batches, uint32_t shards_left = 0) {
  EpochAccount account{.epoch = epoch, .shards = 4, .shards_left = shards_left};
  account.counts.batches = batches;
  return account;
}

/// Trains and accounts the current epoch, and goes to the next one.
void complete(History& history, uint32_t batches) {
  history.begin_epoch();
  history.add(account_of(history.epoch(), batches), false);
  history.advance();
}

}  // namespace

TEST_CASE("a history is trained when all epochs of the job are complete", "[chief][core]") {
  const ChiefConfig config = two_epochs();
  History history(config);
  complete(history, 10);
  CHECK(history.epoch() == 1);
  CHECK_FALSE(history.trained());
  complete(history, 20);
  CHECK(history.trained());
  CHECK(history.steps_accounted() == 30);
  CHECK(history.sealed() == 0);
}

TEST_CASE("an epoch that is not whole any more takes what followed with it", "[chief][core]") {
  const ChiefConfig config = two_epochs();
  History history(config);
  complete(history, 10);
  history.add(Evaluation{.id = history.next_evaluation(), .epochs_trained = 1});
  complete(history, 20);
  history.add(Evaluation{.id = history.next_evaluation(), .epochs_trained = 2});
  history.roll_back_to(1);
  CHECK(history.complete() == 1);
  CHECK(history.epoch() == 1);
  CHECK(history.begun() == 2);  // partitions may still hold its batches
  CHECK(history.accounts().size() == 1);
  REQUIRE(history.evaluations().size() == 1);
  CHECK(history.evaluations()[0].epochs_trained == 1);
}

TEST_CASE("only the newest evaluations keep their slices", "[chief][core]") {
  const ChiefConfig config = two_epochs();
  History history(config);
  for (uint32_t i = 0; i < 10; ++i) {
    Evaluation evaluation{.id = i + 1, .epochs_trained = i + 1};
    evaluation.slices.resize(kSliceRowsKept / 8);
    evaluation.slice_rankings.resize(kSliceRowsKept / 8);
    history.add(std::move(evaluation));
  }
  for (uint32_t i = 0; i < 10; ++i) {
    CHECK(history.evaluations()[i].slices.empty() == (i < 2));
    CHECK(history.evaluations()[i].slice_rankings.empty() == (i < 2));
  }
}

TEST_CASE("a partial epoch counts as trained until it is dropped", "[chief][core]") {
  ChiefConfig config = two_epochs();
  config.job.train.steps = 13;
  History history(config);
  complete(history, 10);
  history.begin_epoch();
  history.add(account_of(1, 3, 2), true);
  CHECK(history.trained());
  CHECK(history.complete() == 1);
  CHECK(history.epochs_trained() == 2);
  history.seal(1, true);
  CHECK(history.partial_saved());
  CHECK(history.drop_partial());
  CHECK_FALSE(history.drop_partial());
  CHECK_FALSE(history.trained());
  CHECK_FALSE(history.partial_saved());
  CHECK(history.epochs_trained() == 1);
  CHECK(history.accounts().size() == 1);
}

TEST_CASE("a later chief continues with the results of the manifest", "[chief][core]") {
  ChiefConfig config = two_epochs();
  config.term = 3;
  config.resume = ResumeState{};
  config.resume->sealed_epochs = 1;
  config.resume->epochs = {account_of(0, 10)};
  config.resume->evaluations = {Evaluation{.id = 7, .epochs_trained = 1}};
  History history(config);
  CHECK(history.epoch() == 1);
  CHECK(history.sealed() == 1);
  CHECK(history.resumed() == 1);
  CHECK(history.next_evaluation() == (2U << 16) + 1);  // no earlier term has used it
}

}  // namespace downpour::chief
