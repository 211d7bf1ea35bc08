// The counter model: linear, one feature a record, every gradient -1, learning rate 1. After E
// epochs every weight is E exactly, and at any moment a weight says how often its record was
// applied.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "shared/base/result.h"
#include "shared/job/job.h"

namespace downpour::sim {

/// How large a built-in job is, and how its data is read.
struct JobSize {
  uint32_t shards = 12;
  uint32_t batches = 4;  // of a shard, about
  uint32_t records = 8;  // of a batch
  uint32_t epochs = 3;
  uint32_t partitions = 16;
  uint32_t files = 1;             // of the data, as long as each other to a line
  std::string sharding = "auto";  // with 3 streams, unless auto
  uint32_t cycle = 1;             // ranges that a shard joins
  bool mix = false;               // the files are sources of equal weight, all of them read
  uint32_t window = 0;            // of the shuffle, in records; 0: the shard
  uint32_t checkpoint_steps = 0;  // between checkpoints; 0: as the job has it
  uint32_t chief_silence_s = 60;  // after which a ps or worker ends
  uint64_t steps = 0;             // where the job ends; 0: with the epochs
  bool reversed = false;          // the records of each file in the opposite order
  bool program = false;           // which writes the first file, and does not say how many records
};

/// What one built-in job has of its own.
struct BuiltInJob {
  std::string name;
  std::string format;
  std::string model;               // TOML: fields, layers, outputs, optimizer
  uint32_t checkpoint_steps = 40;  // between checkpoints
  std::function<std::string(uint64_t begin, uint64_t end)> records;  // the data's lines
};

/// A job of that size, and its data in files of the machine's folder for temporary files.
Result<Job> make_built_in_job(const JobSize& size, const BuiltInJob& own);

/// Writes a data file of a built-in job, unless it is there. Returns its path.
Result<std::string> write_data(const std::string& name, const std::string& format,
                               const std::string& text);

/// The counter model. A squared loss with a target of 2^30 has the gradient -2^31 exactly as long
/// as weights are small; the rate is 2^-31.
Result<Job> make_counter_job(const JobSize& size);

}  // namespace downpour::sim
