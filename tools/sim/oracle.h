// Oracle: computes the correct state of each row (weights and optimizer slots) from the data alone.
// The caller provides the batches that a partition has applied, and their order. The job's
// gradients must not depend on its weights.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "chief/runtime/run_setup.h"
#include "shared/base/result.h"
#include "shared/metrics/sums.h"
#include "shared/wire/control_messages.h"
#include "tools/sim/oracle_optimizers.h"

namespace downpour::sim {

/// Returns the step of a partition that applied a batch, starting at 1; 0 if the partition holds no
/// gradient of the batch. If the order does not matter, every step may be 1. A batch is identified
/// by its index in Oracle::batches().
using StepOf = std::function<uint64_t(uint32_t batch)>;

/// Supports the layers `embedding` (pool "sum"), `linear` and `add`, squared losses summed over a
/// batch, SGD, Adam and row-wise Adagrad, and in mode "local" replicas with SGD and an outer SGD or
/// momentum. In mode "sync" with SGD it also supports `global_norm` of `optimizer.clip`. Targets
/// must be so large that float32 rounds each prediction away. All variables must start at 0. The
/// oracle reads the data as workers do. It computes gradients and optimizers with its own code, in
/// double precision.
class Oracle {
 public:
  using TableVariable = OracleVariable;
  struct Use {
    uint32_t batch = 0;
    std::vector<double> gradient;  // of all table variables, concatenated
  };
  /// A row of an embedding table, or a block of a dense variable.
  struct Row {
    TableId table{};
    uint64_t key = 0;
    PartitionId partition{};
    std::vector<Use> uses;  // in order of the batches
  };
  struct Batch {
    BatchId id;
    uint32_t records = 0;
    std::vector<OutputSums> sums;  // per output; `prediction` is unknown
    uint64_t step = 0;  // with replicas and without backups: the step that must apply the batch
    std::vector<std::pair<PartitionId, uint32_t>> rows;  // indices into by_partition()
  };

  /// Makes the oracle of a job. Error kConfig: the job's gradients depend on its weights.
  static Result<Oracle> make(const chief::RunPlan& plan);

  /// Returns every row, by partition, then by (table, key).
  const std::vector<std::vector<Row>>& by_partition() const { return by_partition_; }
  /// Returns every batch, in order of epoch, shard and batch.
  const std::vector<Batch>& batches() const { return batches_; }
  const Row& row(const std::pair<PartitionId, uint32_t>& at) const {
    return by_partition_[raw(at.first)][at.second];
  }
  const std::vector<TableVariable>& table_variables(TableId table) const {
    return table_variables_[raw(table)];
  }
  const std::string& table_name(TableId table) const { return names_[raw(table)]; }
  /// Returns the index of a batch in batches(); UINT32_MAX if there is none, as for a shard-end
  /// marker.
  uint32_t number_of(BatchId batch) const;
  /// Returns the number of records of an epoch.
  uint64_t records() const { return records_; }
  uint32_t epochs() const { return epochs_; }
  /// Returns the sums of one evaluation, per output; empty without evaluation data.
  const std::vector<OutputSums>& evaluation() const { return evaluation_; }
  /// Returns the batches of every step, from the first one; empty without replicas or with backups.
  const std::vector<std::vector<wire::StepPart>>& steps() const { return steps_; }
  /// Returns whether a partition's rows depend on the order in which it has applied its batches.
  bool order_matters() const { return order_matters_; }

  /// Computes the row's weights and slots after those steps, per table variable as stored. Returns
  /// false if no step has touched the row, so that it is not stored.
  bool state(const Row& row, const StepOf& step_of, std::vector<double>& out) const;

 private:
  void find_steps(const TrainSpec& train, const std::function<uint32_t(ShardId)>& replica_of);
  void limit_norms(double most);

  std::vector<std::vector<Row>> by_partition_;
  std::vector<Batch> batches_;
  std::vector<std::vector<std::vector<uint32_t>>> numbers_;  // epoch, shard, batch
  std::vector<std::vector<TableVariable>> table_variables_;  // per table
  std::vector<std::string> names_;                           // per table
  std::vector<OutputSums> evaluation_;
  std::vector<std::vector<wire::StepPart>> steps_;
  std::vector<double> records_of_step_;
  std::vector<double> factors_;  // of each step, by optimizer.clip.global_norm; empty: all are 1
  uint64_t records_ = 0;
  uint32_t epochs_ = 0;
  bool order_matters_ = false;
  bool averages_ = false;    // mode "local": a step applies a mean
  bool of_touched_ = false;  // the mean of a row is that of the replicas that have touched it
};

/// Returns whether a stored float agrees with the value that the oracle computed. The tolerance
/// covers rounding in float32, but not a missing or additional step.
bool agrees(float stored, double expected);

}  // namespace downpour::sim
