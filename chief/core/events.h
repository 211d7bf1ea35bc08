// Inputs and outputs of the chief's core: configuration, results that the user sees, and the
// effects other than messages.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "shared/base/bytes.h"
#include "shared/base/ids.h"
#include "shared/base/result.h"
#include "shared/base/units.h"
#include "shared/job/job.h"
#include "shared/metrics/ranking.h"
#include "shared/metrics/reliability.h"
#include "shared/metrics/sums.h"
#include "shared/plan/shard.h"
#include "shared/wire/lease_messages.h"
#include "shared/wire/member_messages.h"

namespace downpour::chief {

/// Identifies a connection, as the shell's transport numbers them. Never reused.
enum class PeerKey : uint64_t {};

// ---- results

/// The account of one epoch, complete or partial. It is the same at every partition, and it
/// balances.
struct EpochAccount {
  uint32_t epoch = 0;
  uint32_t shards = 0;       // shards that have ended
  uint32_t shards_left = 0;  // shards not begun, because train.steps ended the job inside the epoch
  uint64_t version = 0;      // of the partitions at its end; 0: not known
  // Of the job that trained it, as a checkpoint records them; see HistoryLine.
  std::optional<double> learning_rate;
  std::optional<uint64_t> steps_counted;
  uint64_t input_bytes = 0;
  std::vector<uint64_t> unread_bytes;  // weighted mix: bytes of each source that no shard has
  wire::ShardCounts counts;
  std::vector<OutputSums> metrics;  // training metrics by output, each record once
  uint64_t duplicate_parts = 0,
           gaps = 0;               // counted in addition to the account
  uint32_t attempts_repeated = 0;  // leases beyond the first one of each shard
  int64_t wall_ns = 0;
  bool operator==(const EpochAccount&) const = default;
  bool is_partial() const { return shards_left > 0; }
};

/// Rows of slices that a run keeps, of the newest evaluations. Older ones lose theirs.
constexpr size_t kSliceRowsKept = 8192;
/// Bins of the reliability diagram of an output.
constexpr size_t kReliabilityBins = 10;

/// One finished evaluation.
struct Evaluation {
  uint32_t id = 0;
  uint32_t epochs_trained = 0;  // epochs trained when it ran, a partial one included
  wire::ShardCounts counts;
  std::vector<OutputMetrics> outputs;    // the AUC buckets are kept only for the newest evaluation
  std::vector<RankingMetrics> rankings;  // by output, also of earlier evaluations
  // By output; empty for other losses than the logistic one.
  std::vector<std::vector<ReliabilityBin>> reliability;
  // For each row of each of eval.slices: all outputs, without AUC buckets. Empty for older
  // evaluations (kSliceRowsKept).
  std::vector<OutputMetrics> slices;
  std::vector<RankingMetrics> slice_rankings;
  bool groups_dropped = false;  // too many records for gauc and ndcg (kGroupRecordsMax)
  uint64_t data = 0;            // hash of the evaluation data; 0: not known
  // Earlier epochs, or the run of a warm start, have trained on some of its records.
  bool trained_on = false;
  int64_t wall_ns = 0;
};

/// A quarantined batch of this run.
struct QuarantinedBatch {
  BatchId batch;
  std::string where;  // the range of its shard: "file.csv [0, 4096)"
  std::string why;    // the failure; empty: decided before this chief started
};

/// A checkpoint that holds exactly the variables of an evaluation.
struct KeptModel {
  ViewId checkpoint;    // {0, 0}: none
  uint32_t epochs = 0;  // trained epochs, as Evaluation::epochs_trained
  bool operator==(const KeptModel&) const = default;
};

/// The state from which a job resumes, as the newest manifest holds it.
struct ResumeState {
  ViewId checkpoint;
  std::string folder;  // absolute
  std::vector<std::vector<wire::ImageRef>>
      images;  // by partition: a whole image, then those that build on it
  std::vector<ViewId> ownership_generations;  // by partition, as in the manifest; empty: not known
  ViewId given;                 // highest number assigned when it was written; {0, 0}: not known
  KeptModel best;               // as in the manifest
  std::vector<KeptModel> kept;  // models among which the best one is chosen, `best` included
  uint32_t sealed_epochs = 0;
  std::vector<EpochAccount> epochs;  // epochs of earlier starts, for the summary
  std::vector<Evaluation> evaluations;
};

// ---- configuration

/// Configuration of the core. Each time limit states what happens when it has passed.
struct ChiefConfig {
  wire::Purpose mode =
      wire::Purpose::kTrain;  // kEval, kPredict: one pass over eval_files (or train_files)
  Job job;
  std::string job_text;  // the effective job, for Welcome
  uint64_t run = 0;
  uint32_t term = 1;
  std::string build;  // version of this build; members must have the same
  uint64_t plan_hash = 0;
  uint64_t eval_data = 0;        // hash of what evaluations read
  bool eval_trained_on = false;  // as Evaluation::trained_on
  bool new_plan = false;         // the run, or its newest checkpoint, has another plan
  uint32_t partition_bits = 8;
  std::vector<plan::FileInfo> train_files, eval_files;
  uint64_t shard_bytes = 64 * kMiB;
  plan::StreamSpec streams;        // streams of the training data
  plan::ShardRecipe joining;       // how the ranges of the training data make shards
  uint64_t share_batches = 0;      // of a replica with train.sync_every = "epoch"; estimated
  uint32_t ps_cores_expected = 1;  // placement waits for this many
  uint32_t workers_expected = 1;   // for messages only: training begins with the first one
  bool local =
      false;  // members were started by `downpour train`, so a stop signal to one stops the job
  std::string checkpoint_root;  // absolute; a checkpoint is stored in root/TERM-N
  std::optional<ResumeState> resume;

  int64_t heartbeat_ns = kSecond;
  // Silence of a worker; then it loses its leases. Silence of an input process; then it leaves the
  // InputList.
  int64_t lease_ns = 3 * kSecond;
  int64_t member_silence_ns = 10 * kSecond;  // silence of a ps; then it is lost
  int64_t ps_wait_ns = 30 * kSecond;         // wait for a lost ps; then others get its partitions
  int64_t ps_none_ns = 60 * kSecond;         // time without any ps; then the job fails
  // Loading of partitions; then the ps is lost, or the job fails if no other ps answers.
  int64_t adopt_timeout_ns = 600 * kSecond;
  // A new chief's wait for claims; then it restores the unclaimed partitions.
  int64_t claims_wait_ns = 2 * kSecond;
  // A lease without a report; then it is revoked, because the grant or a report was lost.
  int64_t lease_idle_ns = 10 * kSecond;
  int64_t lease_stall_ns =
      60 * kSecond;  // a lease without an acknowledged batch; then it is revoked
  int64_t start_timeout_ns =
      60 * kSecond;  // wait for all ps, and for the first worker; then the job fails
  int64_t workers_wait_ns =
      60 * kSecond;  // time without any worker, after there was one; then the job fails
  int64_t save_retry_ns = 30 * kSecond;     // pause after a failed checkpoint
  int64_t save_timeout_ns = 600 * kSecond;  // writing of a checkpoint; then it has failed
  int64_t stop_save_ns = 15 * kSecond;      // saving after request_stop(); then the job ends
  int64_t goodbye_wait_ns = 5 * kSecond;    // wait for Goodbyes; then the chief ends
  // After success: wait for ps and workers that have not joined yet, which then end with status 0.
  int64_t late_wait_ns = 0;
  int64_t progress_ns = 250 * kMillisecond;    // interval of ProgressSnapshots
  int64_t lease_retry_ns = 50 * kMillisecond;  // LeaseGrant::retry_ns of an empty grant
  int64_t resend_ns = kSecond;  // first wait before a request is repeated; doubles to 8 s
  std::string moves_folder;     // absolute; empty: partitions are never moved
  int64_t move_timeout_ns = 10 * kSecond;            // a move; then it is cancelled
  int64_t move_pause_wanted_ns = 25 * kMillisecond;  // moves get smaller above, larger below
  uint32_t move_partitions_max = 16;                 // per move
  int64_t offload_pause_ns = 10 * kSecond;  // minimum time between two decisions to offload
  uint32_t attempts_max =
      3;  // failed attempts at a shard in a row without progress; then the job fails
  uint32_t leases_per_worker_max = 64;  // a worker with this many leases gets no more
  // Members per role; further ones are refused. The limits ensure that lists of all ps cores (View)
  // and of all input processes (InputList) fit a frame, even with the longest endpoints.
  uint32_t workers_max = 4096, ps_cores_max = 2048, inputs_max = 1024;
  // Images that an incremental checkpoint may name, base images included, so that the list fits a
  // message. A checkpoint that would name more has whole images.
  uint32_t images_listed_max = 12'288;
  uint32_t quarantined_max = 256;  // marked batches of unsealed epochs; one more fails the job
  uint32_t markers_max = 4096;     // markers, withdrawn ones included; PsLimits has the same limit
  uint32_t unsealed_epochs_max = 8;  // complete epochs; then training waits for a checkpoint
  uint32_t void_rounds_max = 100;    // void completion rounds in a row; then the job fails
  uint32_t predict_window = 64;  // shards that predictions may be ahead of the first missing one
};

/// LeaseGrant::retry_ns if worker and chief share a reactor, so that a message costs little. A
/// small data set would otherwise wait most of the time at the end of its epochs.
constexpr int64_t kLocalLeaseRetryNs = kMillisecond;

// ---- effects

/// Write this manifest atomically and durably (temporary file, fsync, link, fsync of the folder).
/// Then call on_published().
struct PublishManifest {
  ViewId checkpoint;
  std::string folder;
  std::vector<wire::ImageRef> images;  // one per partition, ascending
  std::vector<wire::ImageRef> bases;   // images that these build on: by partition, the oldest first
  std::vector<ViewId>
      ownership_generations;  // by partition: generation of the owner that wrote the image
  ViewId given;               // highest number assigned to any ps so far
  ViewId best;                // checkpoint of the best evaluation; {0, 0}: none
  // Every partition image holds all shards of this many epochs.
  uint32_t sealed_epochs = 0;
  uint64_t rows = 0;
  std::vector<EpochAccount> epochs;
  std::vector<Evaluation> evaluations;
};

/// Find the newest whole checkpoint before `below`, which has a damaged image; without training,
/// also a newer one. Then call on_older().
struct FindOlder {
  ViewId below;
};

/// A local process that has ended, as its launcher reports.
struct EndedProcess {
  wire::Role role = wire::Role::kPs;
  uint32_t index = 0;
  uint32_t pid = 0;
  int stop_signal = 0;   // stop signal that ended it; 0: another reason
  bool goodbye = false;  // it exited as requested: the transport may still deliver its Goodbye
};

/// Append this line to the event file of the run. It has no newline.
struct AppendEvent {
  std::string line;
};

enum class Phase : uint8_t {
  kGathering,    // waiting for ps
  kAdopting,     // the ps load or create their partitions
  kReconciling,  // asking all partitions what they hold, after a resume or a restore
  kTraining,
  kCompleting,  // running a completion round
  kEvaluating,
  kPredicting,
  kSaving,    // waiting for a checkpoint; no shard is leased
  kStopping,  // waiting for Goodbyes
  kFinished,
};

/// Values for the live line. Steps, bytes and shards come from the lease table; the rest are hints
/// from heartbeats.
struct ProgressSnapshot {
  Phase phase = Phase::kGathering;
  int64_t elapsed_ns = 0;
  uint32_t epoch = 0, epochs = 0;
  uint64_t steps = 0;                        // batches of the job
  uint64_t steps_counted = 0;                // as train.steps counts them
  uint64_t steps_wanted = 0;                 // 0: no limit
  uint64_t bytes_done = 0, bytes_total = 0;  // bytes of this pass
  uint32_t shards_done = 0, shards_total = 0, shards_in_flight = 0;
  uint64_t records = 0;               // trained by all workers since the run began
  std::vector<OutputMetrics> recent;  // since the last snapshot, merged over workers
  std::vector<uint64_t> staleness;    // histogram of the parts' staleness since the run began
  uint64_t pulled_bytes = 0, pushed_bytes = 0, read_bytes = 0;
  wire::WorkTime work;  // of all workers since the run began
  uint64_t duplicate_parts = 0, gaps = 0;
  uint64_t rows = 0, table_bytes = 0;
  uint32_t workers_live = 0, ps_live = 0;  // ps: number of cores
  uint32_t inputs_live = 0;
};
struct EpochDone {
  EpochAccount account;
  std::vector<OutputMetrics> observed;  // hints from heartbeats, with AUC buckets
};
struct EvalDone {
  Evaluation evaluation;
};
struct CheckpointDone {
  ViewId checkpoint;
  ViewId base;  // its images build on this one; {}: they are whole
  std::string folder;
  uint32_t sealed_epochs = 0;
  uint64_t rows = 0;
  uint64_t bytes = 0;
};
enum class NoticeLevel : uint8_t { kInfo, kWarning, kError };
struct Notice {
  NoticeLevel level = NoticeLevel::kInfo;
  std::string text;
};

/// One batch of predictions. Batches come in the order of the data, shard by shard, each once.
struct PredictionBatch {
  uint32_t shard = 0;
  uint32_t batch = 0;
  uint32_t records = 0;
  Bytes values;  // for each output [records, width] float32
  bool ended = false;
};

/// Peak and total resources of one process.
struct ProcessPeak {
  wire::Role role = wire::Role::kWorker;
  uint32_t index = 0;
  uint64_t rss_bytes_max = 0;
  uint64_t cpu_ns = 0;
  uint64_t rows = 0, table_bytes = 0;    // of a ps
  uint64_t records = 0, read_bytes = 0;  // of a worker; input process: read_bytes only
  uint64_t pushed_bytes = 0;             // of an input process: sent batches
  wire::WorkTime work;                   // of a worker
};
struct JobSummary {
  wire::Purpose mode = wire::Purpose::kTrain;
  bool already_finished = false;
  uint32_t epochs_sealed = 0, epochs_wanted = 0;
  uint64_t steps = 0;                // batches of the complete and partial epochs
  uint64_t steps_counted = 0;        // the same, as train.steps counts them
  uint64_t steps_wanted = 0;         // 0: no limit
  std::vector<EpochAccount> epochs;  // those of earlier starts first
  uint32_t epochs_resumed = 0;       // how many of them are from earlier starts
  std::vector<Evaluation> evaluations;
  uint64_t records = 0;  // trained in this run (hint)
  uint64_t predictions = 0;
  uint64_t duplicate_parts = 0, gaps = 0;
  uint32_t attempts_repeated = 0;  // leases beyond the first one of each shard, with backups
  uint32_t backups = 0;            // backup leases
  std::vector<QuarantinedBatch> quarantined;  // decided in this run, in order of decision
  uint32_t workers_lost = 0;
  uint32_t partitions_moved = 0;      // moved between live ps
  uint32_t partitions_offloaded = 0;  // of those, moved because their ps was busy
  int64_t move_pause_ns_max = 0;      // longest time that no ps served one of them
  uint32_t ps_lost = 0;               // lost processes, counted every time
  uint32_t restarts = 0;              // restarts of local processes, filled in by their launcher
  uint64_t pulled_bytes = 0, pushed_bytes = 0, read_bytes = 0;
  std::vector<uint64_t> staleness;
  std::vector<ProcessPeak> processes;  // ascending by role and index
  int64_t wall_ns = 0;                 // of this run
  int64_t train_ns = 0;  // from the first lease to the end of the last epoch with an account
  ViewId checkpoint;     // newest published one; {0, 0}: none
  std::string checkpoint_folder;
  bool stopped_early = false;  // the evaluation loss stopped improving
  uint32_t best_epochs = 0;  // epochs of the best evaluation; of `best_checkpoint` if there is one
  ViewId best_checkpoint;    // eval and predict use it; {0, 0}: they use the newest one
};

/// The job has ended. No effect follows.
struct Finish {
  int32_t code = 0;            // exit status
  std::optional<Error> error;  // the reason, if code != 0
  JobSummary summary;
};

}  // namespace downpour::chief
