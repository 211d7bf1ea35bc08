// ReadPlan: which records a job reads, and how. It decides which records a batch id names.
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
/// Creates a pool of memory that the readers of a process share one after another.
std::shared_ptr<ScratchPool> make_scratch_pool();

class ProgramPool;
/// Creates a pool of the programs that the readers of a process have started. stop_programs() kills
/// them, and fails every reader that reads from one.
std::shared_ptr<ProgramPool> make_program_pool();
void stop_programs(ProgramPool& pool);
bool are_stopped(const ProgramPool& pool);

class RecordStreams;
/// Creates a cache for streams: programs' outputs and compressed files that can only be read from
/// their start. Each is read once for all readers of a process.
std::shared_ptr<RecordStreams> make_record_streams();

class CacheStore;
/// Creates the store for the parsed records of a process: memory, or an unlinked file in `folder`,
/// of at most `bytes_max` bytes. used_bytes() returns how much is in use. was_full() returns
/// whether a request found no room.
std::shared_ptr<CacheStore> make_cache_store(Cache where, uint64_t bytes_max, std::string folder);
uint64_t used_bytes(const CacheStore& store);
bool was_full(const CacheStore& store);
class RecordCache;

/// Everything that a reader needs. All readers of a process share it. It is immutable, and its
/// pools are thread-safe.
struct ReadPlan : FieldContext {
  uint64_t seed = 1;
  bool drop_remainder = false;
  uint64_t batches_max = 0;  // batches of a shard that is one epoch; 0: until its end
  double holdout = 0;        // share of the records held out of training
  SourceSpec source;         // which records of the files belong to the data set
  std::string base_dir;      // working directory of the source's program
  std::vector<plan::FileInfo> files;
  bool training = true;                // random ops apply, except to held-out records
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

/// Returns a plan that reads the same data for prediction: every record, in the order of the files.
/// Targets are optional, and any value is allowed. A missing target reads as its field's default or
/// 0, whether a text, the whole column or the label file is missing. A column counts as missing if
/// the header does not contain it. Without a header, the targets' columns count as missing if the
/// first line has exactly that many cells fewer.
std::shared_ptr<const ReadPlan> for_prediction(const ReadPlan& plan);

/// Describes the amount of data for the user: "2 files, 3.1 MiB", "a program, 10000 records an
/// epoch".
std::string text_of(const std::vector<plan::FileInfo>& files);
/// Returns whether the records can only be read from the first one on: a program that writes whole
/// epochs.
bool is_stream(const SourceSpec& source);
/// Cuts a program's records into ranges of `records_a_range`; 0 means no cut. Also sets
/// records_before, as count_pieces() would. If the number of records is not known, the length stays
/// open (FileInfo::is_open()), and a piece has at most kOpenPieceMax records.
constexpr uint64_t kOpenPieceMax = uint64_t{1} << 32;
void cut_program(const SourceSpec& source, uint64_t records_a_range, plan::FileInfo& info);
/// Returns the files with each program of open length as one range.
std::vector<plan::FileInfo> as_whole(std::vector<plan::FileInfo> files);

/// Returns the hash of everything that decides which records a batch id names: files, seed, data
/// and fields, layout, batch size, holdout, the ranges of the shards, and the version of this
/// reader.
uint64_t plan_hash(const ReadPlan& plan, const std::vector<plan::ShardRange>& shards);

/// Returns how shards are made of the ranges of the training data; for a mix, after note_parts().
/// `files` come from find_cuts() and cut_program(); they determine whether ranges are pieces of a
/// stream.
plan::ShardRecipe joining_of(const DataSpec& data, const std::vector<plan::FileInfo>& files);
/// Checks that files come from a source of files, and a program from a source that is a program. A
/// process that receives them must check this. Error: kMalformed.
Result<void> check_kinds(const SourceSpec& source, const std::vector<plan::FileInfo>& files);
/// Checks that the parts stored in a mix match these files. A process that receives a job must
/// check this.
Result<void> check_parts(const DataSpec& data, const std::vector<plan::FileInfo>& files);
plan::ShardMap map_shards(const Job& job, const std::vector<plan::FileInfo>& files,
                          std::vector<plan::ShardRange> ranges);
/// Returns the streams that the job's training data consist of.
plan::StreamSpec stream_spec(const DataSpec& data);
/// Describes in one sentence which workers read which data, and how often each record counts in an
/// epoch.
std::string sharding_text(const DataSpec& data, const std::vector<plan::FileInfo>& files);
/// Returns whether records are chosen by their number, so that records must be counted first.
bool chooses_by_number(const SourceSpec& source, const plan::StreamSpec& streams);

}  // namespace downpour::data
