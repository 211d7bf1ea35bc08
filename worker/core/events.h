// Events and effects of a worker core. The shell carries both and makes no decision.
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

/// A batch inside the worker, with the pull plan that its reader made.
struct PreparedBatch {
  Batch batch;
  PullPlan plan;
  wire::Lease lease;
  uint64_t shard_read = 0;  // of the Read effect that requested it
  std::string where;        // place of its records: "clicks.tsv [1000, 250000]"
};
using PreparedBatchPtr = std::shared_ptr<PreparedBatch>;

/// Why the rest of a shard cannot be read.
struct ReadFailure {
  uint64_t shard_read = 0;
  Error error;
  // The batch with a bad record. Empty: the shard cannot be read at all.
  std::optional<uint32_t> batch;
};

/// The end of a shard as its reader found it.
struct ShardEnd {
  uint64_t shard_read = 0;
  wire::ShardCounts counts;
  uint64_t records_hash = 0;
};

/// A finished computation. It holds gradients, one Bytes per message (train); metrics (train,
/// eval); or predictions (predict).
struct Computed {
  uint64_t slot = 0;
  std::string not_finite;  // the loss or gradient that is not finite; empty: none (train)
  std::vector<Bytes> gradients;
  std::vector<OutputMetrics> metrics;
  std::vector<OutputMetrics> slices;  // eval
  Bytes predictions;
};

struct WorkerEffects {
  /// `to` = Incarnation{0} is the chief. Any other value is address_of() a ps core of the newest
  /// view; the shell connects as needed.
  struct Send {
    Incarnation to{};
    wire::Message message;
  };
  /// Read a shard, starting at a batch. Answered by batches, then by a ShardEnd or a ReadFailure.
  struct Read {
    wire::Lease lease;
    uint32_t first_batch = 0;
    uint64_t shard_read = 0;
    uint32_t batches_max = UINT32_MAX;  // after this many batches nothing follows, not even the end
  };
  struct StopShardRead {
    uint64_t shard_read = 0;
  };
  /// Compute with the pulled values: one Bytes per message of the plan.
  struct Compute {
    uint64_t slot = 0;
    PreparedBatchPtr batch;
    std::vector<Bytes> values;
    // Synchronous training: the step for which the values were pulled, from 1; otherwise 0.
    uint64_t step = 0;
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
  std::shared_ptr<const Placements> placements;  // a new view, for the plans of the readers
  // The live input processes, for the readers.
  std::optional<std::vector<wire::InputProcess>> inputs;
  bool welcomed = false;  // from now on welcome() is valid
  /// A restarted chief has another job text for the same data. The shell calls on_other_job() if
  /// that text makes other batches or another model.
  struct OtherJob {
    std::string text, base_dir;
  };
  std::optional<OtherJob> other_job;
  std::vector<Exit> exits;

  void clear() { *this = {}; }
};

}  // namespace downpour::worker
