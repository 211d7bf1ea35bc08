// Dataset: reads one shard, from a batch on, and yields batches. Pull iterators; each belongs to
// one thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "shared/base/result.h"
#include "shared/job/job.h"
#include "shared/job/preset.h"
#include "shared/plan/shard.h"
#include "shared/tensor/batch.h"

namespace downpour::data {

/// What a target must be; the model's outputs say it. A value that breaks it makes its record a bad
/// one.
enum class TargetKind : uint8_t {
  kAny,     // any finite number
  kBinary,  // 0 or 1; -1 reads as 0
  kClass,   // an integer in [0, classes)
};
struct TargetRule {
  std::string field;
  TargetKind kind = TargetKind::kAny;
  uint32_t classes = 0;
};

class ScratchPool;
/// Memory that the readers of a process hand on to each other.
std::shared_ptr<ScratchPool> make_scratch_pool();

class ProgramPool;
/// The programs that the readers of a process have running; stop_programs() ends them, and fails
/// whoever reads from one.
std::shared_ptr<ProgramPool> make_program_pool();
void stop_programs(ProgramPool& pool);

class RecordStreams;
/// What they write that can only be read from its start, read once for all readers of a process.
std::shared_ptr<RecordStreams> make_record_streams();

class CacheStore;
/// Where the readers of a process keep what they have parsed: memory, or an unlinked file in
/// `folder`, of at most so many bytes; and how much of that is in use, and was more asked for.
std::shared_ptr<CacheStore> make_cache_store(Cache where, uint64_t bytes_max, std::string folder);
uint64_t used_bytes(const CacheStore& store);
bool was_full(const CacheStore& store);
class RecordCache;

class VocabularyPool;
/// The vocabularies of a job's fields, read once for all readers of a process.
std::shared_ptr<VocabularyPool> make_vocabulary_pool();

/// Everything that a reader needs; shared by all readers of a process, immutable (its pool is
/// thread-safe).
struct ReadPlan {
  DataSpec data;
  InputLayout layout;
  uint64_t seed = 1;
  uint32_t batch_size = 512;
  bool drop_remainder = false;
  uint64_t batches_max = 0;  // of a shard, where it is an epoch; 0: to its end
  double holdout = 0;        // share held out of training
  SourceSpec source;         // which records of the files belong to it
  std::string base_dir;      // where its program runs
  std::vector<plan::FileInfo> files;
  std::vector<TargetRule> targets;
  bool targets_optional = false;       // see for_prediction()
  bool training = true;                // random ops act, but on what is held out
  std::shared_ptr<RecordCache> cache;  // null: what is read again is parsed again
  std::shared_ptr<ScratchPool> scratch = make_scratch_pool();
  std::shared_ptr<ProgramPool> programs = make_program_pool();
  std::shared_ptr<RecordStreams> streams = make_record_streams();
  std::shared_ptr<VocabularyPool> vocabularies = make_vocabulary_pool();
};

/// The same with a cache of its own in `store`.
std::shared_ptr<const ReadPlan> with_cache(const ReadPlan& plan, std::shared_ptr<CacheStore> store);

/// The plan of a job's readers: `widths` are the floats of each of its model's outputs, `source` is
/// what `files` are of, `holdout` the share kept out.
std::shared_ptr<const ReadPlan> make_read_plan(const Job& job, const InputLayout& layout,
                                               const std::vector<uint32_t>& widths,
                                               const SourceSpec& source,
                                               std::vector<plan::FileInfo> files, double holdout);

/// The same reading of another source's files for evaluation: no record is held out, random ops do
/// nothing.
std::shared_ptr<const ReadPlan> for_evaluation(const ReadPlan& plan, const SourceSpec& source,
                                               std::vector<plan::FileInfo> files);

/// The same reading for data to predict: every record, in the order of the files. Its targets need
/// not be known: any value will do, and a missing one reads as its field's default or 0, whether a
/// text, the whole column, or the labels' file is absent. A column is taken for absent where the
/// header lacks it, or where there is no header and the first line is shorter by just the targets'
/// columns.
std::shared_ptr<const ReadPlan> for_prediction(const ReadPlan& plan);

/// Whether data.filter is a condition on the fields that there are. Error: kConfig with its column.
Result<void> check_filter(const DataSpec& data);

/// Reads the files of the `vocabulary` ops and notes their size and fingerprint in them, so that
/// whoever reads one later knows it for the same. Errors: kNoInput, kIo; kBadData naming the line
/// of a word that stands twice, or a file that is another than was noted.
Result<void> note_vocabularies(DataSpec& data);

/// How many bytes come out of each of a compressed file, by its first 4 MiB; none of a plain one.
/// Errors: kNoInput, kIo, kBadData.
Result<std::optional<double>> compression_ratio(const std::string& path);

/// How much there is, for people: "2 files, 3.1 MiB", "a program, 10,000 records".
std::string text_of(const std::vector<plan::FileInfo>& files);
/// Whether it stands for a program.
bool is_program(const plan::FileInfo& info);
/// Whether its records can only be read from the first one on: a program's that gives whole epochs.
bool is_stream(const SourceSpec& source);
/// Cuts a program's records in ranges of so many; where they begin is known then, as count_pieces()
/// would find it. Of a number that is not known: in pieces without an end (FileInfo::is_open()), of
/// at most kOpenPieceMax records. 0: not at all.
constexpr uint64_t kOpenPieceMax = uint64_t{1} << 32;
void cut_program(const SourceSpec& source, uint64_t records_a_range, plan::FileInfo& info);
/// The files, each program that is cut without an end as one range.
std::vector<plan::FileInfo> as_whole(std::vector<plan::FileInfo> files);

/// The hash of all that decides which records a batch id names: files, seed, data and fields,
/// layout, batch size, holdout, the shards' ranges, and the version of this reader.
uint64_t plan_hash(const ReadPlan& plan, const std::vector<plan::ShardRange>& shards);

/// The fields that a format gives without being told: libsvm `label`, `features`; criteo `label`,
/// I1..I13, C1..C26; mnist `image`, `label`. Empty for CSV and TSV. The job's own fields go before
/// these.
std::vector<FieldSpec> default_fields(DataFormat format);
/// The columns that a format gives without being told (criteo's 40); empty for the others.
std::vector<std::string> default_columns(DataFormat format);

/// Bytes a record takes in the file, from its first lines (mnist: from its header): what turns a
/// number of records a shard into cut_shards' target_bytes. At least 1.
Result<uint64_t> mean_record_bytes(const DataSpec& data, const std::string& path);

enum class Split : uint8_t { kTrain, kHeldOut, kAll };  // which side of the holdout a reader yields

/// The counts of a whole shard, known when its last batch was given out.
struct ShardTotals {
  ReadCounts counts;
  uint32_t batches = 0;
  // Where its first record starts and its last one ends, line breaks, blank lines and headers
  // included: the shards of a file tile it, [0, bytes). Of joined ranges: RecordFlow::extent(). Of
  // a program that is read as a stream: a hash of all that it gave before, and with it.
  uint64_t first_offset = 0, end_offset = 0;
  uint64_t records_hash = 0;
  uint64_t bytes = 0;  // of the shard, read here: Batch::end_offset at its end
};

/// Yields the batches of one shard in order. Always starts reading at the shard's begin; batches
/// before `first_batch` are parsed for their counts but not given out.
class ShardReader {
 public:
  virtual ~ShardReader() = default;
  /// Fills `batch` (its vectors are reused) and returns true; false at the end, when totals() is
  /// valid. Errors: kBadData with where = "file:line" and the text, kNoInput, kIo; after one the
  /// reader is spent.
  virtual Result<bool> next(Batch& batch) = 0;
  virtual const ShardTotals& totals() const = 0;
  /// Whether the records come from a cache: no file is read.
  virtual bool is_kept() const { return false; }
  /// After an error of next(): the batch at one of whose records it happened; none where the fault
  /// is not a record's.
  virtual std::optional<uint32_t> failed_batch() const = 0;
};

/// Opens a shard. `shard.shard` with `epoch` seeds the shuffle. The records of the batches in
/// `given_up` (ascending) are counted, and not parsed. Errors: kNoInput, kIo, kBadData (file
/// changed). Of several ranges the records are interleaved.
Result<std::unique_ptr<ShardReader>> open_shard(std::shared_ptr<const ReadPlan> plan, Split split,
                                                ShardId shard, std::vector<plan::ShardRange> ranges,
                                                uint32_t first_batch,
                                                std::vector<uint32_t> quarantined_batches = {});
/// The same of one range.
Result<std::unique_ptr<ShardReader>> open_shard(std::shared_ptr<const ReadPlan> plan, Split split,
                                                ShardId shard, const plan::ShardRange& range,
                                                uint32_t first_batch,
                                                std::vector<uint32_t> quarantined_batches = {});

/// Resolves paths and globs to a sorted file list with fingerprints. Errors: kNoInput naming the
/// path or glob; an empty file is an error too. Order: as the paths are written; the names that a
/// glob gives are sorted. Not splittable are compressed files, idx files, and those whose
/// records hide their ends (DataSpec::hides_ends(); until find_cuts()).
Result<std::vector<plan::FileInfo>> list_files(const DataSpec& data, const SourceSpec& source,
                                               const std::string& base_dir);

/// Says where files of `source` are to be cut, where that isn't about every `shard_bytes` of them,
/// which cut_shards() does by itself: those whose records do not show where they begin (TFRecord),
/// of which it reads the headers, as far as the source takes records, or an index beside the file;
/// and those of a mix whose records are longer or shorter than the first part's, so that all ranges
/// have about as many of them (after note_parts()). Errors: kIo, kBadData.
Result<void> find_cuts(const DataSpec& data, const SourceSpec& source, uint64_t shard_bytes,
                       std::vector<plan::FileInfo>& files);

/// Notes in the parts of a weighted mix how many files each has, and how long their records are.
/// Errors: as mean_record_bytes().
Result<void> note_parts(DataSpec& data, const std::vector<plan::FileInfo>& files);
/// How the ranges of the training data make shards; of a mix, after note_parts(). `files` say
/// whether they are pieces of a stream; those of find_cuts() and cut_program().
plan::ShardRecipe joining_of(const DataSpec& data, const std::vector<plan::FileInfo>& files);
/// Whether the noted parts of a mix are these files: what a job from elsewhere must keep.
Result<void> check_parts(const DataSpec& data, const std::vector<plan::FileInfo>& files);
plan::ShardMap map_shards(const Job& job, const std::vector<plan::FileInfo>& files,
                          std::vector<plan::ShardRange> ranges);
/// The streams that the job's training data are made of.
plan::StreamSpec stream_spec(const DataSpec& data);
/// In a sentence: who reads what, and how often each record counts in an epoch.
std::string sharding_text(const DataSpec& data, const std::vector<plan::FileInfo>& files);
/// Whether records are chosen by their number, so that they must be counted first.
bool chooses_by_number(const SourceSpec& source, const plan::StreamSpec& streams);
/// Counts the records of every piece that cut_shards() makes of the plan's files, into the
/// records_before of `files`, which are the same: reads all of them, or as far as the source takes
/// records. Errors: as of reading.
Result<void> count_pieces(const ReadPlan& plan, uint64_t shard_bytes,
                          std::vector<plan::FileInfo>& files);

/// Looks at the first lines of a file: its format, and what a job for it must say. Of what the job
/// says already it takes delimiter, header and skip_lines.
/// `records_estimated` is left to the caller (0) unless it is known. Errors: kBadData where it is
/// nothing known.
Result<FileFacts> sniff(const std::string& path, const DataSpec& declared = {});

}  // namespace downpour::data
