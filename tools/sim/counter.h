// The counter model, a job for the simulator. It is linear, each record has its own feature, and
// each step adds 1 to the weight. After E epochs every weight is exactly E. At any moment a weight
// is the number of times that its record was applied.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "shared/base/result.h"
#include "shared/job/job.h"

namespace downpour::sim {

/// The size of a built-in job, and the way its data are read.
struct JobSize {
  uint32_t shards = 12;
  uint32_t batches = 4;  // per shard, approximately
  uint32_t records = 8;  // per batch
  uint32_t epochs = 3;
  uint32_t partitions = 16;
  uint32_t files = 1;             // data files; their lengths differ by at most one line
  std::string sharding = "auto";  // any other value uses 3 streams, or one for each replica
  uint32_t cycle = 1;             // ranges that a shard joins
  bool mix = false;               // the files are sources of equal weight, each read completely
  uint32_t window = 0;            // records in the shuffle window; 0: the shard
  uint32_t checkpoint_steps = 0;  // between checkpoints; 0: the built-in job's value
  uint32_t chief_silence_s = 60;  // a ps or worker ends after this silence of the chief
  int32_t staleness = -1;         // bound of mode "bounded"; -1: another mode
  uint32_t replicas = 0;          // of mode "sync"; 0: another mode
  uint32_t backups = 0;           // replicas that a step may leave out
  uint32_t sync_every = 0;        // of mode "local", which needs replicas; 0: another mode
  bool whole_epochs = false;      // mode "local", in which a replica trains its share of an epoch
  bool touched = false;           // of mode "local": the mean of the replicas that have the row
  uint64_t global_norm = 0;       // limit of the norm of a step's gradients; 0: none
  bool mixed = false;             // mode "mixed", which needs replicas; the counter has a bias then
  uint64_t steps = 0;             // steps after which the job ends; 0: after the epochs
  bool reversed = false;          // the records of each file are in reverse order
  bool program = false;           // a program of unknown length writes the first file
};

/// The properties of one built-in job.
struct BuiltInJob {
  std::string name;
  std::string format;
  std::string model;               // TOML of fields, layers, outputs and optimizer
  uint32_t checkpoint_steps = 40;  // between checkpoints
  std::function<std::string(uint64_t begin, uint64_t end)> records;  // lines of the data
};

/// Makes a job of that size, and writes its data to files in the machine's folder for temporary
/// files.
Result<Job> make_built_in_job(const JobSize& size, const BuiltInJob& own);

/// Writes a data file of a built-in job unless it exists. Returns its path.
Result<std::string> write_data(const std::string& name, const std::string& format,
                               const std::string& text);

/// Makes the counter job. A squared loss with target 2^30 has a gradient of exactly -2^31 while the
/// weights are small. The learning rate is 2^-31. In mode "mixed" there is also a bias, whose rate
/// is so low that it stays small.
Result<Job> make_counter_job(const JobSize& size);

}  // namespace downpour::sim
