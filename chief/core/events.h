// What goes into the chief's core and what comes out: configuration, effects, and what the user is
// shown.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "shared/base/bytes.h"
#include "shared/base/ids.h"
#include "shared/base/result.h"
#include "shared/base/units.h"
#include "shared/job/job.h"
#include "shared/metrics/sums.h"
#include "shared/plan/shard.h"
#include "shared/wire/messages.h"

namespace downpour::chief {

/// One connection, as the shell's transport numbers them. Never reused.
enum class PeerKey : uint64_t {};

// ---- results

/// The account of one complete epoch: the same at every partition, and balanced.
struct EpochAccount {
  uint32_t epoch = 0;
  uint32_t shards = 0;       // that have ended
  uint32_t shards_left = 0;  // that nobody has begun: train.steps ended the job inside the epoch
  uint64_t input_bytes = 0;
  std::vector<uint64_t>
      unread_bytes;  // of a mix: by source, what it had more than its weight wanted
  wire::ShardCounts counts;
  std::vector<OutputSums> metrics;  // training metrics, each record once; by output
  uint64_t duplicate_parts = 0,
           gaps = 0;               // parts repeated, parts too early: counted beside the account
  uint32_t attempts_repeated = 0;  // leases beyond the first of each shard
  int64_t wall_ns = 0;
  bool operator==(const EpochAccount&) const = default;
  bool is_partial() const { return shards_left > 0; }
};

/// One finished evaluation.
struct Evaluation {
  uint32_t id = 0;
  uint32_t epochs_trained = 0;  // complete epochs when it ran
  wire::ShardCounts counts;
  std::vector<OutputMetrics> outputs;  // AUC buckets only where it is the newest (all: in EvalDone)
  std::vector<double> auc;             // by output; NaN where the output has no ranking
  int64_t wall_ns = 0;
};

/// A batch that this run does without.
struct QuarantinedBatch {
  BatchId batch;
  std::string where;  // its shard's place: "file.csv [0, 4096)"
  std::string why;    // what failed; empty: decided before this chief came
};

/// Where a job goes on: what the newest manifest says.
struct ResumeState {
  ViewId checkpoint;
  std::string folder;  // absolute
  std::vector<std::vector<wire::ImageRef>>
      images;                                 // by partition: a whole one, then what builds on it
  std::vector<ViewId> ownership_generations;  // by partition, and
  ViewId given;                               // both as in the manifest; empty: not known
  ViewId best;  // of an earlier or this manifest; {0, 0}: no evaluation chose one
  uint32_t sealed_epochs = 0;
  std::vector<EpochAccount> epochs;  // of the runs before, for the summary
  std::vector<Evaluation> evaluations;
};

// ---- configuration

/// Everything the core knows of the world. Times are limits, each with what happens at it.
struct ChiefConfig {
  wire::Purpose mode =
      wire::Purpose::kTrain;  // kEval, kPredict: one pass over eval_files (or train_files)
  Job job;
  std::string job_text;  // the effective job, for Welcome
  uint64_t run = 0;
  uint32_t term = 1;
  std::string build;  // version of this build; peers must have the same
  uint64_t plan_hash = 0;
  bool new_plan = false;  // the run, or its newest checkpoint, was of another plan so far
  uint32_t partition_bits = 8;
  std::vector<plan::FileInfo> train_files, eval_files;
  uint64_t shard_bytes = 64 * kMiB;
  plan::StreamSpec streams;        // of the training data
  plan::ShardRecipe joining;       // the same: how its ranges make shards
  uint32_t ps_cores_expected = 1;  // placing waits for this many
  uint32_t workers_expected = 1;   // only for messages: training begins with the first
  bool local =
      false;  // members are processes of `downpour train`: a stop signal to one stops the job
  std::string checkpoint_root;  // absolute; a checkpoint lies in root/TERM-N
  std::optional<ResumeState> resume;

  int64_t heartbeat_ns = kSecond;
  int64_t lease_ns =
      3 * kSecond;  // a worker silent for longer loses its leases, an input process its readers
  int64_t member_silence_ns = 10 * kSecond;  // a ps silent for longer is lost
  int64_t ps_wait_ns = 30 * kSecond;  // for a lost ps; then its partitions are given to others
  int64_t ps_none_ns = 60 * kSecond;  // without any ps; then the job fails
  int64_t adopt_timeout_ns = 600 * kSecond;  // for a ps to load its partitions; then the job fails
  int64_t claims_wait_ns = 2 * kSecond;      // a new chief, for ps that hold partitions to say so
  int64_t lease_idle_ns =
      10 * kSecond;  // a lease without a word for longer is taken back (a lost grant or report)
  int64_t lease_stall_ns = 60 * kSecond;     // words but no batch acknowledged for longer: the same
  int64_t start_timeout_ns = 60 * kSecond;   // for all ps, and for the first worker
  int64_t workers_wait_ns = 60 * kSecond;    // without any worker, once there was one
  int64_t save_retry_ns = 30 * kSecond;      // after one that failed
  int64_t save_timeout_ns = 600 * kSecond;   // then a checkpoint has failed
  int64_t stop_save_ns = 15 * kSecond;       // for all saving after request_stop()
  int64_t goodbye_wait_ns = 5 * kSecond;     // for Goodbyes at the end
  int64_t progress_ns = 250 * kMillisecond;  // between two ProgressSnapshots
  int64_t lease_retry_ns = 50 * kMillisecond;  // LeaseGrant::retry_ns where there is nothing to do
  int64_t resend_ns = kSecond;  // first wait before a request is sent again; doubles to 8 s
  std::string moves_folder;     // absolute; empty: no partition is moved
  int64_t move_timeout_ns = 10 * kSecond;            // then a move is called off
  int64_t move_pause_wanted_ns = 25 * kMillisecond;  // moves are made smaller above, larger below
  uint32_t move_partitions_max = 16;                 // at once
  int64_t offload_pause_ns = 10 * kSecond;           // between two reliefs of hot ps
  uint32_t attempts_max =
      3;  // failed attempts at a shard in a row without progress; then the job fails
  uint32_t leases_per_worker_max = 64;  // a worker with so many gets no more
  // Members of each role; more are refused. Lists of all ps cores (View) and of all input processes
  // (InputList), each with the longest endpoint, fit a frame.
  uint32_t workers_max = 4096, ps_cores_max = 2048, inputs_max = 1024;
  // One chain of images longer, and the list of all of them would not fit a message: whole ones
  // then.
  uint32_t images_listed_max = 12'288;
  uint32_t quarantined_max = 256;  // batches of unsealed epochs; more fail the job
  uint32_t markers_max = 4096;     // the same with those that were withdrawn; PsLimits has it, too
  uint32_t unsealed_epochs_max = 8;  // more complete ones wait for a checkpoint
  uint32_t void_rounds_max = 100;    // completion rounds void in a row; then the job fails
  uint32_t predict_window = 64;  // shards that predictions may run ahead of the first missing one
};

// ---- effects

struct Send {
  PeerKey peer{};
  wire::Message message;
};

/// Write this manifest (temp file, fsync, rename, fsync of the folder), then call on_published().
struct PublishManifest {
  ViewId checkpoint;
  std::string folder;
  std::vector<wire::ImageRef> images;         // one a partition, ascending
  std::vector<wire::ImageRef> bases;          // what these build on: by partition, the oldest first
  std::vector<ViewId> ownership_generations;  // by partition: of the owner that wrote the image
  ViewId given;                               // no later one has been given to any ps
  ViewId best;                                // the checkpoint of the best evaluation; {0, 0}: none
  uint32_t sealed_epochs =
      0;  // epochs whose every shard has ended at every partition in these images
  uint64_t rows = 0;
  std::vector<EpochAccount> epochs;
  std::vector<Evaluation> evaluations;
};

/// An image of the checkpoint `below` is damaged: look for the newest whole one before it, then
/// call on_older().
struct FindOlder {
  ViewId below;
};

/// A process of this machine that has ended, as its launcher reports.
struct EndedProcess {
  wire::Role role = wire::Role::kPs;
  uint32_t index = 0;
  uint32_t pid = 0;
  int stop_signal = 0;  // the stop signal that ended it; 0: it ended for another reason
};

/// One line, without newline, for the run's append-only event file.
struct AppendEvent {
  std::string line;
};

enum class Phase : uint8_t {
  kGathering,    // waiting for ps
  kAdopting,     // ps load or make their partitions
  kReconciling,  // asking the partitions what of an epoch they have: a run goes on, or some rolled
                 // back
  kTraining,
  kCompleting,  // a completion round
  kEvaluating,
  kPredicting,
  kSaving,    // nothing is leased: the job waits for a checkpoint
  kStopping,  // waiting for Goodbyes
  kFinished,
};

/// For the live line. Hints from heartbeats, but for bytes and shards.
struct ProgressSnapshot {
  Phase phase = Phase::kGathering;
  int64_t elapsed_ns = 0;
  uint32_t epoch = 0, epochs = 0;
  uint64_t steps = 0, steps_wanted = 0;      // of the job; wanted 0: no limit
  uint64_t bytes_done = 0, bytes_total = 0;  // of this pass
  uint32_t shards_done = 0, shards_total = 0, shards_in_flight = 0;
  uint64_t records = 0;               // trained by all workers since the run began
  std::vector<OutputMetrics> recent;  // since the last snapshot, merged over workers
  std::vector<uint64_t> staleness;    // parts by versions behind, since the run began
  uint64_t pulled_bytes = 0, pushed_bytes = 0, read_bytes = 0;
  wire::WorkTime work;  // of all workers since the run began
  uint64_t duplicate_parts = 0, gaps = 0;
  uint64_t rows = 0, table_bytes = 0;
  uint32_t workers_live = 0, ps_live = 0;  // ps: cores
  uint32_t inputs_live = 0;
};
struct EpochDone {
  EpochAccount account;
  std::vector<OutputMetrics>
      observed;  // from heartbeats, AUC buckets included: a hint beside the account
};
struct EvalDone {
  Evaluation evaluation;
};
struct CheckpointDone {
  ViewId checkpoint;
  ViewId base;  // it builds on this one; {}: it is whole
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

/// One batch of predictions. They come shard by shard and batch by batch in the order of the data,
/// each once.
struct PredictionBatch {
  uint32_t shard = 0;
  uint32_t batch = 0;
  uint32_t records = 0;
  Bytes values;  // for each output [records, width] float32
  bool ended = false;
};

/// What one process used at most.
struct ProcessPeak {
  wire::Role role = wire::Role::kWorker;
  uint32_t index = 0;
  uint64_t rss_bytes_max = 0;
  uint64_t cpu_ns = 0;
  uint64_t rows = 0, table_bytes = 0;    // ps
  uint64_t records = 0, read_bytes = 0;  // worker; input: read_bytes
  uint64_t pushed_bytes = 0;             // input: sent batches
  wire::WorkTime work;                   // worker
};
struct JobSummary {
  wire::Purpose mode = wire::Purpose::kTrain;
  bool already_finished = false;
  uint32_t epochs_sealed = 0, epochs_wanted = 0;
  uint64_t steps = 0,
           steps_wanted = 0;  // of complete epochs and of the part at the end; wanted 0: no limit
  std::vector<EpochAccount> epochs;  // those of earlier runs first
  uint32_t epochs_resumed = 0;       // how many of them are earlier runs'
  std::vector<Evaluation> evaluations;
  uint64_t records = 0;  // trained in this run (hint)
  uint64_t predictions = 0;
  uint64_t duplicate_parts = 0, gaps = 0;
  uint32_t attempts_repeated = 0;  // leases beyond the first of each shard, backups among them
  uint32_t backups = 0;            // second leases on what a straggler held
  std::vector<QuarantinedBatch> quarantined;  // decided in this run, in the order of decision
  uint32_t workers_lost = 0;
  uint32_t partitions_moved = 0;      // from one living ps to another
  uint32_t partitions_offloaded = 0;  // of those, because their ps was hot
  int64_t move_pause_ns_max = 0;      // longest that one of them was served by nobody
  uint32_t ps_lost = 0;               // processes, as often as each was
  uint32_t restarts = 0;              // of local processes, by whoever started them
  uint64_t pulled_bytes = 0, pushed_bytes = 0, read_bytes = 0;
  std::vector<uint64_t> staleness;
  std::vector<ProcessPeak> processes;  // by role and index
  int64_t wall_ns = 0;                 // of this run
  int64_t train_ns = 0;                // from the first lease to the end of the last complete epoch
  ViewId checkpoint;                   // newest published; {0, 0}: none
  std::string checkpoint_folder;
  bool stopped_early = false;  // the evaluation loss stopped improving
  uint32_t best_epochs = 0;    // epochs trained at the lowest evaluation loss; 0: not known
  ViewId best_checkpoint;      // holds the variables as they were then; {0, 0}: none was kept
};

/// The job has ended; nothing follows.
struct Finish {
  int32_t code = 0;            // exit status
  std::optional<Error> error;  // why, where code != 0
  JobSummary summary;
};

using Effect = std::variant<Send, PublishManifest, FindOlder, AppendEvent, ProgressSnapshot,
                            EpochDone, EvalDone, CheckpointDone, Notice, PredictionBatch, Finish>;
/// In the order in which they are to be run.
using Effects = std::vector<Effect>;

}  // namespace downpour::chief
