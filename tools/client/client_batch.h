// ClientBatch: the records and the pulled values of a batch whose gradients a program computes.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "shared/base/result.h"
#include "shared/model/float_buffer.h"
#include "shared/model/graph.h"
#include "worker/core/events.h"

namespace downpour::tools {

/// What a program has computed for a batch.
struct BatchResults {
  std::span<const float* const> gradients;    // by variable; null: all zero. Empty: not training
  std::span<const float* const> predictions;  // by output, [records, width]; empty: none
  std::optional<double> loss;  // mean loss of the records, in place of that of the first output
};

/// One thread at a time may use it. Its memory stays as it is until its end.
class ClientBatch final {
 public:
  /// Copies the records and the pulled values, because the worker may make a new plan of its batch
  /// as soon as the program has pushed. `client` is the number of the client that takes it back.
  ClientBatch(const model::Graph& graph, worker::WorkerEffects::Compute&& compute, uint64_t client);

  uint64_t client() const { return client_; }
  bool training() const { return training_; }
  const Batch& records() const { return records_; }
  /// Returns the place of the records, as in "clicks.tsv [1000, 250000]".
  const std::string& where() const { return where_; }
  /// Returns the memory of a variable: a row for each unique key, or all elements.
  size_t variables() const { return values_.size(); }
  std::span<float> values(size_t variable) { return values_[variable]; }
  bool pushed() const { return pushed_; }

  /// Makes what the worker expects of a computation. `graph` is that of the constructor, which also
  /// made `workspace`. With `skips_not_finite`, a gradient or loss that is not finite becomes a
  /// part of the result, otherwise it is an error. Errors: kUsage; the batch may then be pushed
  /// again.
  Result<worker::Computed> finish(const model::Graph& graph, model::Workspace& workspace,
                                  const BatchResults& results, bool skips_not_finite);

 private:
  Result<void> set_metrics(const model::Graph& graph, model::Workspace& workspace,
                           const BatchResults& results, worker::Computed& computed);

  Batch records_;
  std::string where_;
  uint64_t client_ = 0;
  bool training_ = true;
  bool pushed_ = false;
  model::FloatBuffer floats_;
  std::vector<std::span<float>> values_;    // by variable, in floats_
  worker::WorkerEffects::Compute compute_;  // until the batch is pushed
};

}  // namespace downpour::tools
