// ReadPlan: which records a job reads, and how. The plan decides which records a batch id (epoch,
// shard, batch) names.
//
// Terms of this module:
// - A *sequential source* can only be read from its start: a program that writes a whole
//   epoch, or a compressed file. If it is cut (FileInfo::is_streamed()), its ranges are called
//   *pieces*, and RecordStream reads it once for all readers of a process.
// - A *worker stream* (plan::StreamSpec) is training data that one worker at a time processes: some
//   of the files, some of the records, or a copy of all records, as data.sharding says. Exception:
//   with data.sharding = "auto" (the default) there is one stream, and all workers share it.
// - A *mix* (SourceSpec::is_mix()) is a source of several *parts* with weights: the weight of a
//   part decides its share of the records of an epoch.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "shared/base/result.h"
#include "shared/data/values/field_context.h"
#include "shared/job/job.h"
#include "shared/plan/shard.h"
#include "shared/tensor/batch.h"

namespace downpour::data {

class ScratchPool;
/// Creates a pool of working memory. A reader borrows it from the pool and returns it when it ends,
/// so that the next reader of the process can use it.
std::shared_ptr<ScratchPool> make_scratch_pool();

class ProgramPool;
/// Creates a pool of the programs that the readers of a process have started. stop_programs() kills
/// them, and fails every reader that waits for one. are_stopped() returns whether stop_programs()
/// was called.
std::shared_ptr<ProgramPool> make_program_pool();
void stop_programs(ProgramPool& pool);
bool are_stopped(const ProgramPool& pool);

class RecordStreams;
/// Creates a cache for the records of sequential sources, so that the readers of a process share
/// one pass through a source.
std::shared_ptr<RecordStreams> make_record_streams();

class CacheStore;
/// Creates the store for the parsed records of a process: memory, or an unlinked file in `folder`,
/// of at most `bytes_max` bytes. used_bytes() returns how much is in use. was_full() returns
/// whether the store has ever refused a request for lack of room.
std::shared_ptr<CacheStore> make_cache_store(Cache where, uint64_t bytes_max, std::string folder);
uint64_t used_bytes(const CacheStore& store);
bool was_full(const CacheStore& store);
class RecordCache;

/// Everything that a reader needs. All readers of a process share it. It is immutable, and its
/// pools are thread-safe.
struct ReadPlan : FieldContext {
  uint64_t seed = 1;
  bool drop_remainder = false;
  // Number of batches after which a shard ends (train.steps_per_epoch, for data of a single shard);
  // 0: the shard ends with its records.
  uint64_t batches_max = 0;
  uint64_t replicas = 1;  // that take a batch each in one step; for programs only
  uint32_t shares = 0;    // plan::ShardRecipe::shares
  double holdout = 0;     // share of the training records that only evaluations read
  SourceSpec source;      // which records of the files belong to the data set
  std::string base_dir;   // working directory of the job's programs
  std::vector<plan::FileInfo> files;
  // True: a reader of training records applies random ops. A reader of held-out records
  // (Split::kHeldOut) never does. False: the plan is for evaluation or prediction.
  bool training = true;
  // True: a record whose label is none of the classes is skipped and counted like a bad record with
  // data.bad_records = "skip". No effect if `training`.
  bool skips_unknown_labels = false;
  std::shared_ptr<RecordCache> cache;  // null: records that are read again are parsed again
  std::shared_ptr<ScratchPool> scratch = make_scratch_pool();
  std::shared_ptr<ProgramPool> programs = make_program_pool();
  std::shared_ptr<RecordStreams> streams = make_record_streams();
};

/// Returns a copy of the plan with its own cache in `store`.
std::shared_ptr<const ReadPlan> with_cache(const ReadPlan& plan, std::shared_ptr<CacheStore> store);

/// Returns the plan for a job's readers. `widths` has the number of floats of each model output,
/// `files` are the files of `source`, and `holdout` is the share held out of training.
std::shared_ptr<const ReadPlan> make_read_plan(const Job& job, const InputLayout& layout,
                                               const std::vector<uint32_t>& widths,
                                               const SourceSpec& source,
                                               std::vector<plan::FileInfo> files, double holdout);

/// Returns a plan that reads the files of another source in the same way for evaluation. No record
/// is held out, and random ops do nothing.
std::shared_ptr<const ReadPlan> for_evaluation(const ReadPlan& plan, const SourceSpec& source,
                                               std::vector<plan::FileInfo> files);

/// Returns a plan that reads the same data for prediction: without filter and shuffle, so that
/// predictions have the order of the files. A bad record is an error. Targets are optional, and any
/// value is allowed; so are the fields with the weights of `outputs`. A missing target reads as its
/// field's default or 0. A target is missing if its value, its column, its array or the label file
/// is missing. The rule for a missing column depends on the header:
/// - With a header, a column is missing if the header does not name it.
/// - Without a header, either all or none of the targets' columns are missing. They are missing if
///   the first line has exactly as many cells as the job declares columns that are not targets.
std::shared_ptr<const ReadPlan> for_prediction(const ReadPlan& plan,
                                               const std::vector<OutputSpec>& outputs = {});

/// Describes the amount of data for the user: "2 files, 3.1 MiB", "a program, 10000 records an
/// epoch".
std::string text_of(const std::vector<plan::FileInfo>& files);
/// Returns true if the source is a program that writes whole epochs. Compressed files are
/// sequential sources too, but this function returns false for them; see FileInfo::is_streamed().
bool is_stream(const SourceSpec& source);
/// Most records in a piece, if the number of records of the whole program is unknown.
constexpr uint64_t kOpenPieceMax = uint64_t{1} << 32;
/// Cuts the output of a program into ranges of `records_a_range` records; 0 means no cut. Also sets
/// info.records_before: the number of records of the data set that precede each range. If the
/// program's number of records is unknown, makes no ranges: marks the length as unknown
/// (FileInfo::is_open()) and stores the piece size. `records_a_range` must then be at most
/// kOpenPieceMax.
void cut_program(const SourceSpec& source, uint64_t records_a_range, plan::FileInfo& info);
/// Returns `files` with each program of unknown length uncut, as a single range.
std::vector<plan::FileInfo> as_whole(std::vector<plan::FileInfo> files);

/// Returns the hash of everything that decides which records a batch id names: files, seed, data
/// and fields, layout, batch size, holdout, the ranges of the shards, and the version of this
/// reader.
uint64_t plan_hash(const ReadPlan& plan, const std::vector<plan::ShardRange>& shards);

/// Returns how the ranges of the training data are joined into shards. `files` must come from
/// find_cuts() and cut_program(), because only these decide whether a file is cut into pieces. For
/// a mix, note_parts() must have stored in `data` how many files each part has. `shares`:
/// TrainSpec::shares(), 0 for data that are only evaluated. The pieces of a sequential source are
/// not joined; the caller must cut as many as there are shares.
plan::ShardRecipe joining_of(const DataSpec& data, const std::vector<plan::FileInfo>& files,
                             uint32_t shares = 0);
/// Checks that every element of `files` is a program if the source is one, and a file otherwise. A
/// process that receives `files` in a message must call this function before it reads them. Error:
/// kMalformed.
Result<void> check_kinds(const SourceSpec& source, const std::vector<plan::FileInfo>& files);
/// Checks that `data` and `files` fit each other: the file counts of a mix's parts add up to the
/// number of `files`, and a program has unknown length only if the job allows it. A process that
/// receives both in a message must call this function before it makes a ShardMap of them, because
/// ShardMap aborts the process if a part has no range.
Result<void> check_parts(const DataSpec& data, const std::vector<plan::FileInfo>& files);
/// Returns the shards of a training pass over `ranges`.
plan::ShardMap map_shards(const Job& job, const std::vector<plan::FileInfo>& files,
                          std::vector<plan::ShardRange> ranges);
/// Returns how data.sharding divides the training data into worker streams.
plan::StreamSpec stream_spec(const DataSpec& data);
/// Describes in one sentence which workers read which data, and how often each record counts in an
/// epoch. `replicas`: those of synchronous training.
std::string sharding_text(const DataSpec& data, const std::vector<plan::FileInfo>& files,
                          std::optional<uint64_t> replicas = {});
/// Returns true if records are chosen by their number, counted over all files: by skip, take and
/// shard of the source, or because each worker stream takes every n-th record. The records of the
/// files must then be counted first.
bool chooses_by_number(const SourceSpec& source, const plan::StreamSpec& streams);

}  // namespace downpour::data
