// Permutation importance: how much worse a model becomes when the values of one column are
// shuffled.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "shared/base/result.h"
#include "shared/env/storage.h"
#include "shared/job/job.h"

namespace downpour::tools {

struct ImportanceOptions {
  uint32_t repeats = 3;  // shuffles of each column
  uint64_t seed = 1;
  uint32_t threads = 1;
};

struct ColumnImportance {
  std::string column;
  double rise = 0;       // of the metric: the mean over the shuffles
  double deviation = 0;  // standard deviation of the shuffles
};

struct Importance {
  std::string output, metric;  // "click", "logloss"
  double base = 0;             // the metric without a shuffle
  uint64_t records = 0;
  std::vector<ColumnImportance> columns;  // the largest rise first
};

/// Computes the importance of each column that the model reads, for its first output (Breiman,
/// "Random Forests", 2001): the rise of the logloss, or of the RMSE of a regression, when the
/// column gets the values of other records. The records of job.eval.source are kept in memory as
/// text. All fields of a column are shuffled together. The result depends on the seed, and not on
/// the number of threads. Errors: kUsage unless the records are lines of csv, tsv or JSON; kBadData
/// for a record without a label.
Result<Importance> importance(Storage& storage, const Job& job, const ImportanceOptions& options);

std::string importance_text(const Importance& importance);
std::string importance_json(const Importance& importance);

}  // namespace downpour::tools
