#include "shared/metrics/groups.h"

#include <algorithm>
#include <cmath>

#include <catch2/catch.hpp>

namespace downpour {
namespace {

struct GroupCase {
  const char* name;
  uint32_t k;
  std::vector<int> groups, scores, labels;  // scores in units of 1/16
  double gauc, ndcg;
};

#include "tests/shared/metrics/groups_golden.inc"

std::vector<GroupedRecord> records_of(const GroupCase& test) {
  std::vector<GroupedRecord> records;
  for (size_t i = 0; i < test.groups.size(); ++i) {
    records.push_back({.group = uint64_t(test.groups[i]) * 0x9e3779b97f4a7c15U,
                       .score = float(test.scores[i]) / 16.0F,
                       .positive = test.labels[i] > 0});
  }
  return records;
}

TEST_CASE("GAUC and NDCG are those of scikit-learn's metrics of each group", "[metrics][ranking]") {
  for (const GroupCase& test : kGroupCases) {
    CAPTURE(test.name);
    std::vector<GroupedRecord> records = records_of(test);
    const GroupMetrics metrics = group_metrics(records, test.k);
    CHECK(metrics.gauc == Approx(test.gauc).epsilon(1e-12));
    CHECK(metrics.ndcg == Approx(test.ndcg).epsilon(1e-12));
    std::vector<GroupedRecord> reversed = records_of(test);
    std::ranges::reverse(reversed);
    const GroupMetrics again = group_metrics(reversed, test.k);
    CHECK(again.gauc == metrics.gauc);
    CHECK(again.ndcg == metrics.ndcg);
  }
}

TEST_CASE("groups of one class have no AUC, and groups without a positive record no NDCG",
          "[metrics][ranking]") {
  std::vector<GroupedRecord> records;
  CHECK(std::isnan(group_metrics(records, 10).gauc));
  CHECK(std::isnan(group_metrics(records, 10).ndcg));
  records = {{1, 0.5F, false}, {2, 0.1F, false}};
  CHECK(std::isnan(group_metrics(records, 10).ndcg));
  records.push_back({3, std::nanf(""), true});
  CHECK(std::isnan(group_metrics(records, 10).gauc));
  CHECK(group_metrics(records, 10).ndcg == 1);
  records.push_back({3, 0.0F, false});  // above the score that is not a number
  CHECK(group_metrics(records, 10).gauc == 0);
  CHECK(group_metrics(records, 1).ndcg == 0);
}

}  // namespace
}  // namespace downpour
