// SavedModel: the checkpoint of a run that is exported, and its weights. Exported: what was
// written.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "shared/base/result.h"
#include "shared/checkpoint/image.h"
#include "shared/checkpoint/manifest.h"
#include "shared/env/storage.h"
#include "shared/job/job.h"
#include "tools/export/archive.h"

namespace downpour::tools {

struct Exported {
  std::string checkpoint;          // "3-17"
  std::vector<ArraySpec> arrays;   // as written
  bool any_rows = false;           // `arrays` are values of any number of records
  std::vector<std::string> notes;  // newer checkpoints that are damaged
};

class SavedModel {
 public:
  /// Opens the best checkpoint of the run if the run keeps one (`eval.keep_best`), otherwise the
  /// newest. `notes` names newer checkpoints that are damaged. Errors: kNoInput if `run_dir` has no
  /// checkpoint; kBadData for a damaged one.
  static Result<SavedModel> open(Storage& storage, const std::string& run_dir,
                                 std::vector<std::string>& notes);

  /// Opens the checkpoint of a manifest of the run.
  static Result<SavedModel> of(Storage& storage, const std::string& run_dir,
                               checkpoint::Manifest manifest);

  const checkpoint::Manifest& manifest() const { return manifest_; }
  const Job& job() const { return job_; }

  /// Calls use(image) with the rows of a table in each partition. Holds one partition in memory.
  Result<void> each_partition(
      size_t table, const std::function<Result<void>(const checkpoint::TableImage&)>& use) const;
  /// Calls use(key, row) with the weights of variable `m` of a table of embeddings.
  Result<void> each_row(size_t table, size_t m,
                        const std::function<void(uint64_t key, const float* row)>& use) const;
  /// Returns the weights of a dense variable. A block that was never written has initial values.
  Result<std::vector<float>> dense(size_t table) const;

 private:
  explicit SavedModel(Storage& storage) : storage_(storage) {}

  Storage& storage_;
  checkpoint::Manifest manifest_;
  Job job_;
  std::string folder_;
};

}  // namespace downpour::tools
