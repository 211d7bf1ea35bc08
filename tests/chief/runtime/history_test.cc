#include "chief/runtime/history.h"

#include <cmath>

#include <catch2/catch.hpp>

#include "shared/metrics/metrics.h"

namespace downpour::chief {
namespace {

EpochAccount read_back(const std::vector<checkpoint::EpochRecord>& records) {
  std::vector<EpochAccount> accounts;
  std::vector<Evaluation> evaluations;
  from_records(records, {}, accounts, evaluations);
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
  evaluation.rankings[0] = {.auc = 0.9,
                            .pr_auc = 0.8,
                            .precision = 0.7,
                            .recall = 0.6,
                            .f1 = 0.5,
                            .gauc = 0.4,
                            .ndcg = 0.3};
  const auto records = to_records({EpochAccount{}}, {evaluation});
  std::vector<EpochAccount> accounts;
  std::vector<Evaluation> evaluations;
  from_records(records, {}, accounts, evaluations);
  REQUIRE(evaluations.size() == 1);
  REQUIRE(evaluations[0].rankings.size() == 2);
  CHECK(evaluations[0].rankings[0] == evaluation.rankings[0]);
  CHECK(std::isnan(evaluations[0].rankings[1].auc));
}

TEST_CASE("slices are read by the names of their numbers", "[chief][history]") {
  Evaluation evaluation{.id = 3, .epochs_trained = 1};
  evaluation.outputs.resize(1);
  evaluation.slices.emplace_back().sums = {.weight = 4, .loss = 6, .label = 2};
  evaluation.slice_rankings.push_back({.auc = 0.75});
  auto records = to_records({EpochAccount{}}, {evaluation});
  std::string& summary = records[0].summary;
  const auto read = [&] {
    std::vector<EpochAccount> accounts;
    std::vector<Evaluation> evaluations;
    from_records(records, {}, accounts, evaluations);
    return evaluations.at(0);
  };
  CHECK(read().slices == evaluation.slices);
  CHECK(read().slice_rankings.at(0).auc == 0.75);
  CHECK(std::isnan(read().slice_rankings.at(0).f1));
  const auto replace = [&](const std::string& name, const std::string& by) {
    const size_t at = summary.find(name, summary.find("slice_columns"));
    REQUIRE(at != std::string::npos);
    summary.replace(at, name.size(), by);
  };
  replace("\"weight\",\"loss\"", "\"loss\",\"weight\"");  // another order
  replace("\"label\"", "\"of_a_later_version\"");
  CHECK(read().slices.at(0).sums == OutputSums{.weight = 6, .loss = 4});
  CHECK(read().slice_rankings.at(0).auc == 0.75);
  summary.replace(summary.find("slice_columns"), 13, "other_columns");
  CHECK(read().slices.empty());
}

TEST_CASE("an older manifest has the mean absolute error only where the loss is the same",
          "[chief][history]") {
  Evaluation evaluation{.epochs_trained = 1};
  for (size_t o = 0; o < 2; ++o) {
    evaluation.outputs.emplace_back().sums = {
        .weight = 4, .loss = 6, .squared_error = 6, .absolute_error = 5};
  }
  auto records = to_records({EpochAccount{}}, {evaluation});
  const auto read = [&] {
    std::vector<EpochAccount> accounts;
    std::vector<Evaluation> evaluations;
    from_records(records, {{.loss = "squared"}, {.loss = "absolute"}}, accounts, evaluations);
    return evaluations.at(0).outputs;
  };
  CHECK(compute_metric("mae", read()[0]).value == 1.25);
  const std::string name = "absolute_error";
  std::string& summary = records[0].summary;
  for (size_t at = 0; (at = summary.find(name)) != std::string::npos;)
    summary.replace(at, name.size(), "unknown_key");
  CHECK(std::isnan(compute_metric("mae", read()[0]).value));
  CHECK(compute_metric("mae", read()[1]).value == 1.5);
}

}  // namespace
}  // namespace downpour::chief
