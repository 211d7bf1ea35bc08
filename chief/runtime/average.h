// Averaging of runs: one model from the models of several runs of the same job on different data.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "shared/base/result.h"
#include "shared/env/storage.h"

namespace downpour::chief {

/// What average_runs() made, in the order of the given runs.
struct Averaged {
  struct Part {
    std::string checkpoint;  // "3-17"
    uint64_t records = 0;    // applied up to this checkpoint
    double share = 0;        // of all records
  };
  std::vector<Part> parts;
  uint64_t rows = 0;               // embedding rows of the mean
  std::vector<std::string> notes;  // newer checkpoints that are damaged
};

/// Writes the mean of the models in `runs` to the new folder `run_dir`, in proportion to the
/// records that each has applied in its complete epochs; see average_images(). Takes the best
/// checkpoint of a run if it keeps one (`eval.keep_best`), otherwise its newest. Afterwards
/// `run_dir` is a run without epochs. Use it for evaluations, predictions and warm starts. Its job
/// is that of the first run. The learned offset of an output is averaged, too.
///
/// Errors: kConfig, DP-2110, which names the run and the difference: another model, another seed
/// (the weights of a hidden layer then do not correspond), or other statistics of a field;
/// kCannotCreate if `run_dir` is a run already; kNoInput if a run has no checkpoint or has applied
/// no record.
Result<Averaged> average_runs(Storage& storage, std::span<const std::string> runs,
                              const std::string& run_dir);

}  // namespace downpour::chief
