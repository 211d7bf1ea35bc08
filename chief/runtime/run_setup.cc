#include "chief/runtime/run_setup.h"

#include <algorithm>
#include <bit>
#include <filesystem>
#include <optional>
#include <sstream>
#include <utility>

#include "chief/runtime/history.h"
#include "chief/runtime/warm_start.h"
#include "shared/base/error_text.h"
#include "shared/base/sizes.h"
#include "shared/base/version.h"
#include "shared/checkpoint/paths.h"
#include "shared/checkpoint/run_file.h"
#include "shared/data/dataset.h"
#include "shared/env/process.h"
#include "shared/job/job_file.h"
#include "shared/job/resume.h"
#include "shared/model/graph.h"
#include "shared/plan/plan_hash.h"
#include "shared/plan/range_limits.h"
#include "shared/wire/codec.h"

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
// Bytes of a checkpoint that are verified before resuming. This takes a few seconds.
constexpr uint64_t kVerifyBytesMax = 4 * kGiB;

uint64_t fingerprint_of(const std::vector<plan::FileInfo>& files) {
  plan::PlanHash hash;
  for (const plan::FileInfo& file : files)
    hash.add("bytes", file.bytes).add("file", file.fingerprint);
  return hash.value();
}

// Removes the files of a run from its folder, and no others.
Result<void> remove_run(const std::string& run_dir) {
  namespace fs = std::filesystem;
  std::error_code error;
  std::vector<fs::path> doomed = {
      checkpoint::run_path(run_dir),        checkpoint::job_path(run_dir),
      checkpoint::checkpoints_dir(run_dir), checkpoint::moves_dir(run_dir),
      fs::path(run_dir) / "events.jsonl",   fs::path(run_dir) / "logs"};
  for (const auto& entry : fs::directory_iterator(run_dir, error)) {
    if (checkpoint::parse_term_name(entry.path().filename().string()))
      doomed.push_back(entry.path());
  }
  for (const fs::path& path : doomed) {
    fs::remove_all(path, error);
    if (error) {
      return Error{ErrorCode::kIo, str("can't remove the old run: ", error.message()),
                   path.string()};
    }
  }
  return {};
}

/// Rejects a run folder with links among its parts at the start, not at the first checkpoint.
Result<void> check_no_links(Storage& storage, const std::string& run_dir) {
  const std::string parts[] = {checkpoint::run_path(run_dir),
                               checkpoint::job_path(run_dir),
                               checkpoint::checkpoints_dir(run_dir),
                               checkpoint::moves_dir(run_dir),
                               run_dir + "/events.jsonl",
                               run_dir + "/logs",
                               run_dir + "/sources"};
  for (const std::string& part : parts) DP_TRY_VOID(storage.exists(part));
  return {};
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
                 "rename the folder or file, or give it a name in UTF-8 by a link", "DP-2106"};
  }
  return {};
}

}  // namespace

ResumeState resume_from(const std::string& run_dir, const checkpoint::Manifest& manifest) {
  ResumeState resume;
  resume.checkpoint = manifest.id;
  resume.folder = checkpoint::checkpoint_folder(run_dir, manifest.id);
  resume.images = checkpoint::chains_of(manifest);
  resume.ownership_generations = manifest.ownership_generations;
  resume.given = manifest.given;
  resume.best = manifest.best;
  resume.sealed_epochs = manifest.sealed_epochs;
  from_records(manifest.epochs, resume.epochs, resume.evaluations);
  return resume;
}

Result<uint64_t> choose_shard_bytes(const Job& job, const DataSpec& data,
                                    const std::vector<plan::FileInfo>& files) {
  uint64_t total = 0;
  for (const plan::FileInfo& file : files) total = saturating_add(total, file.bytes);
  if (files.empty() || data::is_program(files.front())) return kMiB;
  DP_TRY(const uint64_t record, data::mean_record_bytes(data, files.front().path));
  const uint32_t joined = plan::ranges_of(data::joining_of(job.data, {}));
  if (job.data.shard_records > 0)
    return std::max<uint64_t>(saturating_multiply(job.data.shard_records, record) / joined, 1);
  const auto batches = [&](uint64_t count) {
    return saturating_multiply(saturating_multiply(record, job.train.batch_size), count);
  };
  const uint64_t wanted = job.data.program.empty() ? kShardsWanted : kProgramShardsWanted;
  const uint64_t shard =
      std::clamp(total / wanted, batches(kBatchesPerShardMin), batches(kBatchesPerShardMax));
  // The last range of each file may be short.
  const uint64_t whole = files.size() < plan::kRangesMax ? plan::kRangesMax - files.size() : 1;
  return std::max<uint64_t>({shard / joined, std::min(divide_up(total, whole), kLargeRangeMax), 1});
}

namespace {

Result<void> check_streams(const plan::StreamSpec& streams,
                           const std::vector<plan::FileInfo>& files) {
  if (streams.policy != plan::StreamPolicy::kFiles || streams.count <= files.size() ||
      files.empty())
    return {};
  return Error{ErrorCode::kConfig,
               str("sharding = \"file\" in ", streams.count,
                   " streams wants as many files, and there are ", files.size()),
               "data.sharding",
               str("data.streams = ", files.size(), ", or \"auto\" or \"data\", which cut files"),
               ""};
}

/// Checks that an epoch with a fixed number of batches is a single shard.
Result<void> check_steps_per_epoch(const Job& job, const std::vector<plan::FileInfo>& files,
                                   const std::vector<plan::ShardRange>& ranges) {
  if (job.train.steps_per_epoch == 0 || files.empty()) return {};
  if (ranges.size() == 1 && !files[ranges.front().file].is_cut()) return {};
  return Error{ErrorCode::kConfig,
               str("`steps_per_epoch` over a source that is cut would need a count first (",
                   ranges.size(), ranges.size() == 1 ? " range)" : " ranges)"),
               "train.steps_per_epoch",
               "leave it out: an epoch is all of the source, train.steps ends the job earlier, a "
               "source's take makes it smaller",
               ""};
}

/// Checks that an epoch reads something of each source of a mix.
Result<void> check_mix(const plan::ShardMap& shards) {
  const std::optional<size_t> unread = shards.unread_bytes_of_partial_epoch();
  if (!unread) return {};
  return Error{ErrorCode::kConfig,
               str("entry ", *unread + 1,
                   " of the source can't be mixed in: a piece of its files (compressed ones are "
                   "not cut) has more records than its weight "
                   "wants of it in a whole epoch"),
               "data.source",
               "repeat the entry that ends first, give this one more weight, or write it as more "
               "and smaller files",
               ""};
}

/// Returns the number of records in a piece of a program. If the program is read whole, this is its
/// number of records, or 0 if that is not known.
Result<uint64_t> piece_of(const Job& job, const SourceSpec& source, bool training) {
  const uint64_t batch = job.train.batch_size, records = source.records,
                 few = kBatchesPerShardMin * batch, many = kBatchesPerShardMax * batch;
  const uint64_t fewest = records / kPiecesMax + 1;
  const bool stream = data::is_stream(source);
  // One worker reads the whole stream in an evaluation, so pieces would not help.
  if (stream && !(training && gives_pieces(job))) return records;
  if (job.data.shard_records > 0) {
    const uint64_t piece =
        std::max<uint64_t>(job.data.shard_records / job.data.interleave.cycle, 1);
    if (piece >= fewest) return std::min(piece, data::kOpenPieceMax);
    return Error{ErrorCode::kConfig,
                 str("shards of ", piece, " records make more than ", kPiecesMax,
                     " of the program's ", records),
                 "data.shard_records", str("choose at least ", fewest * job.data.interleave.cycle),
                 ""};
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
  return Error{
      ErrorCode::kConfig,
      str("`steps` stop between shards, and an epoch of ", records, " records is read as one"),
      "train.steps", "say how many batches an epoch has: steps_per_epoch = 1000", ""};
}

/// Returns true if the data are one compressed file that is read as a stream of pieces. Several
/// files are not cut, because they are decompressed in parallel. Data with a cache are not cut
/// either, because the process with the cache decompresses them.
bool gives_pieces_of(const Job& job, const std::vector<plan::FileInfo>& files) {
  const DataSpec& data = job.data;
  return files.size() == 1 && !files.front().is_cut() && !data::is_program(files.front()) &&
         data.source.takes_all() && data.source.parts.empty() && data.sharding == Sharding::kAuto &&
         data.interleave.cycle == 1 && data.cache == Cache::kOff &&
         data.format != DataFormat::kMnist && data.format != DataFormat::kNpy &&
         data.format != DataFormat::kNpz && job.train.steps_per_epoch == 0;
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
  return Error{ErrorCode::kNoInput, "`skip` leaves none of the records", where,
               "count them: downpour data count", ""};
}

Result<void> cut_compressed(const Job& job, std::vector<plan::FileInfo>& files) {
  if (!gives_pieces_of(job, files)) return {};
  plan::FileInfo& file = files.front();
  DP_TRY(const std::optional<double> ratio, data::compression_ratio(file.path));
  if (!ratio) return {};
  const auto compressed = [&](uint64_t text) { return uint64_t(double(text) / *ratio); };
  if (job.data.shard_records == 0 && file.bytes <= compressed(kWholeFileMax)) return {};
  DP_TRY(const uint64_t record, data::mean_record_bytes(job.data, file.path));
  const uint64_t wanted =
      job.data.shard_records > 0
          ? job.data.shard_records * record
          : std::max(kBatchesPerShardMin * job.train.batch_size * record, compressed(kFilePiece));
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

Result<RunPlan> plan_run(const Job& job, wire::Purpose mode) {
  RunPlan out;
  out.job = job;
  DP_TRY_VOID(data::note_vocabularies(out.job.data));
  DP_TRY(const auto graph, model::Graph::build(job));
  out.tables = graph->tables();
  DP_TRY_VOID(data::check_filter(job.data));
  // eval and predict read one source, which takes the place of the evaluation data.
  if (mode == wire::Purpose::kTrain || job.eval.source.empty()) {
    DP_TRY(out.train_files, data::list_files(job.data, job.data.source, job.base_dir));
  }
  if (!job.eval.source.empty()) {
    DP_TRY(out.eval_files,
           data::list_files(for_source(job.data, job.eval.source), job.eval.source, job.base_dir)
               .context("the evaluation's source"));
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
  DP_TRY_VOID(check_streams(out.streams, out.train_files));
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
    out.shards = shards.open_piece() > 0 ? 0 : shards.count();
  }
  out.fingerprint = fingerprint_of(out.train_files);
  DP_TRY(out.plan_hash, hash_of(out));
  return out;
}

Result<Job> saved_job(Storage& storage, const std::string& run_dir) {
  storage.guard(run_dir);
  auto manifest = checkpoint::load_latest(storage, run_dir, nullptr);
  if (manifest) return job_from_toml(manifest->job, run_dir);
  DP_TRY(const checkpoint::RunFile run, checkpoint::read_run(storage, run_dir));
  return job_from_toml(run.job, run_dir);
}

namespace {

/// Fills the part of `run` that describes the data: the plan and its first files.
checkpoint::RunFile describe(checkpoint::RunFile run, const RunPlan& plan) {
  run.plan_hash = plan.plan_hash;
  run.fingerprint = plan.fingerprint;
  run.files.clear();
  for (const plan::FileInfo& file : plan.train_files) {
    if (run.files.size() == checkpoint::kRunDataFilesMax) break;
    run.files.push_back({file.path, file.bytes, file.fingerprint});
  }
  return run;
}

/// Names the first data file that has changed. `run` may list only the first files, or none.
std::string changed_file(const checkpoint::RunFile& run, const RunPlan& plan) {
  if (run.files.empty()) return {};
  for (size_t i = 0; i < run.files.size(); ++i) {
    const checkpoint::RunDataFile& was = run.files[i];
    if (i == plan.train_files.size()) return str(was.path, " is missing");
    const plan::FileInfo& is = plan.train_files[i];
    if (is.path != was.path) return str(is.path, " is listed where ", was.path, " was");
    if (is.bytes != was.bytes)
      return str(was.path, " has ", is.bytes, " bytes, and had ", was.bytes);
    if (is.fingerprint != was.fingerprint) return str("the content of ", was.path, " has changed");
  }
  const bool all_known = run.files.size() < checkpoint::kRunDataFilesMax;
  if (all_known && plan.train_files.size() > run.files.size())
    return str(plan.train_files[run.files.size()].path, " is new");
  return all_known ? "the files are the same, but this build or job reads them differently" : "";
}

/// `epoch` is the first one that is not sealed.
Error changed_data(const checkpoint::RunFile& run, uint64_t plan_hash, const RunPlan& plan,
                   uint32_t epoch) {
  const std::string file = run.plan_hash == plan_hash ? changed_file(run, plan) : "";
  return Error{ErrorCode::kConfig,
               str("the training data have changed since epoch ", epoch, " of this run began",
                   file.empty() ? "" : ": ", file),
               plan.job.run_dir,
               "restore the data files and run the job again, choose another run_dir, or start "
               "anew with --fresh",
               "DP-2112"};
}

/// Returns true if every epoch of the manifest's job is sealed. Then the images hold no batch of
/// another epoch, and the next epochs may have another plan.
Result<bool> is_boundary(const checkpoint::Manifest& manifest, const std::string& run_dir) {
  DP_TRY(const Job was, job_from_toml(manifest.job, run_dir));
  return manifest.sealed_epochs >= was.train.epochs;
}

/// A run as found on disk, and the checkpoint from which it continues.
struct FoundRun {
  checkpoint::RunFile run;
  std::optional<checkpoint::Manifest> manifest;
};

/// Checks that data and job are those under which the open epoch began. An epoch is open from the
/// first chief on, even before the first manifest, until every epoch of its job is sealed.
Result<void> check_continues(const FoundRun& found, const RunPlan& plan) {
  const std::string& run_dir = plan.job.run_dir;
  const checkpoint::Manifest* manifest = found.manifest ? &*found.manifest : nullptr;
  DP_TRY(const Job was,
         job_from_toml(manifest != nullptr ? manifest->job : found.run.job, run_dir));
  const uint32_t epochs_sealed = manifest != nullptr ? manifest->sealed_epochs : 0;
  const bool sealed = manifest != nullptr && epochs_sealed >= was.train.epochs;
  const bool epoch_open = !(sealed && plan.job.train.epochs > epochs_sealed);
  const auto differences = frozen_differences(was, plan.job, epoch_open);
  if (!differences.empty()) return frozen_error(differences, run_dir);
  const uint64_t plan_hash = manifest != nullptr ? manifest->plan_hash : found.run.plan_hash;
  if (sealed || plan_hash == plan.plan_hash) return {};
  return changed_data(found.run, plan_hash, plan, epochs_sealed);
}

Result<FoundRun> find_run(Storage& storage, const RunPlan& plan, bool train,
                          std::vector<std::string>& damaged) {
  const std::string& run_dir = plan.job.run_dir;
  FoundRun found;
  damaged.clear();
  // A network file system may list an old state of folders, without the newest checkpoints.
  storage.refresh(run_dir);
  storage.refresh(checkpoint::checkpoints_dir(run_dir));
  DP_TRY(found.run, checkpoint::read_run(storage, run_dir));
  auto manifest = checkpoint::load_latest(storage, run_dir, &damaged, kVerifyBytesMax);
  if (!damaged.empty() && !plan.job.train.checkpoint.fall_back) {
    return Error{ErrorCode::kBadData, str("the newest checkpoint is damaged: ", damaged.front()),
                 run_dir,
                 "train.checkpoint.fall_back = true goes on from an older one that is whole", ""};
  }
  if (manifest && manifest->run != found.run.id) {
    return Error{ErrorCode::kBadData, "the newest checkpoint in this folder belongs to another run",
                 run_dir, "put the folder back as it was, or begin anew with --fresh", ""};
  }
  if (!manifest && manifest.error().code != ErrorCode::kNoInput) return std::move(manifest).error();
  if (manifest) found.manifest = std::move(*manifest);
  if (train) DP_TRY_VOID(check_continues(found, plan));
  if (!train && !found.manifest) {
    return Error{ErrorCode::kNoInput, "the run has no checkpoint yet", run_dir,
                 "train it first: downpour train", ""};
  }
  return found;
}

/// Takes a term of an existing run. Between find_run() and this call, a chief that hangs may have
/// published a checkpoint and removed older ones. After this call it removes nothing more.
Result<void> take_over(Storage& storage, const RunPlan& plan, ViewId newest, FoundRun& found,
                       std::vector<std::string>& damaged, ChiefConfig& config) {
  const std::string& run_dir = plan.job.run_dir;
  DP_TRY(config.term, checkpoint::take_term(storage, run_dir));
  storage.refresh(checkpoint::checkpoints_dir(run_dir));
  DP_TRY(const ViewId newest_now, checkpoint::newest_manifest(storage, run_dir));
  if (newest_now != newest) {
    DP_TRY(found, find_run(storage, plan, true, damaged));
  }
  return {};
}

Result<FoundRun> begin_run(Storage& storage, const RunPlan& plan, const SetupOptions& options,
                           std::vector<std::string>& notes) {
  const std::string& run_dir = plan.job.run_dir;
  FoundRun begun;
  begun.run = describe({.id = options.run_id != 0 ? options.run_id : random_id(),
                        .job = plan.job_text,
                        .build = kBuildVersion,
                        .created_unix_s = options.unix_time_s()},
                       plan);
  // This precedes the file `run`: if it fails, no run has begun.
  if (const WarmStartSpec& warm = plan.job.train.warm_start; !warm.run.empty()) {
    DP_TRY(begun.manifest, make_warm_start(storage, warm,
                                           {.run_dir = run_dir,
                                            .run = begun.run.id,
                                            .plan_hash = begun.run.plan_hash,
                                            .job = begun.run.job,
                                            .build = begun.run.build,
                                            .created_unix_s = begun.run.created_unix_s},
                                           plan.tables, plan.job.partitions, &notes)
                               .context("warm start from ", warm.run));
  }
  DP_TRY_VOID(checkpoint::write_run(storage, run_dir, begun.run));
  return begun;
}

/// Replaces the newest checkpoint by the best one of the run, if it names one that is whole.
void use_best(Storage& storage, const std::string& run_dir, checkpoint::Manifest& manifest,
              std::vector<std::string>& notes) {
  auto best = checkpoint::load_best(storage, run_dir, manifest, kVerifyBytesMax);
  if (best) {
    manifest = *std::move(best);
  } else {
    notes.push_back(str("the best checkpoint, ", manifest.best,
                        ", can't be read: ", best.error().what, " (", best.error().where,
                        "); the newest one, ", manifest.id, ", is used instead"));
  }
}

/// Writes files for people, and removes files that only take space. Training does not need either,
/// so a full disk does not stop it.
void tidy_up(Storage& storage, const RunPlan& plan, const checkpoint::RunFile& run,
             std::vector<std::string>& notes) {
  const std::string& run_dir = plan.job.run_dir;
  const auto note = [&](const char* what, const Result<void>& done) {
    if (!done) notes.push_back(str(what, ": ", done.error().what, " (", done.error().where, ")"));
  };
  note("images of former moves could not be removed", checkpoint::remove_moves(storage, run_dir));
  note("the job could not be written for people to read",
       storage.write_file_atomic(checkpoint::job_path(run_dir), as_bytes(plan.job_text)));
  if (run.plan_hash == plan.plan_hash) return;
  note("the run's new data files could not be recorded",
       checkpoint::replace_run(storage, run_dir, describe(run, plan)));
}

/// Checks that Welcome fits one message, so that the job does not fail at the first Hello.
Result<void> check_welcome(const ChiefConfig& config) {
  wire::Message welcome;
  welcome.body = wire::Welcome{.job = config.job_text,
                               .base_dir = config.job.base_dir,
                               .run_dir = config.job.run_dir,
                               .plan_hash = config.plan_hash,
                               .shard_bytes = config.shard_bytes,
                               .train_files = config.train_files,
                               .eval_files = config.eval_files,
                               .heartbeat_ns = config.heartbeat_ns,
                               .lease_ns = config.lease_ns};
  if (auto encoded = wire::Codec().encode(welcome); !encoded) {
    return Error{ErrorCode::kConfig,
                 str("the job and its list of files do not fit a message: ", encoded.error().what),
                 "data.source", "name fewer, larger files", ""};
  }
  return {};
}

/// Returns the configuration that follows from the plan and the options, without the run.
ChiefConfig config_of(const RunPlan& plan, const SetupOptions& options) {
  const std::string& run_dir = plan.job.run_dir;
  ChiefConfig config;
  config.mode = options.mode;
  config.job = plan.job;
  config.job_text = plan.job_text;
  config.build = kBuildVersion;
  config.plan_hash = plan.plan_hash;
  config.partition_bits = uint32_t(std::countr_zero(plan.job.partitions));
  config.train_files = plan.train_files;
  config.eval_files = plan.eval_files;
  config.shard_bytes = plan.shard_bytes;
  config.streams = plan.streams;
  config.joining = data::joining_of(plan.job.data, plan.train_files);
  config.ps_cores_expected = options.ps_cores;
  config.workers_expected = options.workers;
  config.heartbeat_ns = 250 * kMillisecond;  // determines how often the live line changes
  const ClusterSpec& cluster = plan.job.cluster;
  config.start_timeout_ns = cluster.start_wait_ns;
  config.workers_wait_ns = cluster.workers_wait_ns;
  config.ps_wait_ns = cluster.ps_wait_ns;
  config.ps_none_ns = std::max(config.ps_none_ns, cluster.ps_wait_ns);
  config.claims_wait_ns = cluster.claims_wait_ns;
  config.adopt_timeout_ns = cluster.adopt_timeout_ns;
  config.checkpoint_root = checkpoint::checkpoints_dir(run_dir);
  config.moves_folder = checkpoint::moves_dir(run_dir);
  return config;
}

}  // namespace

bool fits_plan(const checkpoint::Manifest& manifest, uint64_t plan_hash,
               const std::string& run_dir) {
  if (manifest.plan_hash == plan_hash) return true;
  const auto boundary = is_boundary(manifest, run_dir);
  return boundary && *boundary;
}

Result<ChiefConfig> open_run(Storage& storage, const RunPlan& plan, const SetupOptions& options,
                             std::vector<std::string>* notes) {
  const std::string& run_dir = plan.job.run_dir;
  const bool train = options.mode == wire::Purpose::kTrain;
  ChiefConfig config = config_of(plan, options);
  DP_TRY_VOID(check_welcome(config));
  storage.guard(run_dir);
  if (train && options.fresh) DP_TRY_VOID(remove_run(run_dir));
  if (train) DP_TRY_VOID(check_no_links(storage, run_dir));
  DP_TRY(const bool begun, storage.exists(checkpoint::run_path(run_dir)));
  if (!begun && !train)
    return Error{ErrorCode::kNoInput, "there is no run here", run_dir,
                 "train the job first: downpour train", ""};
  FoundRun found;
  std::vector<std::string> said, damaged;
  if (begun) {
    DP_TRY(const ViewId newest, checkpoint::newest_manifest(storage, run_dir));
    DP_TRY(found, find_run(storage, plan, train, damaged));
    if (train) DP_TRY_VOID(take_over(storage, plan, newest, found, damaged, config));
  } else {
    DP_TRY(found, begin_run(storage, plan, options, said));
    DP_TRY(config.term, checkpoint::take_term(storage, run_dir));
  }
  config.run = found.run.id;
  if (found.manifest && !train) use_best(storage, run_dir, *found.manifest, said);
  config.new_plan = found.run.plan_hash != plan.plan_hash ||
                    (found.manifest && found.manifest->plan_hash != plan.plan_hash);
  if (found.manifest) config.resume = resume_from(run_dir, *found.manifest);
  if (!train && config.resume) {  // the results of training are not those of this pass
    config.resume->epochs.clear();
    config.resume->evaluations.clear();
  }
  if (train) tidy_up(storage, plan, found.run, said);
  if (notes != nullptr) {
    notes->insert(notes->end(), damaged.begin(), damaged.end());
    notes->insert(notes->end(), said.begin(), said.end());
  }
  return config;
}

}  // namespace downpour::chief
