// Metrics of rankings within groups of records, such as the records of one user.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace downpour {

/// One record of a binary output.
struct GroupedRecord {
  uint64_t group = 0;
  float score = 0.0F;
  bool positive = false;
};

/// Each is NaN if no group defines it. Groups and records count without the records' weights.
struct GroupMetrics {
  static constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  /// The mean of the AUC within each group, weighted by its records (Zhu et al. 2017). Groups with
  /// records of only one class are left out. Equal scores count half.
  double gauc = kNone;
  /// The mean over the groups that have a positive record of NDCG@k: the discounted gain
  /// sum(positive / log2(rank + 1)) over the k highest scores, divided by the highest possible one
  /// (Järvelin and Kekäläinen 2002). Records of equal score share the mean of their places
  /// (McSherry and Najork 2008).
  double ndcg = kNone;
};

/// Computes the metrics. Sorts the records, so the result does not depend on their order. `k` > 0.
GroupMetrics group_metrics(std::vector<GroupedRecord>& records, uint32_t k);

}  // namespace downpour
