#include "chief/runtime/history.h"

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

}  // namespace
}  // namespace downpour::chief
