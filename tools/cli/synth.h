// Synthetic click data from a known model: what a training run on it can reach at best is known exactly.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>

#include "shared/base/result.h"

namespace downpour::tools {

enum class SynthFormat : uint8_t { kLibsvm, kTsv, kCsv };

/// label ~ Bernoulli(sigmoid(bias + sum_j w_j x_j + sum_f v_f,id)), x_j ~ N(0, 1) in steps of 0.001 cut at +-4,
/// id_f ~ Zipf(zipf) over `ids` ids a field, w_j ~ N(0, 0.2^2), v ~ N(0, 0.3^2), bias -1.4.
/// Columns: label, I1.., C1..; libsvm: features 1..numeric, then numeric + 1 + field * ids + id.
struct SynthOptions {
  uint64_t rows = 1'000'000;
  uint32_t numeric = 13;
  uint32_t categorical = 26;
  uint32_t ids = 38461;       // a field
  double zipf = 1.1;          // exponent
  uint64_t seed = 1;          // of the model
  uint64_t stream = 0;        // of the rows: 0 for training, 1 for test data of the same model, ...
  SynthFormat format = SynthFormat::kTsv;
  uint32_t threads = 1;
};

struct SynthResult {
  uint64_t rows = 0;
  uint64_t bytes = 0;
  uint64_t positives = 0;
  double bayes_auc = 0;       // of the true probabilities
  double bayes_logloss = 0;
  double seconds = 0;
};

/// Writes the file. The same options give the same bytes, whatever the number of threads. Errors: kCannotCreate, kIo
/// (nothing is left behind), kUsage.
Result<SynthResult> synthesize(const SynthOptions& options, const std::string& path);

}  // namespace downpour::tools
