// Graph: the executable form of a job's layers. Built once per process from the job; const and
// thread-safe afterwards.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "shared/base/result.h"
#include "shared/job/job.h"
#include "shared/metrics/sums.h"
#include "shared/model/local_training.h"
#include "shared/model/variable_view.h"
#include "shared/tensor/batch.h"
#include "shared/tensor/variables.h"

namespace downpour::model {

/// Scratch memory of one compute thread, kept between batches.
class Workspace;

/// Metrics of one batch, one entry per output.
using BatchMetrics = std::vector<OutputMetrics>;

/// Returns the error of a process that has to compute a model without layers.
Error custom_refused();

class Graph {
 public:
  /// Builds the graph from the model, fields and optimizer rules of a job that validate_model()
  /// accepts. Errors: kConfig, as for compile().
  static Result<std::unique_ptr<Graph>> build(const Job& job);
  ~Graph();

  const std::vector<TableSpec>& tables() const;
  const InputLayout& inputs() const;
  const std::vector<OutputSpec>& outputs() const;
  /// Returns the number of floats per record of each output: 1 for scalar, classes for softmax.
  std::vector<uint32_t> output_widths() const;
  /// Returns the number of records that are computed at once. The last ones of a batch may be
  /// fewer.
  uint32_t chunk_rows() const;
  /// Returns whether a program outside of Downpour computes the model (ModelSpec::variables). Then
  /// train() is not possible. forward() reads the predictions of output o as raw values (logits, or
  /// numbers) from column inputs().floats.size() + o of the batch.
  bool is_custom() const;
  /// Returns whether finish_custom() changes anything.
  bool finishes_custom() const;
  /// Scales and clips the gradients that a program has computed, as the job says. They are divided
  /// by the weight of the batch if train.reduction is "mean".
  void finish_custom(const Batch& batch, std::span<const VariableView> variables) const;
  /// Returns how a replica trains alone; none unless the mode of the job is "local".
  const std::optional<LocalTraining>& local() const;

  std::unique_ptr<Workspace, void (*)(Workspace*)> make_workspace() const;

  /// Computes the gradient and the metrics of one batch. Writes the gradient to
  /// VariableView::gradient, which it clears first. The loss is the sum over records, divided by
  /// the sum of the record weights if the reduction is "mean". `variables` is flat: for each table
  /// of tables(), each of its variables. The result is the same for any number of `threads`,
  /// because the division of the records among them does not affect the order of any sum.
  /// With data.negatives each record is a positive, and the rows of its negatives follow it: see
  /// rows_of() (negatives.h). Rows count as records, except in losses that compare a record with
  /// its negatives. `want_auc` also fills the AUC histogram, which costs one more pass; the sums
  /// are always filled.
  void train(const Batch& batch, std::span<const VariableView> variables, Workspace& workspace,
             int threads, bool want_auc, BatchMetrics& metrics) const;

  /// Runs the forward pass only. `predictions[o]` gets [records, output_widths()[o]]: probabilities
  /// for logistic and softmax outputs, values for squared ones. `metrics` may be null (for
  /// prediction); then targets are not read, and there are no negatives. `slices` gets the metrics
  /// of all outputs for each row of eval.slices, if the batch has the columns of
  /// data::with_slices() and `metrics` is not null. They have no class counts. `grouped` gets the
  /// records of add_groups() (groups.h), if the batch has the columns of eval.group_by.
  void forward(const Batch& batch, std::span<const VariableView> variables, Workspace& workspace,
               int threads, std::vector<std::vector<float>>& predictions, BatchMetrics* metrics,
               std::vector<OutputMetrics>* slices = nullptr,
               std::vector<float>* grouped = nullptr) const;

 private:
  struct Impl;
  explicit Graph(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace downpour::model
