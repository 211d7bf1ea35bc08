// Run setup: from a job to a chief's configuration: files, shards, plan, run folder, and where to
// go on.
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
  bool fresh = false;  // removes what the run folder holds
  uint32_t ps_cores = 1;
  uint32_t workers = 1;
  uint64_t run_id = 0;  // of a run that begins; 0: a random one
  std::function<int64_t()> unix_time_s = [] {
    return int64_t(std::time(nullptr));
  };  // for information in files
};

/// What a job comes to with the data that is there now; nothing is written.
struct RunPlan {
  Job job;
  std::string job_text;
  std::vector<TableSpec> tables;
  std::vector<plan::FileInfo> train_files, eval_files;
  uint64_t shard_bytes = 0;
  plan::StreamSpec streams;  // of the training data
  uint64_t plan_hash = 0;
  uint64_t fingerprint = 0;
  uint32_t shards = 0;  // 0: only reading tells (FileInfo::is_open())
  /// Of all training files, as far as it is known.
  uint64_t train_bytes() const;
};

/// Lists the files, cuts the shards, builds the model. `job` is complete. Errors: as list_files(),
/// Graph::build().
Result<RunPlan> plan_run(const Job& job, wire::Purpose mode);

/// What tells the plan from others: data, shards and how records are read. Error: as
/// Graph::build().
Result<uint64_t> hash_of(const RunPlan& plan);

/// Opens or begins the run and takes a term. `notes` gets why newer checkpoints were passed over,
/// and which files that training does not need could not be written. Errors: kConfig naming each
/// frozen key that differs with both values, or the data file that has changed within an epoch;
/// kCannotCreate, kIo, kPermission; eval and predict: kNoInput where there is no checkpoint.
Result<ChiefConfig> open_run(Storage& storage, const RunPlan& plan, const SetupOptions& options,
                             std::vector<std::string>* notes = nullptr);

/// Whether a chief with this plan may restore from that checkpoint: the checkpoint is of the same
/// plan, or every epoch that its job wanted is sealed in it.
bool fits_plan(const checkpoint::Manifest& manifest, uint64_t plan_hash,
               const std::string& run_dir);

/// Where a job goes on from that checkpoint of the run.
ResumeState resume_from(const std::string& run_dir, const checkpoint::Manifest& manifest);

/// A job as it stands in a run folder or in the manifest of one: for eval, predict and a resumed
/// train.
Result<Job> saved_job(Storage& storage, const std::string& run_dir);

/// Bytes of one shard: at most 64 batches, about 64 shards a data set, at least four batches; by
/// the file's mean record. The same for any number of workers.
Result<uint64_t> choose_shard_bytes(const Job& job, const DataSpec& data,
                                    const std::vector<plan::FileInfo>& files);

/// Cuts the training data of a job, where they are one compressed file that holds more than 64 MiB,
/// in pieces (FileInfo::is_streamed()) of 16 MiB, by how much its beginning grows, but at least
/// four batches; or any in pieces of data.shard_records. One whose pieces would hold more than 128
/// MiB stays whole.
Result<void> cut_compressed(const Job& job, std::vector<plan::FileInfo>& files);

/// Files of which skip and take leave no range are a mistake. Error kNoInput; `where` is the
/// setting to mend.
Result<void> check_chosen(const std::vector<plan::FileInfo>& files,
                          const std::vector<plan::ShardRange>& ranges, const char* where);

}  // namespace downpour::chief
