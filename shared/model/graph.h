// Graph: a job's layers made executable. Built once per process from the job; const and thread-safe
// afterwards.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "shared/base/result.h"
#include "shared/job/job.h"
#include "shared/metrics/sums.h"
#include "shared/tensor/batch.h"
#include "shared/tensor/variables.h"

namespace downpour::model {

/// Where one variable's rows for a batch lie. For table t and member m (in the order of
/// Graph::tables()): embedding: [unique keys of the batch, dim]; dense: all elements.
struct VariableView {
  const float* values = nullptr;
  float* gradient =
      nullptr;  // same shape; training only; set to zero by the callee before it is summed into
};

/// Scratch memory of one compute thread, kept between batches.
class Workspace;

/// Metrics of one batch, one entry an output.
using BatchMetrics = std::vector<OutputMetrics>;

class Graph {
 public:
  /// Builds from the job's (expanded) model, fields and optimizer rules.
  /// Errors: kConfig with `where` = "model.layers[2]" and the like, naming the layer or field.
  static Result<std::unique_ptr<Graph>> build(const Job& job);
  ~Graph();

  const std::vector<TableSpec>& tables() const;
  const InputLayout& inputs() const;
  const std::vector<OutputSpec>& outputs() const;
  /// Floats that each output yields a record (1 for scalar, classes for softmax).
  std::vector<uint32_t> output_widths() const;

  std::unique_ptr<Workspace, void (*)(Workspace*)> make_workspace() const;

  /// One step's gradient and metrics: loss = sum over records / records ("mean") or the sum
  /// ("sum"). `variables` is flat: for t in tables(), for m in members. Deterministic for any
  /// `threads` (fixed chunks). With `want_auc` the ranking histogram is filled too (costs a pass;
  /// sums are always filled).
  void train(const Batch& batch, std::span<const VariableView> variables, Workspace& workspace,
             int threads, bool want_auc, BatchMetrics& metrics) const;

  /// Forward only. `predictions[o]` gets [records, output_widths()[o]]: probabilities for logistic
  /// and softmax outputs, values for squared ones. `metrics` may be null (predict: targets are not
  /// read).
  void forward(const Batch& batch, std::span<const VariableView> variables, Workspace& workspace,
               int threads, std::vector<std::vector<float>>& predictions,
               BatchMetrics* metrics) const;

 private:
  struct Impl;
  explicit Graph(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace downpour::model
