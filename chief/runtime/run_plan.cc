// plan_run: the files, shards and plan hash of a job.
#include <algorithm>
#include <bit>
#include <sstream>
#include <utility>

#include "chief/runtime/run_setup.h"
#include "shared/base/error_text.h"
#include "shared/base/human.h"
#include "shared/base/sizes.h"
#include "shared/base/units.h"
#include "shared/data/reading/dataset.h"
#include "shared/data/values/vocabulary.h"
#include "shared/job/formats.h"
#include "shared/job/job_file.h"
#include "shared/model/graph.h"
#include "shared/plan/plan_hash.h"
#include "shared/plan/range_limits.h"

namespace downpour::chief {
namespace {

constexpr uint64_t kBatchesPerShardMax = 64;
constexpr uint64_t kBatchesPerShardMin = 4;
constexpr uint64_t kShardsWanted = 64;
constexpr uint64_t kProgramShardsWanted = 16;  // if each shard starts data.program
constexpr uint64_t kPiecesMax = 32'768;  // pieces of a stream, which are all listed to every worker
// Sizes of one compressed file, uncompressed. A file up to this size is not cut, and shuffled as
// one:
constexpr uint64_t kWholeFileMax = 64 * kMiB;
constexpr uint64_t kFilePiece = 16 * kMiB;
// Half of what may wait in memory, in case the file compresses better further on.
constexpr uint64_t kFilePieceMax = 128 * kMiB;
// Shards of very large data may exceed kBatchesPerShardMax batches, up to this many bytes, so that
// there are at most plan::kRangesMax of them. Even larger data need data.shard_records.
constexpr uint64_t kLargeRangeMax = 256 * kMiB;
// A replica's share of an epoch joins ranges from this many places of the data, so that the
// replicas train similar records. With data.program each range starts a process.
constexpr uint32_t kShareRanges = 16;
constexpr size_t kShareRangesMax = 256;  // they are read at once; more are an error

/// Returns the number of ranges into which the data of an epoch are cut for `shares` replicas.
uint64_t share_ranges(const DataSpec& data, uint32_t shares) {
  const uint32_t joined = data.interleave.cycle > 1 ? data.interleave.cycle
                          : data.program.empty()    ? kShareRanges
                                                    : 1;
  const bool every_stream_has_all =
      data.sharding == Sharding::kData || data.sharding == Sharding::kOff;
  return uint64_t{joined} * (every_stream_has_all ? 1 : shares);
}

/// Returns how many batches a shard has if replicas train one shard each at the same time: from
/// `least` to twice as many, with which they need the fewest steps for an epoch of `batches`. A
/// replica that finds no shard waits for the others. With more batches than `least`, the shards are
/// not fewer than the replicas.
uint64_t even_batches(uint64_t least, uint64_t batches, uint64_t replicas) {
  const auto steps = [&](uint64_t of_shard) {
    return divide_up(batches, of_shard * replicas) * of_shard;
  };
  uint64_t best = least;
  for (uint64_t b = least + 1; b <= 2 * least && divide_up(batches, b) >= replicas; ++b)
    if (steps(b) < steps(best)) best = b;
  return best;
}

uint64_t fingerprint_of(const std::vector<plan::FileInfo>& files) {
  plan::PlanHash hash;
  for (const plan::FileInfo& file : files)
    hash.add("bytes", file.bytes).add("file", file.fingerprint);
  return hash.value();
}

/// Rejects a job that is not UTF-8. Processes get the job as TOML, so other bytes in a path would
/// not arrive.
Result<void> check_utf8(const std::string& job_text) {
  std::istringstream lines(job_text);
  for (std::string line; std::getline(lines, line);) {
    const std::string shown = printable(line);
    if (shown == line) continue;
    return Error{ErrorCode::kConfig, str("the job is not UTF-8: ", shown),
                 line.substr(0, line.find(" =")),
                 "rename the folder or file, or create a link with a name in UTF-8", "DP-2106"};
  }
  return {};
}

}  // namespace

Result<uint64_t> choose_shard_bytes(const Job& job, const DataSpec& data,
                                    const std::vector<plan::FileInfo>& files) {
  uint64_t total = 0;
  for (const plan::FileInfo& file : files) total = saturating_add(total, file.bytes);
  if (files.empty() || files.front().is_program()) return kMiB;
  if (const uint32_t shares = job.train.shares(); shares > 0)
    return std::max<uint64_t>(divide_up(total, share_ranges(data, shares)), 1);
  DP_TRY(const uint64_t record, data::mean_record_bytes(data, files, files.front().part));
  const uint32_t joined = plan::ranges_of(data::joining_of(job.data, {}));
  if (job.data.shard_records > 0)
    return std::max<uint64_t>(saturating_multiply(job.data.shard_records, record) / joined, 1);
  const auto batches = [&](uint64_t count) {
    return saturating_multiply(saturating_multiply(record, job.train.part_records()), count);
  };
  const uint64_t wanted = job.data.program.empty() ? kShardsWanted : kProgramShardsWanted;
  uint64_t shard =
      std::clamp(total / wanted, batches(kBatchesPerShardMin), batches(kBatchesPerShardMax));
  if (const uint64_t replicas = job.train.replicas.value_or(1); replicas > 1 && batches(1) > 0)
    shard = batches(even_batches(shard / batches(1), divide_up(total, batches(1)), replicas));
  // The last range of each file may be short.
  const uint64_t whole = files.size() < plan::kRangesMax ? plan::kRangesMax - files.size() : 1;
  return std::max<uint64_t>({shard / joined, std::min(divide_up(total, whole), kLargeRangeMax), 1});
}

namespace {

Result<void> check_streams(const plan::StreamSpec& streams,
                           const std::vector<plan::FileInfo>& files, bool by_replica) {
  if (streams.policy != plan::StreamPolicy::kFiles || streams.count <= files.size() ||
      files.empty())
    return {};
  return Error{ErrorCode::kConfig,
               str("sharding = \"file\" in ", streams.count,
                   " streams needs the same number of files, but the source has ", files.size()),
               "data.sharding",
               str("set ", by_replica ? "train.replicas" : "data.streams", " = ", files.size(),
                   ", or sharding = \"auto\" or \"data\", which split files"),
               ""};
}

/// Checks that an epoch with a fixed number of batches is a single shard.
Result<void> check_steps_per_epoch(const Job& job, const std::vector<plan::FileInfo>& files,
                                   const std::vector<plan::ShardRange>& ranges) {
  if (job.train.steps_per_epoch == 0 || files.empty()) return {};
  if (ranges.size() == 1 && !files[ranges.front().file].is_cut()) return {};
  return Error{ErrorCode::kConfig,
               str("`steps_per_epoch` does not support a source that is split into shards (",
                   ranges.size(), ranges.size() == 1 ? " range)" : " ranges)"),
               "train.steps_per_epoch",
               "remove it: an epoch is the whole source; to train on less, set train.steps, or "
               "`take` of data.source",
               ""};
}

constexpr const char* kOrNumber = "or set a number of batches, for example train.sync_every = 16";

/// Returns the mean bytes of a record at the beginnings of ranges all over the files, or 0 if
/// offsets are not bytes of the files.
Result<uint64_t> sampled_record_bytes(const RunPlan& plan, const model::Graph& graph,
                                      const std::vector<plan::ShardRange>& ranges) {
  constexpr size_t kRangesSampled = 64;
  constexpr uint32_t kRecordsSampled = 256;  // of each range
  const Job& job = plan.job;
  auto sample = std::make_shared<data::ReadPlan>(
      *data::make_read_plan(job, graph.inputs(), graph.output_widths(), job.data.source,
                            plan.train_files, /*holdout=*/0));
  sample->batch_size = kRecordsSampled;
  sample->data.shuffle = "off";
  uint64_t bytes = 0, records = 0;
  Batch batch;
  for (size_t i = 0; i < ranges.size(); i += ranges.size() / kRangesSampled + 1) {
    const plan::FileInfo& file = plan.train_files[ranges[i].file];
    if (file.is_program() || !file.is_cut() || file.is_streamed() || is_arrays(job.data.format))
      return 0;
    DP_TRY(const auto reader, data::open_shard(sample, data::Split::kAll, {}, ranges[i], 0));
    DP_TRY(const bool any, reader->next(batch));
    if (!any || batch.counts.read < 2) continue;
    bytes += batch.last_record - batch.first_record;
    records += batch.counts.read - 1;
  }
  return bytes / std::max<uint64_t>(records, 1);
}

/// Checks that the data of an epoch are one shard for each replica, and notes how many records the
/// longest shard has.
Result<void> check_shares(RunPlan& plan, const model::Graph& graph, const plan::ShardMap& shards) {
  const TrainSpec& train = plan.job.train;
  const auto wrong = [](std::string what, std::string hint) {
    return Error{ErrorCode::kConfig, str("sync_every = \"epoch\" ", what), "train.sync_every",
                 str(hint, "; ", kOrNumber), "DP-2106"};
  };
  if (train.shares() == 0 || plan.train_files.empty()) return {};
  if (shards.open_piece() > 0) {
    return wrong(str("divides the records of an epoch among ", train.shares(),
                     " replicas, but the number of records of this program is unknown"),
                 "set `records` of data.source");
  }
  if (shards.count() != train.shares()) {
    return wrong(str("divides the data among ", train.shares(),
                     " replicas, but these data can only be cut into ", shards.count(),
                     shards.count() == 1 ? " part" : " parts"),
                 str("set train.replicas = ", shards.count(),
                     "; or split the data into more files with downpour shard"));
  }
  uint64_t bytes = 0, record = 1;  // of a program, a record is one byte
  for (uint32_t place = 0; place < shards.count(); ++place) {
    const std::vector<plan::ShardRange> ranges = shards.at(/*epoch=*/0, place);
    if (ranges.size() > kShareRangesMax) {
      return wrong(str("would make a replica read ", ranges.size(),
                       " files at once; the maximum is ", kShareRangesMax),
                   "join the files with downpour shard; or raise train.replicas");
    }
    bytes = std::max(bytes, plan::bytes_of(ranges) / ranges.front().modulus);
  }
  if (const plan::FileInfo& first = plan.train_files.front(); !first.is_program()) {
    DP_TRY(record, data::mean_record_bytes(plan.job.data, first.path));
  }
  const uint64_t most = train.part_records();
  plan.share_records = bytes / std::max<uint64_t>(record, 1);
  if (plan.share_records > most) {  // the first records of the first file may be short
    DP_TRY(const uint64_t sampled, sampled_record_bytes(plan, graph, shards.ranges()));
    if (sampled > 0) plan.share_records = bytes / sampled;
  }
  if (plan.share_records <= most) return {};
  const uint64_t replicas = divide_up(plan.share_records, most) * train.shares();
  const bool more_help = plan.job.data.sharding != Sharding::kOff && replicas <= kReplicasMax;
  return wrong(
      str("gives each of the ", train.shares(), " replicas about ", grouped(plan.share_records),
          " records, but a replica can train at most ", grouped(most), " alone"),
      more_help ? str("set train.replicas = ", replicas) : "use fewer records");
}

/// Checks that an epoch reads something of each source of a mix.
Result<void> check_mix(const plan::ShardMap& shards) {
  const std::optional<size_t> unread = shards.source_without_reads();
  if (!unread) return {};
  return Error{ErrorCode::kConfig,
               str("entry ", *unread + 1,
                   " of the source can't be mixed in: one range of its files has more records than "
                   "its weight allows in a whole epoch (compressed files are a single range)"),
               "data.source",
               "set `repeat` of the entry that ends first, give this entry more weight, or split "
               "it into more and smaller files",
               ""};
}

/// Returns the number of records in a piece of a program. If the program is read whole, this is its
/// number of records, or 0 if that is not known.
Result<uint64_t> piece_of(const Job& job, const SourceSpec& source, bool training) {
  const uint64_t batch = job.train.part_records(), records = source.records,
                 few = kBatchesPerShardMin * batch, many = kBatchesPerShardMax * batch;
  const uint64_t fewest = records / kPiecesMax + 1;
  const bool stream = data::is_stream(source);
  // One worker reads the whole stream in an evaluation, so pieces would not help.
  if (stream && !(training && gives_pieces(job))) return records;
  // One piece, which also needs no end, or one for each replica.
  if (const uint32_t shares = job.train.shares(); shares == 1 || (shares > 1 && records > 0))
    return divide_up(records, shares);
  if (job.data.shard_records > 0) {
    const uint64_t piece =
        std::max<uint64_t>(job.data.shard_records / job.data.interleave.cycle, 1);
    if (piece >= fewest) return std::min(piece, data::kOpenPieceMax);
    return Error{ErrorCode::kConfig,
                 str("shards of ", piece, " records give more than ", kPiecesMax,
                     " shards for the program's ", records),
                 "data.shard_records",
                 str("set it to at least ", fewest * job.data.interleave.cycle), ""};
  }
  if (!stream)
    return std::max(
        std::max<uint64_t>(
            std::clamp(records / kShardsWanted, few, many) / job.data.interleave.cycle, 1),
        fewest);
  // A piece is kept in memory until it is read. If the number of records is not known, the reader
  // ends a piece that would take too much memory.
  if (records == 0) {
    // A single epoch may have to contain all `steps`.
    const uint64_t batches =
        std::max({kBatchesPerShardMin, (job.data.shuffle_records() + batch - 1) / batch,
                  job.train.steps / (plan::kOpenShardsMax / 2) + 1});
    return batches < data::kOpenPieceMax / batch ? batches * batch : data::kOpenPieceMax;
  }
  const uint64_t piece = std::max(few, (fewest + batch - 1) / batch * batch);
  if (piece <= many) return piece;
  if (job.train.steps == 0) return records;
  return Error{ErrorCode::kConfig,
               str("`steps` can stop only between shards, but an epoch of ", records,
                   " records is a single shard"),
               "train.steps",
               "set the number of batches of an epoch, for example steps_per_epoch = 1000", ""};
}

/// Returns true if the data are one compressed file that is read as a stream of pieces. Several
/// files are not cut, because they are decompressed in parallel. Data with a cache are not cut
/// either, because the process with the cache decompresses them.
bool gives_pieces_of(const Job& job, const std::vector<plan::FileInfo>& files) {
  const DataSpec& data = job.data;
  return files.size() == 1 && !files.front().is_cut() && !files.front().is_program() &&
         data.source.takes_all() && data.source.parts.empty() && data.sharding == Sharding::kAuto &&
         data.interleave.cycle == 1 && data.cache == Cache::kOff && !is_images(data.format) &&
         !is_arrays(data.format) && job.train.steps_per_epoch == 0;
}

Result<void> cut_programs(const Job& job, wire::Purpose mode, RunPlan& plan) {
  const auto cut = [&](const SourceSpec& source,
                       std::vector<plan::FileInfo>& files) -> Result<void> {
    if (!source.is_program() || files.empty()) return {};
    if (source.records == 0 && mode != wire::Purpose::kTrain) return {};
    DP_TRY(const uint64_t piece, piece_of(job, source, &files == &plan.train_files));
    data::cut_program(source, piece, files.front());
    return {};
  };
  DP_TRY_VOID(cut(job.data.source, plan.train_files));
  return cut(job.eval.source, plan.eval_files);
}

}  // namespace

Result<void> check_chosen(const std::vector<plan::FileInfo>& files,
                          const std::vector<plan::ShardRange>& ranges, const char* where) {
  if (files.empty() || !ranges.empty()) return {};
  return Error{ErrorCode::kNoInput, "`skip` skips all records", where,
               "lower `skip`; downpour data count shows the number of records", ""};
}

Result<void> cut_compressed(const Job& job, std::vector<plan::FileInfo>& files) {
  const uint32_t shares = job.train.shares();
  if (!gives_pieces_of(job, files) || shares == 1) return {};
  plan::FileInfo& file = files.front();
  DP_TRY(const std::optional<double> ratio, data::compression_ratio(file.path));
  if (!ratio) return {};
  const auto compressed = [&](uint64_t text) { return uint64_t(double(text) / *ratio); };
  if (job.data.shard_records == 0 && shares == 0 && file.bytes <= compressed(kWholeFileMax))
    return {};
  DP_TRY(const uint64_t record, data::mean_record_bytes(job.data, file.path));
  const uint64_t wanted = shares > 0 ? divide_up(file.bytes, shares)
                          : job.data.shard_records > 0
                              ? job.data.shard_records * record
                              : std::max(kBatchesPerShardMin * job.train.part_records() * record,
                                         compressed(kFilePiece));
  if (wanted > compressed(kFilePieceMax)) return {};
  const uint64_t pieces =
      std::min((file.bytes + wanted - 1) / std::max<uint64_t>(wanted, 1), kPiecesMax);
  for (uint64_t i = 1; i < pieces; ++i)
    file.cuts.push_back(uint64_t(__uint128_t{file.bytes} * i / pieces));
  return {};
}

uint64_t RunPlan::train_bytes() const {
  uint64_t bytes = 0;
  for (const plan::FileInfo& file : train_files) bytes += file.is_open() ? 0 : file.bytes;
  return bytes;
}

Result<uint64_t> hash_of(const RunPlan& plan) {
  DP_TRY(const auto graph, model::Graph::build(plan.job));
  return data::plan_hash(
      *data::make_read_plan(plan.job, graph->inputs(), graph->output_widths(), plan.job.data.source,
                            plan.train_files, plan.job.eval.holdout),
      plan::cut_streams(plan.train_files, plan.shard_bytes, plan.streams));
}

namespace {

/// With backups a step is known only when it is committed, so a ps keeps the gradients of all
/// replicas until then. Checks that those of the dense variables fit, before any data are read.
Result<void> check_step_memory(const Job& job, const std::vector<TableSpec>& tables) {
  if (job.train.backups == 0) return {};
  uint64_t dense_bytes = 0;
  for (const TableSpec& table : tables) {
    if (table.kind == TableKind::kDense)
      dense_bytes += table.table_variables[0].elements() * sizeof(float);
  }
  const ClusterSpec& cluster = job.cluster;
  const uint64_t replicas = job.train.replicas.value_or(1);
  const uint64_t cores = uint64_t{cluster.ps} * std::max(1U, cluster.ps_threads);
  const uint64_t needed = replicas * dense_bytes / cores;
  const uint64_t room = cluster.ps_memory == 0
                            ? kStepBytesMax
                            : std::min(kStepBytesMax, cluster.ps_memory * cluster.ps / cores);
  if (needed <= room) return {};
  return Error{
      ErrorCode::kConfig,
      str("train.backups is ", job.train.backups, ", so each of the ", cores,
          " ps cores keeps the gradients of ", replicas, " replicas until a step is ",
          "committed: ", human_bytes(needed), " for the dense variables (", replicas, " x ",
          human_bytes(dense_bytes), " in total), but it may keep only ", human_bytes(room)),
      "train.backups",
      "set it to 0, lower train.replicas, or raise cluster.ps or cluster.ps_memory", "DP-2106"};
}

/// With a limit on the norm of each variable, a ps core reports the norms of its partitions in one
/// message. Checks that they fit, also if one core owns all partitions.
Result<void> check_norms(const Job& job, const std::vector<TableSpec>& tables) {
  if (!job.train.replicas || job.train.sync_every || job.clip.norm == 0) return {};
  uint64_t variables = 0;
  for (const TableSpec& table : tables) variables += table.table_variables.size();
  const uint64_t most = wire::kFrameBytesMax / sizeof(double) / job.partitions;
  if (variables <= most) return {};
  return Error{ErrorCode::kConfig,
               str("a synchronous job with ", job.partitions, " partitions limits the norms of at ",
                   "most ", most, " variables, but this one has ", variables),
               "optimizer.clip.norm", "set optimizer.clip.global_norm, or lower partitions",
               "DP-2106"};
}

/// Checks that a job that trains sparse tables and dense variables in two ways has both.
Result<void> check_groups(const Job& job, const std::vector<TableSpec>& tables) {
  if (!traits_of(job.train.mode).has_groups) return {};
  for (const TableKind kind : {TableKind::kEmbedding, TableKind::kDense}) {
    if (std::ranges::count(tables, kind, &TableSpec::kind) > 0) continue;
    const bool dense = kind == TableKind::kDense;
    return Error{
        ErrorCode::kConfig,
        str("mode \"mixed\" trains sparse tables and dense variables, but the model has no ",
            dense ? "dense variables" : "sparse tables"),
        "train.mode", str("set it to \"", dense ? "async" : "sync", '"'), "DP-2106"};
  }
  return {};
}

}  // namespace

Result<RunPlan> plan_run(const Job& job, wire::Purpose mode) {
  RunPlan out;
  out.job = job;
  DP_TRY_VOID(data::note_vocabularies(out.job.data));
  DP_TRY(const auto graph, model::Graph::build(job));
  out.tables = graph->tables();
  if (mode == wire::Purpose::kTrain) {
    DP_TRY_VOID(check_step_memory(job, out.tables));
    DP_TRY_VOID(check_norms(job, out.tables));
    DP_TRY_VOID(check_groups(job, out.tables));
  }
  DP_TRY_VOID(data::check_filter(job.data));
  // eval and predict read one source, which takes the place of the evaluation data.
  if (mode == wire::Purpose::kTrain || job.eval.source.empty()) {
    DP_TRY(out.train_files, data::list_files(job.data, job.data.source, job.base_dir));
  }
  if (!job.eval.source.empty()) {
    auto listed =
        data::list_files(for_source(job.data, job.eval.source), job.eval.source, job.base_dir);
    if (mode == wire::Purpose::kTrain)
      listed = std::move(listed).context("the evaluation's source");
    DP_TRY(out.eval_files, std::move(listed));
  }
  if (!out.train_files.empty()) DP_TRY_VOID(data::note_parts(out.job.data, out.train_files));
  out.job_text = job_to_toml(out.job);
  DP_TRY_VOID(check_utf8(out.job_text));
  const bool no_files = out.train_files.empty() || job.data.source.is_program();
  const auto& files = no_files ? out.eval_files : out.train_files;
  DP_TRY(
      out.shard_bytes,
      choose_shard_bytes(job, no_files ? for_source(job.data, job.eval.source) : job.data, files));
  const uint64_t eval_bytes =
      plan::eval_shard_bytes(data::joining_of(job.data, {}), out.shard_bytes);
  DP_TRY_VOID(data::find_cuts(job.data, out.job.data.source, out.shard_bytes, out.train_files));
  DP_TRY_VOID(data::find_cuts(for_source(job.data, job.eval.source), job.eval.source, eval_bytes,
                              out.eval_files));
  DP_TRY_VOID(cut_programs(job, mode, out));
  if (mode == wire::Purpose::kTrain) DP_TRY_VOID(cut_compressed(job, out.train_files));
  out.streams = data::stream_spec(job.data);
  DP_TRY_VOID(check_streams(out.streams, out.train_files, job.train.replicas.has_value()));
  DP_TRY_VOID(plan::check_ranges(out.train_files, out.shard_bytes, out.streams));
  DP_TRY_VOID(plan::check_ranges(out.eval_files, eval_bytes, {}));
  const auto reading = [&](const SourceSpec& source, const std::vector<plan::FileInfo>& of) {
    return data::make_read_plan(out.job, graph->inputs(), graph->output_widths(), source, of,
                                job.eval.holdout);
  };
  if (data::chooses_by_number(job.data.source, out.streams) && !job.data.source.is_program()) {
    DP_TRY_VOID(data::count_pieces(*reading(job.data.source, out.train_files), out.shard_bytes,
                                   out.train_files));
  }
  if (data::chooses_by_number(job.eval.source, {}) && !job.eval.source.is_program()) {
    DP_TRY_VOID(
        data::count_pieces(*reading(job.eval.source, out.eval_files), eval_bytes, out.eval_files));
  }
  const auto ranges = plan::cut_streams(out.train_files, out.shard_bytes, out.streams);
  const auto eval_ranges = plan::cut_shards(out.eval_files, eval_bytes);
  DP_TRY_VOID(check_chosen(out.train_files, ranges, "data.source.skip"));
  DP_TRY_VOID(check_chosen(out.eval_files, eval_ranges, "eval.source.skip"));
  if (mode == wire::Purpose::kTrain)
    DP_TRY_VOID(check_steps_per_epoch(job, out.train_files, ranges));
  if (out.train_files.empty()) {
    out.shards = uint32_t(eval_ranges.size());
  } else {
    const plan::ShardMap shards = data::map_shards(out.job, out.train_files, ranges);
    DP_TRY_VOID(check_mix(shards));
    if (mode == wire::Purpose::kTrain) DP_TRY_VOID(check_shares(out, *graph, shards));
    out.shards = shards.open_piece() > 0 ? 0 : shards.count();
  }
  out.fingerprint = fingerprint_of(out.train_files);
  DP_TRY(out.plan_hash, hash_of(out));
  return out;
}

}  // namespace downpour::chief
