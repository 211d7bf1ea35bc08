// PredictionWriter: writes predictions as lines or as an array, with columns of the data.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "chief/core/events.h"
#include "shared/base/result.h"
#include "shared/job/job.h"

namespace downpour::tools {

/// How predictions are written.
struct PredictionForm {
  std::string out = "-";  // file; "-": stdout; .gz and .zst: compressed
  std::string format;     // "tsv", "csv", "jsonl" or "npy"; empty: by the name of `out`, or tsv
  bool header = false;    // begin csv and tsv with a line of names
  bool raw = false;       // the predictions are not probabilities
  std::vector<std::string> ids;  // columns of the data that each line begins with
  uint32_t top = 0;  // of each output with classes: the names and probabilities of the likeliest
};

class PredictionWriter {
 public:
  virtual ~PredictionWriter() = default;
  /// Writes the predictions of the next records. Errors are kept for finish().
  virtual void add(const chief::PredictionBatch& batch) = 0;
  /// Gives the file its name if `complete`; otherwise nothing remains of it. Errors: the first of
  /// add(); kBadData if the data do not have the ids of all records; kIo.
  virtual Result<void> finish(bool complete) = 0;
};

/// Begins the file. The job's eval.source is what is predicted; `widths` are the values of each
/// output per record. Errors: kUsage for a form that cannot be written; kConfig for a column of ids
/// that the data do not have; kCannotCreate.
Result<std::unique_ptr<PredictionWriter>> write_predictions(const Job& job,
                                                            const std::vector<uint32_t>& widths,
                                                            const PredictionForm& form);

}  // namespace downpour::tools
