// Run setup: turns a job into a chief's configuration: files, shards, plan, run folder, and the
// state to resume from.
#pragma once

#include <cstdint>
#include <ctime>
#include <functional>
#include <string>
#include <vector>

#include "chief/core/events.h"
#include "shared/base/result.h"
#include "shared/checkpoint/manifest.h"
#include "shared/env/storage.h"
#include "shared/job/job.h"
#include "shared/tensor/variables.h"

namespace downpour::chief {

struct SetupOptions {
  wire::Purpose mode = wire::Purpose::kTrain;
  bool fresh = false;  // remove an existing run from the folder
  uint32_t ps_cores = 1;
  uint32_t workers = 1;
  uint64_t run_id = 0;  // id of a run that begins; 0: random
  // Returns the time that is written into files, for information only.
  std::function<int64_t()> unix_time_s = [] { return int64_t(std::time(nullptr)); };
};

/// The plan of a job with the current data. It is not written to disk.
struct RunPlan {
  Job job;
  std::string job_text;
  std::vector<TableSpec> tables;
  std::vector<plan::FileInfo> train_files, eval_files;
  uint64_t shard_bytes = 0;
  plan::StreamSpec streams;  // streams of the training data
  uint64_t plan_hash = 0;
  uint64_t fingerprint = 0;
  uint32_t shards = 0;         // 0: known only after reading (FileInfo::is_open())
  uint64_t share_records = 0;  // of the longest share of an epoch (TrainSpec::shares()); estimated
  /// Returns the bytes of all training files, as far as known.
  uint64_t train_bytes() const;
};

/// Lists the files, cuts the shards, and builds the model. `job` is complete. Errors: those of
/// list_files() and Graph::build().
Result<RunPlan> plan_run(const Job& job, wire::Purpose mode);

/// Returns the plan hash: of the data, the shards, and how records are read. Errors: those of
/// Graph::build().
Result<uint64_t> hash_of(const RunPlan& plan);

/// Opens or begins the run and, for training, takes a term. `notes` receives why newer checkpoints
/// were skipped, and which optional files could not be written. Errors: kConfig, which names the
/// data file that has changed within an epoch, or each key that may not change, with both values;
/// kCannotCreate, kIo, kPermission; kNoInput if there is no checkpoint for eval or predict.
Result<ChiefConfig> open_run(Storage& storage, const RunPlan& plan, const SetupOptions& options,
                             std::vector<std::string>* notes = nullptr);

/// Returns true if a chief with this plan may restore that checkpoint: if the job that wrote it has
/// ended with it, or if it has the same plan hash, and its job differs from `job` only in keys that
/// may change within an epoch. `job` is null for evaluations and predictions, which compare
/// only plan hashes.
bool fits_plan(const checkpoint::Manifest& manifest, uint64_t plan_hash, const Job* job,
               const std::string& run_dir);

/// Returns true if the job that wrote the checkpoint has ended with it: every epoch is sealed,
/// train.steps ended with the last sealed one, or the job stops early after it.
bool has_ended(const Job& job, const checkpoint::Manifest& manifest);

/// Returns the state for resuming `job` from that checkpoint of the run. If the job has other
/// slices than before, the earlier evaluations lose theirs.
ResumeState resume_from(Storage& storage, const std::string& run_dir,
                        const checkpoint::Manifest& manifest, const Job& job);

/// Returns the job of a run: from its newest manifest, or else from the file `run`. For a resumed
/// train.
Result<Job> saved_job(Storage& storage, const std::string& run_dir);

/// Returns the job that trained the checkpoint that predictions use, which a later start of the run
/// may have changed. For eval and predict.
Result<Job> model_job(Storage& storage, const std::string& run_dir);

/// Chooses the bytes of one shard, so that a data set has about 64 shards (16 if `data.program` is
/// set), and each shard at least 4 and at most 64 batches. Very large data have larger shards, up
/// to 256 MiB, to limit their number. `data.shard_records` takes precedence. If each replica trains
/// its share of an epoch alone: about 16 ranges for each share, or `data.interleave.cycle`. Batches
/// are converted to bytes by the mean record of the first file. The result does not depend on the
/// number of workers.
Result<uint64_t> choose_shard_bytes(const Job& job, const DataSpec& data,
                                    const std::vector<plan::FileInfo>& files);

/// Cuts the training data into pieces (FileInfo::is_streamed()) if they are one compressed file.
/// All sizes are uncompressed, estimated from the file's beginning. A file above 64 MiB is cut into
/// pieces of 16 MiB, but at least four batches. With data.shard_records, a file of any size is cut
/// into pieces of that many records. The file stays whole if a piece would be larger than 128 MiB.
Result<void> cut_compressed(const Job& job, std::vector<plan::FileInfo>& files);

/// Checks that skip and take leave some range of the files. Error kNoInput; `where` is the setting
/// to change.
Result<void> check_chosen(const std::vector<plan::FileInfo>& files,
                          const std::vector<plan::ShardRange>& ranges, const char* where);

}  // namespace downpour::chief
