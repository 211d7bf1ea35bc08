#include "shared/metrics/groups.h"

#include <algorithm>
#include <cmath>

namespace downpour {
namespace {

/// The records of one group, in descending order of their scores.
using Group = std::span<const GroupedRecord>;

/// Calls `visit(first, count, positives)` for each run of equal scores, the highest first.
template <typename Visit>
void visit_ties(Group group, Visit visit) {
  for (size_t first = 0; first < group.size();) {
    size_t end = first, positives = 0;
    for (; end < group.size() && !(group[end].score < group[first].score); ++end)
      positives += group[end].positive ? 1 : 0;
    visit(first, end - first, positives);
    first = end;
  }
}

/// Returns the sum of the discounts of places [first, end) among the first k.
double discounts(size_t first, size_t end, size_t k) {
  double sum = 0;
  for (size_t place = first; place < std::min(end, k); ++place)
    sum += 1 / std::log2(double(place) + 2);
  return sum;
}

double auc_of(Group group, double positives) {
  const double negatives = double(group.size()) - positives;
  double above = 0, ordered = 0;  // negatives above; pairs in the right order
  visit_ties(group, [&](size_t /*first*/, size_t count, size_t of_ties) {
    const double others = double(count - of_ties);
    ordered += double(of_ties) * (negatives - above - others / 2);
    above += others;
  });
  return ordered / (negatives * positives);
}

double ndcg_of(Group group, size_t positives, size_t k) {
  double gain = 0;
  visit_ties(group, [&](size_t first, size_t count, size_t of_ties) {
    if (of_ties > 0 && first < k)
      gain += double(of_ties) / double(count) * discounts(first, first + count, k);
  });
  return gain / discounts(0, positives, k);
}

}  // namespace

GroupMetrics group_metrics(std::vector<GroupedRecord>& records, uint32_t k) {
  // A score of NaN would not be ordered. It ranks last.
  for (GroupedRecord& record : records)
    if (std::isnan(record.score)) record.score = -std::numeric_limits<float>::infinity();
  std::ranges::sort(records, [](const GroupedRecord& a, const GroupedRecord& b) {
    return a.group != b.group ? a.group < b.group : a.score > b.score;
  });
  double auc = 0, auc_records = 0, ndcg = 0, ndcg_groups = 0;
  for (size_t begin = 0; begin < records.size();) {
    size_t end = begin, positives = 0;
    for (; end < records.size() && records[end].group == records[begin].group; ++end)
      positives += records[end].positive ? 1 : 0;
    const Group group(&records[begin], end - begin);
    begin = end;
    if (positives == 0) continue;
    ndcg += ndcg_of(group, positives, k);
    ++ndcg_groups;
    if (positives == group.size()) continue;
    auc += double(group.size()) * auc_of(group, double(positives));
    auc_records += double(group.size());
  }
  GroupMetrics metrics;
  if (auc_records > 0) metrics.gauc = auc / auc_records;
  if (ndcg_groups > 0) metrics.ndcg = ndcg / ndcg_groups;
  return metrics;
}

}  // namespace downpour
