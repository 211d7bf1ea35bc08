// Figures of an epoch or of a slice, by name.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "shared/metrics/reliability.h"

namespace downpour::chief {

/// Figures by name, in the order of history.jsonl. The first one is "loss", the weighted sum over
/// the outputs. With several outputs the others are named OUTPUT/METRIC.
using Figures = std::vector<std::pair<std::string, double>>;

/// The figures of one slice of the evaluation data.
struct SliceFigures {
  std::string field;
  std::optional<std::string> value;  // none: all values of the field that have no slice
  double weight = 0;                 // sum of the records' weights, by default their number
  Figures figures;                   // without the "loss" over all outputs
  bool operator==(const SliceFigures&) const = default;
};

/// The reliability of the probabilities of one output.
struct ReliabilityFigures {
  std::string output;
  std::vector<ReliabilityBin> bins;
  bool operator==(const ReliabilityFigures&) const = default;
};

}  // namespace downpour::chief
