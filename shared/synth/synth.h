// Synthetic click data from a known model, so that the best result a training run can reach on it
// is known exactly.
#pragma once

#include <cstdint>
#include <string>

#include "shared/base/result.h"
#include "shared/job/synth_source.h"

namespace downpour::data {

struct SynthResult {
  uint64_t rows = 0;
  uint64_t bytes = 0;
  uint64_t positives = 0;
  double bayes_auc = 0;  // of the true probabilities
  double bayes_logloss = 0;
  double seconds = 0;
};

/// Writes the file. The same options give the same bytes for any number of threads. Errors:
/// kCannotCreate, kIo (no file is left), kUsage.
Result<SynthResult> synthesize(const SynthOptions& options, const std::string& path,
                               uint32_t threads = 1);

}  // namespace downpour::data
