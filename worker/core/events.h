// What a worker core is told and what it wants done. The shell carries both; it decides nothing.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "shared/base/result.h"
#include "shared/tensor/batch.h"
#include "shared/wire/messages.h"
#include "worker/core/pull_plan.h"

namespace downpour::worker {

/// A batch on its way through the worker, with the plan that its reader made for it.
struct PreparedBatch {
  Batch batch;
  PullPlan plan;
  wire::Lease lease;
  uint64_t shard_read = 0;  // of the Read effect that it answers
  std::string where;        // its records' place: "clicks.tsv [1000, 250000]"
};
using PreparedBatchPtr = std::shared_ptr<PreparedBatch>;

/// Why a shard can't be read on.
struct ReadFailure {
  uint64_t shard_read = 0;
  Error error;
  std::optional<uint32_t> batch;  // with a bad record; none: the shard can't be read at all
};

/// The end of a shard as its reader met it.
struct ShardEnd {
  uint64_t shard_read = 0;
  wire::ShardCounts counts;
  uint64_t records_hash = 0;
};

/// A finished computation: gradients message by message (train), metrics (train, eval), predictions
/// (predict).
struct Computed {
  uint64_t slot = 0;
  std::string not_finite;  // which loss or gradient is not; empty: all are (train)
  std::vector<Bytes> gradients;
  std::vector<OutputMetrics> metrics;
  Bytes predictions;
};

struct WorkerEffects {
  /// `to` = Incarnation{0}: the chief. Otherwise address_of() a ps core of the newest view; the
  /// shell connects as needed.
  struct Send {
    Incarnation to{};
    wire::Message message;
  };
  /// Read a shard from a batch on; answered by batches, then a ShardEnd or a failure.
  struct Read {
    wire::Lease lease;
    uint32_t first_batch = 0;
    uint64_t shard_read = 0;
    uint32_t batches_max = UINT32_MAX;  // then it pauses: nothing follows, not the end either
  };
  struct StopShardRead {
    uint64_t shard_read = 0;
  };
  /// Compute with the pulled values, one Bytes a message of the plan.
  struct Compute {
    uint64_t slot = 0;
    PreparedBatchPtr batch;
    std::vector<Bytes> values;
  };
  /// End the process.
  struct Exit {
    int32_t code = 0;
    std::string reason;
  };

  std::vector<Send> sends;
  std::vector<Read> reads;
  std::vector<StopShardRead> stops;
  std::vector<Compute> computes;
  std::shared_ptr<const Placements> placements;           // a new view, for the readers' plans
  std::optional<std::vector<wire::InputProcess>> inputs;  // that live now, for the readers
  bool welcomed = false;                                  // welcome() is valid from now on
  /// The chief was started anew with another job text over the same data: on_other_job() where that
  /// makes other batches or another model.
  struct OtherJob {
    std::string text, base_dir;
  };
  std::optional<OtherJob> other_job;
  std::vector<Exit> exits;

  void clear() { *this = {}; }
};

}  // namespace downpour::worker
