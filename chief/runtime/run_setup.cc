#include "chief/runtime/run_setup.h"

#include <algorithm>
#include <bit>
#include <filesystem>
#include <optional>
#include <sstream>
#include <utility>

#include "chief/core/cluster/admission.h"
#include "chief/core/run/selection.h"
#include "chief/runtime/history.h"
#include "chief/runtime/history_file.h"
#include "chief/runtime/same_meaning.h"
#include "chief/runtime/warm_start.h"
#include "chief/runtime/weights_file.h"
#include "shared/base/error_text.h"
#include "shared/base/sizes.h"
#include "shared/base/version.h"
#include "shared/checkpoint/paths.h"
#include "shared/checkpoint/run_file.h"
#include "shared/data/reading/dataset.h"
#include "shared/env/process.h"
#include "shared/job/job_file.h"
#include "shared/job/resume.h"
#include "shared/model/graph.h"
#include "shared/plan/plan_hash.h"
#include "shared/plan/range_limits.h"
#include "shared/wire/codec.h"

namespace downpour::chief {
namespace {

// Removes the files of a run from its folder, and no others.
Result<void> remove_run(const std::string& run_dir) {
  namespace fs = std::filesystem;
  std::error_code error;
  std::vector<fs::path> doomed = {
      checkpoint::run_path(run_dir), checkpoint::job_path(run_dir),
      checkpoint::checkpoints_dir(run_dir), checkpoint::moves_dir(run_dir),
      fs::path(run_dir) / "events.jsonl", history_path(run_dir), fs::path(run_dir) / "logs",
      // Labels and names of a model that Model.save has written.
      fs::path(run_dir) / "python.json"};
  for (const auto& entry : fs::directory_iterator(run_dir, error)) {
    if (checkpoint::parse_term_name(entry.path().filename().string()))
      doomed.push_back(entry.path());
  }
  for (const fs::path& path : doomed) {
    fs::remove_all(path, error);
    if (error) {
      return Error{ErrorCode::kIo, str("can't remove the previous run: ", error.message()),
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

}  // namespace

bool has_ended(const Job& job, const checkpoint::Manifest& manifest) {
  if (manifest.sealed_epochs >= job.train.epochs) return true;
  std::vector<EpochAccount> epochs;
  std::vector<Evaluation> evaluations;
  from_records(manifest.epochs, job.model.outputs, epochs, evaluations);
  const bool whole = manifest.sealed_epochs == epochs.size() && !epochs.empty();
  if (whole && job.train.steps > 0) {
    uint64_t batches = 0;
    for (const EpochAccount& epoch : epochs) batches += epoch.counts.batches;
    const uint64_t steps = job.train.replicas ? epochs.back().version : batches;
    if (steps >= job.train.steps && !epochs.back().is_partial()) return true;
  }
  return !evaluations.empty() && evaluations.back().epochs_trained == manifest.sealed_epochs &&
         stops_early(job, evaluations);
}

namespace {

/// Returns the models of the run up to `newest` that were the best one when they were saved, and
/// `newest` itself if it was saved at the end of a job, in the order of their epochs.
std::vector<KeptModel> kept_models(Storage& storage, const std::string& run_dir,
                                   const checkpoint::Manifest& newest, bool at_end) {
  std::vector<KeptModel> kept;
  checkpoint::Manifest manifest = newest;
  for (;;) {
    const bool ends = at_end && manifest.id == newest.id;
    if (manifest.run == newest.run && (manifest.best == manifest.id || ends))
      kept.push_back({manifest.id, uint32_t(manifest.epochs.size())});
    auto older = checkpoint::load_latest(storage, run_dir, nullptr, 0, manifest.id);
    if (!older) break;
    manifest = std::move(*older);
  }
  std::ranges::stable_sort(kept, {}, &KeptModel::epochs);
  return kept;
}

}  // namespace

ResumeState resume_from(Storage& storage, const std::string& run_dir,
                        const checkpoint::Manifest& manifest, const Job& job) {
  ResumeState resume;
  resume.checkpoint = manifest.id;
  resume.folder = checkpoint::checkpoint_folder(run_dir, manifest.id);
  resume.images = checkpoint::chains_of(manifest);
  resume.ownership_generations = manifest.ownership_generations;
  resume.given = manifest.given;
  resume.sealed_epochs = manifest.sealed_epochs;
  from_records(manifest.epochs, job.model.outputs, resume.epochs, resume.evaluations);
  const auto was = job_from_toml(manifest.job, run_dir);
  resume.kept = kept_models(storage, run_dir, manifest, was && has_ended(*was, manifest));
  const auto best = std::ranges::find(resume.kept, manifest.best, &KeptModel::checkpoint);
  if (best != resume.kept.end()) resume.best = *best;
  const bool same_slices = was && was->eval.slices == job.eval.slices;
  for (Evaluation& evaluation : resume.evaluations) {
    if (same_slices) break;
    evaluation.slices.clear();
    evaluation.slice_rankings.clear();
  }
  return resume;
}

Result<Job> saved_job(Storage& storage, const std::string& run_dir) {
  if (names_weights(run_dir)) {
    DP_TRY(const WeightsFile file, WeightsFile::open(run_dir));
    if (file.job().empty())
      return Error{ErrorCode::kNoInput, "the file has no job", run_dir, "export the model again"};
    return job_from_toml(file.job(), std::filesystem::path(run_dir).parent_path());
  }
  storage.guard(run_dir);
  auto manifest = checkpoint::load_latest(storage, run_dir, nullptr);
  if (manifest) return job_from_toml(manifest->job, run_dir);
  DP_TRY(const checkpoint::RunFile run, checkpoint::read_run(storage, run_dir));
  return job_from_toml(run.job, run_dir);
}

Result<Job> model_job(Storage& storage, const std::string& run_dir) {
  if (!names_weights(run_dir)) {
    storage.guard(run_dir);
    if (const auto newest = checkpoint::load_latest(storage, run_dir, nullptr)) {
      return job_from_toml(checkpoint::load_used(storage, run_dir, *newest, nullptr).job, run_dir);
    }
  }
  return saved_job(storage, run_dir);
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
    if (is.path != was.path) return str(is.path, " is listed in place of ", was.path);
    if (is.bytes != was.bytes)
      return str(was.path, " has ", is.bytes, " bytes, but had ", was.bytes);
    if (is.fingerprint != was.fingerprint) return str("the content of ", was.path, " has changed");
  }
  const bool all_known = run.files.size() < checkpoint::kRunDataFilesMax;
  if (all_known && plan.train_files.size() > run.files.size())
    return str(plan.train_files[run.files.size()].path, " is new");
  return all_known ? "the files are the same, but this build or this job divides them into "
                     "different batches"
                   : "";
}

/// Returns the error for data that changed inside the first epoch that is not sealed.
Error changed_data(const checkpoint::RunFile& run, uint64_t plan_hash, const RunPlan& plan,
                   uint32_t sealed_epochs) {
  const std::string file = run.plan_hash == plan_hash ? changed_file(run, plan) : "";
  return Error{ErrorCode::kConfig,
               str("the training data have changed after the start of epoch ", sealed_epochs + 1,
                   " of this run", file.empty() ? "" : ": ", file),
               plan.job.run_dir,
               "restore the data files and run the job again, choose another run_dir, or start a "
               "new run with --fresh",
               "DP-2112"};
}

/// Returns the error for data of which no epoch is to be trained.
Error finished_without(const checkpoint::RunFile& run, const RunPlan& plan,
                       uint32_t sealed_epochs) {
  const std::string file = changed_file(run, plan);
  return Error{
      ErrorCode::kConfig,
      str("the run is finished, and was trained on other data", file.empty() ? "" : ": ", file),
      plan.job.run_dir,
      str("to train on these data, too, want more than its ", sealed_epochs,
          sealed_epochs == 1 ? " epoch" : " epochs",
          " (--epochs N); for a new model, add --fresh or choose another run_dir"),
      "DP-2112"};
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
  const bool sealed = manifest != nullptr && has_ended(was, *manifest);
  const bool epoch_open = !(sealed && plan.job.train.epochs > epochs_sealed);
  // The file `run` may already describe the data of a further epoch that did not end.
  const bool trained_others =
      sealed && found.run.fingerprint != plan.fingerprint && manifest->plan_hash != plan.plan_hash;
  if (epoch_open && trained_others) return finished_without(found.run, plan, epochs_sealed);
  DP_TRY_VOID(check_vocabularies(was, plan.job)
                  .context("the run in ", run_dir, " can't continue with this job"));
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
  auto manifest = checkpoint::load_latest(storage, run_dir, &damaged, checkpoint::kVerifyBytesMax);
  if (!damaged.empty() && !plan.job.train.checkpoint.fall_back) {
    return Error{ErrorCode::kBadData, str("the newest checkpoint is damaged: ", damaged.front()),
                 run_dir,
                 "restore the folder, or set train.checkpoint.fall_back = true to resume from an "
                 "older, complete checkpoint",
                 ""};
  }
  if (manifest && manifest->run != found.run.id) {
    return Error{ErrorCode::kBadData, "the newest checkpoint in this folder belongs to another run",
                 run_dir, "restore the folder, or start a new run with --fresh", ""};
  }
  if (!manifest && manifest.error().code != ErrorCode::kNoInput) return std::move(manifest).error();
  if (manifest) found.manifest = std::move(*manifest);
  if (train) DP_TRY_VOID(check_continues(found, plan));
  if (found.manifest)
    DP_TRY_VOID(check_tables(found.manifest->tables, plan.tables).context("the run in ", run_dir));
  if (!train && !found.manifest) {
    return Error{ErrorCode::kNoInput, "the run has no checkpoint yet", run_dir,
                 "train the job first: downpour train", ""};
  }
  return found;
}

/// Returns a note if a step of a synchronous job has another number of records than before, because
/// the replicas follow the number of workers.
std::string step_note(const checkpoint::Manifest& manifest, const Job& job) {
  const auto was = job_from_toml(manifest.job, job.run_dir);
  if (!was || !was->train.replicas || !job.train.replicas || manifest.epochs.empty()) return {};
  const uint64_t before = *was->train.replicas, now = *job.train.replicas;
  if (before == now || was->train.sync_every || job.train.sync_every) return {};
  const uint64_t records_before = before * was->train.batch_size,
                 records_now = now * job.train.batch_size;
  if (records_before == records_now) return {};
  return str("the steps of the next epochs have ", records_now, " records instead of ",
             records_before, ", because the number of replicas was ", before, " and is ", now,
             " now; train.replicas = ", before, " or train.global_batch_size = ", records_before,
             " keeps them");
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
  if (const WarmStartSpec& warm = plan.job.train.warm_start; !warm.source().empty()) {
    DP_TRY(begun.manifest, make_warm_start(storage, warm,
                                           {.run_dir = run_dir,
                                            .run = begun.run.id,
                                            .plan_hash = begun.run.plan_hash,
                                            .job = begun.run.job,
                                            .build = begun.run.build,
                                            .created_unix_s = begun.run.created_unix_s},
                                           plan.tables, plan.job.partitions, &notes)
                               .context("warm start from ", warm.source()));
  }
  DP_TRY_VOID(checkpoint::write_run(storage, run_dir, begun.run));
  return begun;
}

/// Writes files for people, and removes files that only take space. Training does not need either,
/// so a full disk does not stop it.
void tidy_up(Storage& storage, const RunPlan& plan, const checkpoint::RunFile& run,
             std::vector<std::string>& notes) {
  const std::string& run_dir = plan.job.run_dir;
  const auto note = [&](const char* what, const Result<void>& done) {
    if (!done) notes.push_back(str(what, ": ", done.error().what, " (", done.error().where, ")"));
  };
  note("images of earlier moves could not be removed", checkpoint::remove_moves(storage, run_dir));
  note("the readable copy of the job could not be written",
       storage.write_file_atomic(checkpoint::job_path(run_dir), as_bytes(plan.job_text)));
  if (run.plan_hash == plan.plan_hash) return;
  note("the run's list of data files could not be updated",
       checkpoint::replace_run(storage, run_dir, describe(run, plan)));
}

/// Checks that Welcome fits one message, so that the job does not fail at the first Hello.
Result<void> check_welcome(const ChiefConfig& config) {
  const wire::Message welcome{.body = common_welcome(config)};
  if (auto encoded = wire::Codec().encode(welcome); !encoded) {
    return Error{
        ErrorCode::kConfig,
        str("the job and its list of files do not fit into a message: ", encoded.error().what),
        "data.source", "use fewer and larger files", ""};
  }
  return {};
}

/// Returns a hash of what evaluations read. Held-out records are a part of the training data, which
/// the names of the files choose.
uint64_t eval_hash(const RunPlan& plan) {
  plan::PlanHash hash;
  hash.add("holdout", std::bit_cast<uint64_t>(double(plan.job.eval.holdout)));
  const bool held_out = plan.job.eval.source.empty();
  for (const plan::FileInfo& file : held_out ? plan.train_files : plan.eval_files) {
    if (held_out) hash.add("name", file.name());
    hash.add("bytes", file.bytes).add("file", file.fingerprint);
  }
  const SourceSpec& source = held_out ? plan.job.data.source : plan.job.eval.source;
  if (!source.takes_all()) {
    hash.add("skip", source.skip).add("take", source.take);
    hash.add("shards", source.shard_count).add("shard", source.shard_index);
  }
  if (!plan.job.data.filter.empty()) hash.add("filter", plan.job.data.filter);
  return hash.value();
}

/// Returns true if earlier epochs of the run have trained on records that are held out now.
bool trained_on_holdout(const checkpoint::Manifest& manifest, const ResumeState& resume,
                        const Job& job) {
  if (job.eval.holdout == 0 || !job.eval.source.empty() || manifest.epochs.empty()) return false;
  const auto was = job_from_toml(manifest.job, job.run_dir);
  if (!was || was->data.source != job.data.source) return false;
  return job.eval.holdout > was->eval.holdout ||
         (!resume.evaluations.empty() && resume.evaluations.back().trained_on);
}

/// Returns true if the run of a warm start has trained on records that `plan` evaluates.
bool other_run_trained_on_them(Storage& storage, const RunPlan& plan) {
  const std::string& other = plan.job.train.warm_start.run;
  if (other.empty()) return false;
  const auto newest = checkpoint::load_latest(storage, other, nullptr);
  const auto run = checkpoint::read_run(storage, other);
  if (!newest || !run) return false;
  const auto was = job_from_toml(newest->job, other);
  if (!was) return false;
  // The records that a smaller share holds out are a part of those of a larger one.
  const bool held_out = plan.job.eval.source.empty();
  const double before = was->eval.source.empty() ? double(was->eval.holdout) : 0;
  if (held_out && double(plan.job.eval.holdout) <= before) return false;
  return std::ranges::any_of(
      held_out ? plan.train_files : plan.eval_files, [&](const plan::FileInfo& file) {
        return std::ranges::any_of(run->files, [&](const checkpoint::RunDataFile& known) {
          return known.bytes == file.bytes && known.fingerprint == file.fingerprint;
        });
      });
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
  config.eval_data = eval_hash(plan);
  config.shard_bytes = plan.shard_bytes;
  config.streams = plan.streams;
  config.joining = data::joining_of(plan.job.data, plan.train_files, plan.job.train.shares());
  config.share_batches = divide_up(plan.share_records, plan.job.train.batch_size);
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

bool fits_plan(const checkpoint::Manifest& manifest, uint64_t plan_hash, const Job* job,
               const std::string& run_dir) {
  const auto was = job_from_toml(manifest.job, run_dir);
  // Then the images hold no batch of another epoch, and the next epochs may have another plan.
  if (was && has_ended(*was, manifest)) return true;
  if (manifest.plan_hash != plan_hash) return false;
  return job == nullptr || (was && frozen_differences(*was, *job, /*epoch_open=*/true).empty());
}

/// Forgets a best checkpoint that is damaged. The run then keeps the best of its other models.
void forget_damaged_best(Storage& storage, const std::string& run_dir,
                         const checkpoint::Manifest& manifest, ResumeState& resume,
                         std::vector<std::string>& said) {
  if (manifest.best == ViewId{} || manifest.best == manifest.id) return;
  const auto best = checkpoint::load_best(storage, run_dir, manifest, checkpoint::kVerifyBytesMax);
  if (best) return;
  said.push_back(str("the best checkpoint, ", manifest.best, ", can't be read: ", best.error().what,
                     "; the best of the other checkpoints takes its place"));
  std::erase_if(resume.kept, [&](const KeptModel& m) { return m.checkpoint == manifest.best; });
  resume.best = {};
}

Result<ChiefConfig> open_run(Storage& storage, const RunPlan& plan, const SetupOptions& options,
                             std::vector<std::string>* notes) {
  const std::string& run_dir = plan.job.run_dir;
  const bool train = options.mode == wire::Purpose::kTrain;
  ChiefConfig config = config_of(plan, options);
  DP_TRY_VOID(check_welcome(config));
  storage.guard(run_dir);
  if (train && options.fresh) {
    DP_TRY_VOID(check_warm_start(storage, plan.job, run_dir, plan.tables)
                    .context("warm start from ", plan.job.train.warm_start.source()));
    DP_TRY_VOID(remove_run(run_dir));
  }
  if (train) DP_TRY_VOID(check_no_links(storage, run_dir));
  DP_TRY(const bool begun, storage.exists(checkpoint::run_path(run_dir)));
  if (!begun && !train)
    return Error{ErrorCode::kNoInput, "this folder contains no run", run_dir,
                 "train the job first: downpour train", ""};
  FoundRun found;
  std::vector<std::string> said, damaged;
  if (begun) {
    DP_TRY(const ViewId newest, checkpoint::newest_manifest(storage, run_dir));
    DP_TRY(found, train ? find_run(storage, plan, train, damaged)
                        : checkpoint::read_beside_training(storage, run_dir, [&] {
                            return find_run(storage, plan, train, damaged);
                          }));
    if (train) DP_TRY_VOID(take_over(storage, plan, newest, found, damaged, config));
  } else {
    DP_TRY(found, begin_run(storage, plan, options, said));
    DP_TRY(config.term, checkpoint::take_term(storage, run_dir));
  }
  config.run = found.run.id;
  if (found.manifest && !train) {
    *found.manifest = checkpoint::load_used(storage, run_dir, *found.manifest, &said);
  }
  config.new_plan = found.run.plan_hash != plan.plan_hash ||
                    (found.manifest && found.manifest->plan_hash != plan.plan_hash);
  if (found.manifest) config.resume = resume_from(storage, run_dir, *found.manifest, plan.job);
  if (train && config.resume) {
    forget_damaged_best(storage, run_dir, *found.manifest, *config.resume, said);
    config.eval_trained_on = trained_on_holdout(*found.manifest, *config.resume, plan.job);
  }
  if (train) config.eval_trained_on |= other_run_trained_on_them(storage, plan);
  if (!train && config.resume) {  // the results of training are not those of this pass
    config.resume->epochs.clear();
    config.resume->evaluations.clear();
  }
  if (train && found.manifest) {
    if (std::string note = step_note(*found.manifest, plan.job); !note.empty())
      said.push_back(std::move(note));
  }
  if (train) tidy_up(storage, plan, found.run, said);
  if (notes != nullptr) {
    notes->insert(notes->end(), damaged.begin(), damaged.end());
    notes->insert(notes->end(), said.begin(), said.end());
  }
  return config;
}

}  // namespace downpour::chief
