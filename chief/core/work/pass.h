// Pass: one pass over the data: the training of an epoch, an evaluation or a prediction run. Its
// shards, their bytes, and how far it is.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "chief/core/turn.h"
#include "chief/core/work/completion.h"
#include "chief/core/work/leases.h"
#include "chief/core/work/stragglers.h"
#include "shared/base/result.h"
#include "shared/plan/shard.h"

namespace downpour::chief {

/// The steps of the job before the current epoch.
struct StepBase {
  uint64_t steps = 0;    // batches of all epochs that have an account
  uint32_t epoch = 0;    // the current epoch
  bool counted = false;  // `steps` includes the current epoch
};

/// The shards of the current pass. Lease table and progress are hints: only a completion round
/// decides whether an epoch is complete. Over an open stream, a pass grows until a worker reports
/// the end of the stream.
class Pass {
 public:
  /// Cuts the data into shards. `members` only counts live workers and input processes.
  Pass(const ChiefConfig& config, const Membership& members);

  LeaseTable& table() { return table_; }
  const LeaseTable& table() const { return table_; }
  WorkerPaces& paces() { return paces_; }
  PassView view(const Turn& turn) const;
  bool trains() const { return table_.purpose() == wire::Purpose::kTrain; }
  /// Returns the number of shards of a training pass; for an open stream, the maximum.
  uint32_t train_shards() const { return train_shards_.count(); }
  /// Returns true if training reads a stream whose length is not known before.
  bool open_stream() const { return train_shards_.open_piece() > 0; }
  /// Returns true if the job has no bytes to read.
  bool no_input() const;

  /// Records that workers may hold leases of an earlier chief.
  void expect_earlier_leases(bool expected) { earlier_leases_ = expected; }
  bool earlier_leases() const { return earlier_leases_; }

  /// Begins a pass. All its leases share the fields of `pattern`. Errors: those of extend().
  Result<void> open(const wire::Lease& pattern);
  /// Appends shards to a pass over an open stream.
  void add_shards(uint32_t count);
  /// Appends shards of an open stream that an earlier chief leased and this one does not know yet.
  void add_shards_of_earlier_chief(const wire::Lease& lease);
  /// Keeps enough free shards in a pass over an open stream, until a worker reports the end of the
  /// stream. There is always at least one, so the epoch cannot be complete before. Error
  /// kUnsupported if the epoch has too many shards.
  Result<void> extend();
  /// Shares a stream among all workers if there is an input process. Without one each worker would
  /// have to read the whole stream, so one worker at a time reads it.
  void share_stream();
  /// Ends a shard with the counts that its worker reported.
  void end_shard(uint32_t shard, const wire::ShardCounts& counts);
  /// Records the end of an open stream, if this shard reports it. Shards after it are still leased,
  /// and have no records.
  void note_end(Turn& turn, uint32_t shard, const wire::ShardCounts& counts);
  /// Sets the size of a piece of an open stream, which is known when the piece has ended.
  void measure_piece(uint32_t shard, const wire::ShardCounts& counts);
  /// Counts the bytes of ended shards anew: reset_ended(), then add_ended() for each of them.
  void reset_ended() { bytes_ended_ = 0; }
  void add_ended(uint32_t shard) { bytes_ended_ += bytes_of(shard); }
  /// Takes the steps of the epoch from a round that found shards lacking.
  void take_steps(const RoundOutcome& outcome);

  /// Measures a worker's rate by its progress with a shard that it holds.
  void advance(const Turn& turn, Incarnation worker, uint32_t shard, uint64_t bytes_done);
  /// Stops measuring a worker that holds no shard.
  void note_idle(const Turn& turn, Incarnation worker);

  bool length_unknown() const { return length_unknown_; }
  uint64_t bytes_of(uint32_t shard) const { return shard_bytes_[shard]; }
  uint64_t bytes_total() const { return bytes_total_; }
  uint64_t bytes_ended() const { return bytes_ended_; }
  /// Returns the bytes that have not ended; UINT64_MAX if the length is not known.
  uint64_t bytes_left() const { return length_unknown_ ? UINT64_MAX : bytes_total_ - bytes_ended_; }
  /// Returns the shards of an epoch. `accounts` are those of the epochs so far.
  EpochExtent extent_of(uint32_t epoch, const std::vector<EpochAccount>& accounts) const;
  std::vector<plan::ShardRange> ranges_of(uint32_t shard) const;
  /// Returns the range of the shard, in words.
  std::string range_text(uint32_t shard) const;
  /// Returns the range of a training shard of any epoch, in words.
  std::string train_range_text(ShardId shard) const;
  /// Returns, for a weighted mix, the bytes of each source that no shard of the epoch has.
  std::vector<uint64_t> unread_bytes(uint32_t epoch) const;
  /// Returns the account of the epoch, or the error that forbids it.
  Result<wire::ShardCounts> settle(uint32_t epoch, const RoundOutcome& outcome) const;
  /// Returns the records that all shards have skipped so far.
  uint64_t skipped_so_far() const;
  /// Checks that the hash of the stream before this shard equals the hash after the shard before
  /// it, and likewise for the next shard. Different workers may have read them. Error kBadData if
  /// the input is not replayable.
  Result<void> check_stream(uint32_t shard) const;

  /// Returns the batches that all partitions have acknowledged in this run: a hint for the
  /// schedule.
  uint64_t steps() const { return steps_before_ + (trains() ? table_.batches_acked() : 0); }
  /// Returns the batches of the job that all partitions have applied, in the current epoch as far
  /// as reported.
  uint64_t steps_done(const StepBase& base) const;
  /// Returns true if shards that were not begun may be leased. They may not if the leased shards
  /// will reach `train.steps`. The batches of a shard are known when one has ended; until then only
  /// one shard at a time is begun.
  bool may_begin_shards(const StepBase& base) const;
  /// Returns true if every shard that was begun has ended, and the epoch needs no further shard.
  bool partial_epoch_is_read(const Turn& turn, const StepBase& base) const;

  /// Returns a number that grows whenever the job makes new progress.
  uint64_t progress() const { return steps_max_ + shards_ended_; }
  void note_steps(const StepBase& base) { steps_max_ = std::max(steps_max_, steps_done(base)); }
  /// Adds the figures of the pass. `accounts` as for extent_of().
  void show(ProgressSnapshot& snapshot, const std::vector<EpochAccount>& accounts) const;
  uint32_t attempts_repeated() const { return attempts_repeated_ + table_.attempts_repeated(); }
  uint32_t backups() const { return backups_ + table_.backups(); }

 private:
  const ChiefConfig& config_;
  const Membership& members_;
  plan::ShardMap train_shards_;
  std::vector<plan::ShardRange> eval_ranges_;
  LeaseTable table_;
  std::vector<uint64_t> shard_bytes_;  // by shard
  WorkerPaces paces_;
  uint64_t bytes_ended_ = 0, bytes_total_ = 0;
  bool length_unknown_ = false;  // open stream whose end no worker has reported yet
  bool earlier_leases_ = false;
  uint64_t steps_before_ = 0;  // batches acknowledged in training passes before this one
  // Batches of the current epoch that all partitions had applied at the last round, and the lease
  // table's count at that time.
  uint64_t epoch_steps_ = 0, epoch_acked_ = 0;
  uint64_t steps_max_ = 0;              // maximum of steps_done()
  uint64_t shards_ended_ = 0;           // of evaluations and predictions
  uint32_t shard_batches_longest_ = 0;  // batches of the longest ended training shard; 0: none
  uint32_t attempts_repeated_ = 0, backups_ = 0;  // in earlier passes
};

}  // namespace downpour::chief
