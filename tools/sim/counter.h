// The counter model: linear, one feature a record, every gradient -1, learning rate 1. After E
// epochs every weight is E exactly, and at any moment a weight says how often its record was
// applied.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "chief/runtime/run_setup.h"
#include "shared/base/result.h"
#include "shared/job/job.h"

namespace downpour::sim {

/// How large the built-in job is.
struct CounterSize {
  uint32_t shards = 12;
  uint32_t batches = 4;  // of a shard, about
  uint32_t records = 8;  // of a batch
  uint32_t epochs = 3;
  uint32_t partitions = 16;
  uint32_t files = 1;  // of the data, as long as each other to a line
  std::string sharding = "auto";  // with 3 streams, unless auto
  uint32_t cycle = 1;             // ranges that a shard joins
  bool mix = false;               // the files are sources of equal weight, all of them read
  uint32_t window = 0;            // of the shuffle, in records; 0: the shard
  uint64_t steps = 0;             // where the job ends; 0: with the epochs
  bool program = false;           // which writes the first file, and does not say how many records
};

/// The job, and its data in a file of the machine's folder for temporary files. A squared loss with
/// a target of 2^30 has the gradient -2^31 exactly as long as weights are small; the rate is 2^-31.
Result<Job> make_counter_job(const CounterSize& size);

/// Which key belongs to which batch: from the files, read as workers read them.
class CounterOracle {
 public:
  struct Entry {
    uint64_t key = 0;
    PartitionId partition{};
    std::vector<BatchId> batches;  // by epoch: the one that holds its record
  };
  /// Error kConfig where the job is no counter model (a key in several records, ...).
  static Result<CounterOracle> make(const chief::RunPlan& plan);

  /// Every key, by partition.
  const std::vector<std::vector<Entry>>& by_partition() const { return by_partition_; }
  const Entry* find(uint64_t key) const;
  uint64_t records() const { return records_; }
  uint32_t epochs() const { return epochs_; }
  /// The keys of a batch; empty for an end part.
  const std::vector<uint64_t>& keys(BatchId batch) const;

 private:
  std::vector<std::vector<Entry>> by_partition_;
  std::vector<std::vector<std::vector<std::vector<uint64_t>>>> keys_;  // epoch, place, batch
  uint64_t records_ = 0;
  uint32_t epochs_ = 0;
};

}  // namespace downpour::sim
