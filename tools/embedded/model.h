// ModelFiles, Scorer and RowScorer: a trained model in the memory of this process.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "shared/base/ids.h"
#include "shared/base/result.h"
#include "shared/env/memory_storage.h"
#include "shared/env/storage.h"
#include "shared/job/job.h"
#include "shared/model/graph.h"
#include "shared/tensor/batch.h"

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
  /// Returns the number of the checkpoint, (term, n).
  ViewId checkpoint() const { return checkpoint_; }
  uint64_t run() const { return run_; }
  /// Returns the floats of all outputs for one record.
  uint32_t row_floats() const;
  const std::vector<uint32_t>& widths() const { return widths_; }
  /// Returns those of `texts` that are the value of a field in some record of the training, as far
  /// as the keys of fields that hash texts show it. Errors: those of reading vocabularies.
  Result<std::vector<std::string>> known_among(std::span<const std::string> texts) const;
  /// Predicts the rows of a table in memory ("memory:7"). Writes row_floats() floats for each row:
  /// the values of the first output, then those of the next. With `raw` writes the values to
  /// which the functions of the outputs have not been applied. Uses up to `threads` threads; the
  /// result does not depend on their number. Errors: those of reading. Requires room for all rows.
  Result<void> predict(const std::string& table, uint32_t threads, std::span<float> out,
                       bool raw = false) const;

 private:
  friend class RowScorer;
  friend class LineEvaluator;
  struct Table;
  struct Buffers;
  Scorer();
  Result<void> load(Storage& storage, const std::string& run_dir);
  /// Sets the views of `buffers` to the weights that the batch needs.
  void gather(const Batch& batch, Buffers& buffers) const;
  /// Predicts the records of a batch, after padding the batch to a multiple of `rows`. Writes
  /// row_floats() floats for each record, and none for the padding.
  void predict_batch(Batch& batch, uint32_t rows, Buffers& buffers, bool raw, float* to) const;
  Result<void> predict_rows(const struct ScoringPlan& plan, uint64_t begin, uint64_t end,
                            std::span<float> out) const;

  Job job_;
  ViewId checkpoint_;
  uint64_t run_ = 0;
  std::unique_ptr<model::Graph> graph_, raw_graph_;
  std::vector<uint32_t> widths_;
  std::vector<Table> tables_;  // in the order of the graph's tables
};

/// Predicts rows that are texts in memory, such as those of a request. Keeps its buffers from call
/// to call. Belongs to one thread.
class RowScorer {
 public:
  /// Errors: those of reading the vocabularies of the job's fields.
  static Result<std::unique_ptr<RowScorer>> make(std::shared_ptr<const Scorer> scorer);
  ~RowScorer();

  const Scorer& scorer() const { return *scorer_; }
  /// Returns true if a row is a line of the job's own format, libsvm or libffm, without a label.
  /// False: a row is a JSON object with the inputs() as members, in which null is a missing value.
  bool takes_lines() const { return takes_lines_; }
  /// Returns true if each feature of such a line also has the number of a field (libffm).
  bool grouped() const { return grouped_; }
  /// Returns true if a row may omit inputs whose value is missing, as in the format of the training
  /// data.
  bool may_omit() const { return may_omit_; }
  /// Returns the fields that the model reads. Of fields with the same source_name() it returns one.
  /// The source_name() is the name of the JSON object's member.
  const std::vector<FieldSpec>& inputs() const { return inputs_; }
  /// Predicts all rows. `out` gets Scorer::row_floats() floats for each. Requires what
  /// data::LineBatches::parse() requires. Error kBadData names the field and the row.
  Result<void> predict(std::span<const std::string_view> rows, std::vector<float>& out);

 private:
  RowScorer();
  struct State;

  std::shared_ptr<const Scorer> scorer_;
  bool takes_lines_ = false, grouped_ = false, may_omit_ = false;
  std::vector<FieldSpec> inputs_;
  std::unique_ptr<State> state_;
};

}  // namespace downpour::tools
