// What a batch adds to the metrics of one output: sums only, so batches, shards, workers and
// partitions merge by adding.
#pragma once

#include <cstdint>
#include <vector>

namespace downpour {

/// Sums over records of one model output. A mean is a sum divided by `weight`, never a mean of
/// means.
struct OutputSums {
  double weight = 0;  // records (or the sum of their weights)
  double loss = 0;    // sum of the records' losses
  double label = 0;   // sum of targets (first element of a vector target)
  double label_squared = 0;
  double prediction = 0;  // sum of predictions (probabilities for logistic, values for squared)
  double correct = 0;     // records whose class was right
  double squared_error = 0;
  bool operator==(const OutputSums&) const = default;

  OutputSums& operator+=(const OutputSums& o) {
    weight += o.weight;
    loss += o.loss;
    label += o.label;
    label_squared += o.label_squared;
    prediction += o.prediction;
    correct += o.correct;
    squared_error += o.squared_error;
    return *this;
  }
};

/// One bucket of an AUC histogram as it travels: only buckets that are not empty.
struct AucBucket {
  uint32_t bucket = 0;
  uint32_t negatives = 0;
  uint32_t positives = 0;
  bool operator==(const AucBucket&) const = default;
};

/// The metrics of one output over some records: sums, the ranking histogram where the output is
/// binary, and class counts (for the best constant's loss of a softmax) where it has classes.
struct OutputMetrics {
  OutputSums sums;
  std::vector<AucBucket> auc;          // ascending buckets; empty where there is no ranking
  std::vector<uint64_t> class_counts;  // softmax: records of each class
  bool operator==(const OutputMetrics&) const = default;
};

}  // namespace downpour
