#include "chief/runtime/history.h"

#include <cmath>

#include <catch2/catch.hpp>

namespace downpour::chief {
namespace {

EpochAccount read_back(const std::vector<checkpoint::EpochRecord>& records) {
  std::vector<EpochAccount> accounts;
  std::vector<Evaluation> evaluations;
  from_records(records, accounts, evaluations);
  REQUIRE(accounts.size() == 1);
  return accounts[0];
}

TEST_CASE("the account of an epoch is read back from a manifest, also of an older build",
          "[chief][history]") {
  EpochAccount account{.epoch = 2, .shards = 5};
  account.duplicate_parts = 3;
  account.gaps = 4;
  auto records = to_records({account}, {});
  REQUIRE(records.size() == 1);
  CHECK(read_back(records).duplicate_parts == 3);
  CHECK(read_back(records).gaps == 4);
  std::string& summary = records[0].summary;
  const std::string name = "duplicate_parts";
  REQUIRE(summary.find(name) != std::string::npos);
  summary.replace(summary.find(name), name.size(), "had_it");
  CHECK(read_back(records).duplicate_parts == 3);
}

TEST_CASE("the ranking metrics of an evaluation are read back from a manifest",
          "[chief][history]") {
  Evaluation evaluation{.id = 3, .epochs_trained = 1};
  evaluation.outputs.resize(2);
  evaluation.rankings.resize(2);
  evaluation.rankings[0] = {.auc = 0.9, .pr_auc = 0.8, .precision = 0.7, .recall = 0.6, .f1 = 0.5};
  const auto records = to_records({EpochAccount{}}, {evaluation});
  std::vector<EpochAccount> accounts;
  std::vector<Evaluation> evaluations;
  from_records(records, accounts, evaluations);
  REQUIRE(evaluations.size() == 1);
  REQUIRE(evaluations[0].rankings.size() == 2);
  CHECK(evaluations[0].rankings[0] == evaluation.rankings[0]);
  CHECK(std::isnan(evaluations[0].rankings[1].auc));
}

}  // namespace
}  // namespace downpour::chief
