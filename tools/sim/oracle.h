// Oracle: what the data alone says of a job whose gradients do not depend on its weights. From it
// the state of each row (weights and optimizer slots) follows, given which batches a partition has
// applied, and in which order.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "chief/runtime/run_setup.h"
#include "shared/base/result.h"
#include "shared/metrics/sums.h"

namespace downpour::sim {

/// The step of a partition that applied a batch, counted from 1; 0: the partition holds no gradient
/// of the batch. Where the order does not matter every step may be 1. Batches are numbered as
/// Oracle::batches() has them.
using StepOf = std::function<uint64_t(uint32_t batch)>;

/// Layers `embedding` (pool "sum"), `linear` and `add` over squared losses, summed over a batch,
/// whose targets are so large that float32 rounds each prediction away; all variables begin at 0;
/// SGD and Adam. It reads the data as workers do, and computes gradients and optimizers with code
/// of its own, in double precision.
class Oracle {
 public:
  /// A variable in a row: as Downpour stores it, [weights][slot 0][slot 1].
  struct TableVariable {
    OptimizerSpec optimizer;
    uint32_t dim = 0;
    uint32_t slots = 0;
  };
  struct Use {
    uint32_t batch = 0;
    std::vector<double> gradient;  // of all members, one after the other
  };
  /// A row of an embedding table, or a block of a dense variable.
  struct Row {
    TableId table{};
    uint64_t key = 0;
    PartitionId partition{};
    std::vector<Use> uses;  // by batch
  };
  struct Batch {
    BatchId id;
    uint32_t records = 0;
    std::vector<OutputSums> sums;                        // of outputs; `prediction` is not known
    std::vector<std::pair<PartitionId, uint32_t>> rows;  // into by_partition()
  };

  /// Error kConfig where the job's gradients are not known beforehand.
  static Result<Oracle> make(const chief::RunPlan& plan);

  /// Every row, by partition, then by (table, key).
  const std::vector<std::vector<Row>>& by_partition() const { return by_partition_; }
  /// Every batch, by epoch, shard and number.
  const std::vector<Batch>& batches() const { return batches_; }
  const Row& row(const std::pair<PartitionId, uint32_t>& at) const {
    return by_partition_[raw(at.first)][at.second];
  }
  const std::vector<TableVariable>& table_variables(TableId table) const {
    return table_variables_[raw(table)];
  }
  const std::string& table_name(TableId table) const { return names_[raw(table)]; }
  /// The number of a batch; UINT32_MAX where there is none, as for a shard-end marker.
  uint32_t number_of(BatchId batch) const;
  /// Of an epoch.
  uint64_t records() const { return records_; }
  uint32_t epochs() const { return epochs_; }
  /// Of one evaluation, by output; empty without evaluation data.
  const std::vector<OutputSums>& evaluation() const { return evaluation_; }
  /// Whether the order of a partition's batches shows in its rows.
  bool order_matters() const { return order_matters_; }

  /// The row's weights and slots after those steps, member by member as stored. False: no step
  /// touched it, so it is not stored.
  bool state(const Row& row, const StepOf& step_of, std::vector<double>& out) const;

 private:
  std::vector<std::vector<Row>> by_partition_;
  std::vector<Batch> batches_;
  std::vector<std::vector<std::vector<uint32_t>>> numbers_;  // epoch, shard, batch
  std::vector<std::vector<TableVariable>> table_variables_;  // by table
  std::vector<std::string> names_;                           // by table
  std::vector<OutputSums> evaluation_;
  uint64_t records_ = 0;
  uint32_t epochs_ = 0;
  bool order_matters_ = false;
};

/// Whether a stored float is what the oracle computed: rounding of float32 steps is allowed for, a
/// step too many or too few is not.
bool agrees(float stored, double expected);

}  // namespace downpour::sim
