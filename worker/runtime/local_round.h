// LocalRound: trains the batches of a replica's round one after the other, on a copy of the
// variables.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "shared/model/graph.h"
#include "shared/optim/optimizer.h"
#include "worker/runtime/batch_slice.h"

namespace downpour::worker {

/// The result depends only on the records, the pulled values and the round, not on the number of
/// threads. Optimizer slots begin anew in each round, because no ps stores them. Keeps its memory
/// between rounds.
class LocalRound {
 public:
  /// The number of the round, counted from 1, and how often the learning rate was reduced. Both are
  /// for the schedule of the learning rate.
  struct Place {
    uint64_t round = 1;
    uint32_t rate_reductions = 0;
  };

  /// Trains the records of `all` in batches of graph.local()->batch_size. `pulled` and `changes`
  /// are flat, as in Graph::train(). Writes to `changes` what training has subtracted from each
  /// weight, times the number of records of `all`, so that the sum over replicas divided by the sum
  /// of their records is the weighted mean. Sums up the metrics of all batches.
  void train(const model::Graph& graph, const Batch& all, Place place,
             const std::vector<std::vector<float>>& pulled, model::Workspace& workspace,
             int threads, std::vector<std::vector<float>>& changes, model::BatchMetrics& metrics);

 private:
  /// This replica's copy of one variable, and what a batch needs of it.
  struct Copy {
    OptimizerSpec optimizer;
    bool dense = false;
    size_t table = 0;           // into Graph::tables()
    uint32_t dim = 0;           // weights per row; dense: all weights are one row
    size_t stride = 0;          // floats per row: weights and slots
    std::vector<float> rows;    // stored rows
    std::vector<float> values;  // of the current batch's rows
    std::vector<float> gradient;
    size_t row_count() const { return stride == 0 ? 0 : rows.size() / stride; }
  };

  void begin(const model::Graph& graph, const std::vector<std::vector<float>>& pulled);
  void gather(std::vector<model::VariableView>& views);
  void update(uint32_t step_of_round, uint64_t step, uint32_t rate_reductions);

  BatchSlice slice_;
  std::vector<Copy> copies_;  // by variable
  std::vector<optim::RowUpdate> updates_;
  std::vector<optim::StepRate> rates_;
};

}  // namespace downpour::worker
