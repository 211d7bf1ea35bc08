// ModelFiles and Scorer: a trained model in the memory of this process.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "shared/base/result.h"
#include "shared/env/memory_storage.h"
#include "shared/env/storage.h"
#include "shared/job/job.h"
#include "shared/model/graph.h"

namespace downpour::tools {

/// The files of a run with the checkpoint that predictions use, in memory.
class ModelFiles {
 public:
  /// Keeps what predictions need of the run in `run_dir` of `storage`: the job, the history, the
  /// manifest of the best checkpoint (or the newest one) and its images. Errors: those of
  /// checkpoint::load_model().
  static Result<ModelFiles> of_run(Storage& storage, const std::string& run_dir);
  /// Reads what bytes() has written. Error kBadData if the bytes are not a model.
  static Result<ModelFiles> of_bytes(std::span<const uint8_t> bytes);

  /// Returns the model as one piece.
  std::vector<uint8_t> bytes() const;
  /// Writes a run folder, which `downpour predict` reads. Error kCannotCreate if it has a run.
  Result<void> save(Storage& to, const std::string& run_dir) const;

  Storage& storage() const { return *storage_; }
  const std::string& run_dir() const { return kFolder; }
  /// Returns the text of history.jsonl; empty if there is none.
  std::string history() const;

 private:
  ModelFiles();
  static const std::string kFolder;

  std::shared_ptr<MemoryStorage> storage_;
};

/// Computes predictions. Holds all weights in memory. Several threads may call predict().
class Scorer {
 public:
  /// Errors: those of checkpoint::load_model() and read_partition().
  static Result<std::unique_ptr<Scorer>> open(Storage& storage, const std::string& run_dir);
  ~Scorer();

  const Job& job() const { return job_; }
  /// Returns the floats of all outputs for one record.
  uint32_t row_floats() const;
  const std::vector<uint32_t>& widths() const { return widths_; }
  /// Predicts the rows of a table in memory ("memory:7"). Writes row_floats() floats for each row:
  /// the values of the first output, then those of the next. Uses up to `threads` threads; the
  /// result does not depend on their number. Errors: those of reading. Requires room for all rows.
  Result<void> predict(const std::string& table, uint32_t threads, std::span<float> out) const;

 private:
  struct Table;
  Scorer();
  Result<void> load(Storage& storage, const std::string& run_dir);
  Result<void> predict_rows(const std::shared_ptr<const struct ScoringPlan>& plan, uint64_t begin,
                            uint64_t end, std::span<float> out) const;

  Job job_;
  std::unique_ptr<model::Graph> graph_;
  std::vector<uint32_t> widths_;
  std::vector<Table> tables_;  // in the order of the graph's tables
};

}  // namespace downpour::tools
