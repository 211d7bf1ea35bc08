// Metric sums of one model output. They are plain sums, so the metrics of batches, shards, workers
// and partitions merge by addition.
#pragma once

#include <cstdint>
#include <iterator>
#include <vector>

namespace downpour {

/// Sums over the records of one model output. A mean is always a sum divided by `weight`, never a
/// mean of means.
struct OutputSums {
  double weight = 0;  // number of records, or the sum of their weights
  double loss = 0;    // sum of the records' losses
  // Of a vector target, the mean over its elements counts.
  double label = 0;  // sum of targets
  double label_squared = 0;
  double prediction = 0;  // sum of predictions: probabilities for logistic, values for squared
  double correct = 0;     // records with the right class
  double squared_error = 0;
  double absolute_error = 0;  // of numbers and counts; 0 if the target is a class
  double in_top_k = 0;        // softmax: records whose class is among the eval.top_k highest
  bool operator==(const OutputSums&) const = default;
  OutputSums& operator+=(const OutputSums& other);
};

/// A sum, and its name in the history of a run.
struct NamedSum {
  const char* name = "";
  double OutputSums::*value = nullptr;
};
inline constexpr NamedSum kOutputSums[] = {{"weight", &OutputSums::weight},
                                           {"loss", &OutputSums::loss},
                                           {"label", &OutputSums::label},
                                           {"label_squared", &OutputSums::label_squared},
                                           {"prediction", &OutputSums::prediction},
                                           {"correct", &OutputSums::correct},
                                           {"squared_error", &OutputSums::squared_error},
                                           {"absolute_error", &OutputSums::absolute_error},
                                           {"in_top_k", &OutputSums::in_top_k}};
static_assert(sizeof(OutputSums) == std::size(kOutputSums) * sizeof(double), "a sum is missing");

inline OutputSums& OutputSums::operator+=(const OutputSums& other) {
  for (const NamedSum& sum : kOutputSums) this->*sum.value += other.*sum.value;
  return *this;
}

/// One non-empty bucket of an AUC histogram, as sent in messages.
struct AucBucket {
  uint32_t bucket = 0;
  uint32_t negatives = 0;
  uint32_t positives = 0;
  bool operator==(const AucBucket&) const = default;
};

/// Units of OutputMetrics::class_counts in a weight of 1, if records have weights.
constexpr double kClassUnits = 65536;

/// The metrics of one output over some records: the sums; for a binary output, the AUC histogram;
/// for an output with classes, the class counts, which the best constant's loss of a softmax needs.
struct OutputMetrics {
  OutputSums sums;
  std::vector<AucBucket> auc;  // in ascending order of buckets; empty if the output is not binary
  // Softmax: the weight of the records per class, in units of 1 / kClassUnits if the job has
  // sample weights; otherwise their number.
  std::vector<uint64_t> class_counts;
  bool operator==(const OutputMetrics&) const = default;
};

}  // namespace downpour
