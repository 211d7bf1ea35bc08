// Pass: one pass over the data: the training of an epoch, an evaluation or a prediction run. It has
// the shards of the pass, their bytes and the progress.
//
// Terms of this file:
// - The *account* of an epoch has its record counts: read = applied + filtered + skipped + dropped
//   + quarantined. An epoch gets its account when it is complete, or when the job ends inside it.
// - In a *round*, the chief asks every partition how much of the epoch it has applied; a
//   *completion round* decides whether the epoch is complete. A partition *lacks* a shard if it has
//   not applied all of it.
// - An *open stream* is the output of a program whose number of records is unknown. Each shard of
//   it is one *piece*: a run of at most plan::ShardMap::open_piece() records. For an open stream,
//   and for a program whose number of records is known, "bytes" in this file means records.
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

/// The number of steps in the epochs that have an account, and whether the current epoch is one of
/// them. Here a step is one batch that all partitions have applied, in synchronous training, too.
struct StepBase {
  uint64_t steps = 0;    // of all epochs that have an account
  uint32_t epoch = 0;    // the current epoch
  bool counted = false;  // `steps` includes the current epoch
};

/// The shards of the current pass. The lease table and the progress are hints, because workers
/// report them. Only a completion round decides whether an epoch is complete. A pass over an open
/// stream has more and more shards, until a worker reports the end of the stream.
class Pass {
 public:
  /// Cuts the data into shards. `members` is used only to count live workers and input processes
  /// (processes that read for workers).
  Pass(const ChiefConfig& config, const Membership& members);

  LeaseTable& table() { return table_; }
  const LeaseTable& table() const { return table_; }
  WorkerPaces& paces() { return paces_; }
  PassView view(const Turn& turn) const;
  bool trains() const { return table_.purpose() == wire::Purpose::kTrain; }
  /// Returns the number of shards of a training pass; for an open stream, the largest number
  /// allowed.
  uint32_t train_shards() const { return train_shards_.count(); }
  /// Returns true if the training data are an open stream.
  bool open_stream() const { return train_shards_.open_piece() > 0; }
  /// Returns true if the data of the job have no bytes.
  bool no_input() const;

  /// Records that workers may hold leases of an earlier chief.
  void expect_earlier_leases(bool expected) { earlier_leases_ = expected; }
  bool earlier_leases() const { return earlier_leases_; }

  /// Begins a pass. All its leases have the fields of `pattern`, such as purpose and epoch. Errors:
  /// those of extend().
  Result<void> open(const wire::Lease& pattern);
  /// Appends `count` shards to a pass over an open stream.
  void add_shards(uint32_t count);
  /// Appends the shards of an open stream up to that of `lease`, which an earlier chief granted.
  /// Does nothing if this chief knows the shard already.
  void add_shards_of_earlier_chief(const wire::Lease& lease);
  /// Appends shards to a pass over an open stream until it has enough free ones, as long as no
  /// worker has reported the end of the stream. At least one shard is then always free, so a round
  /// cannot find the epoch complete too early. With replicas, each of them has a free shard, so a
  /// step cannot miss one. Error kUnsupported if the epoch has too many shards.
  Result<void> extend();
  /// Chooses which workers may lease shards of data that can only be read from their start (a
  /// program or a compressed file). If there is an input process, it reads the data once, and all
  /// workers share the shards. Without one, each worker would have to read the data from the start,
  /// so one worker at a time leases shards. Replicas keep their shards in any case.
  void share_stream();
  /// Ends a shard with the counts that its worker reported.
  void end_shard(uint32_t shard, const wire::ShardCounts& counts);
  /// Records the end of an open stream, if the counts of this shard report it. Later shards are
  /// still leased, and have no records.
  void note_end(Turn& turn, uint32_t shard, const wire::ShardCounts& counts);
  /// Sets the size of a piece of an open stream to the number of records that its worker has read.
  /// Must be called when the shard ends, because the size is not known earlier.
  void measure_piece(uint32_t shard, const wire::ShardCounts& counts);
  /// Counts the bytes of ended shards anew: call reset_ended() first, then add_ended() for each
  /// ended shard.
  void reset_ended() { bytes_ended_ = 0; }
  void add_ended(uint32_t shard) { bytes_ended_ += bytes_of(shard); }
  /// Estimates the steps of the epoch from the outcome of a round in which some partition lacks
  /// a shard.
  void take_steps(const RoundOutcome& outcome);

  /// Measures the speed of a worker by its progress in a shard that it holds.
  void advance(const Turn& turn, Incarnation worker, uint32_t shard, uint64_t bytes_done);
  /// Stops measuring a worker that holds no shard.
  void note_idle(const Turn& turn, Incarnation worker);

  /// Returns true for an open stream whose end no worker has reported yet.
  bool length_unknown() const { return length_unknown_; }
  uint64_t bytes_of(uint32_t shard) const { return shard_bytes_[shard]; }
  /// Returns the bytes of all shards.
  uint64_t bytes_total() const { return bytes_total_; }
  /// Returns the bytes of the shards that have ended.
  uint64_t bytes_ended() const { return bytes_ended_; }
  /// Returns the bytes of the shards that have not ended; UINT64_MAX if the length is not known.
  uint64_t bytes_left() const { return length_unknown_ ? UINT64_MAX : bytes_total_ - bytes_ended_; }
  /// Returns what the chief knows about the number of shards of an epoch. `accounts` has the
  /// accounts of the epochs so far.
  EpochExtent extent_of(uint32_t epoch, const std::vector<EpochAccount>& accounts) const;
  std::vector<plan::ShardRange> ranges_of(uint32_t shard) const;
  /// Returns the range of a shard of this pass as a text for messages.
  std::string range_text(uint32_t shard) const;
  /// Returns the range of a training shard of any epoch as a text for messages.
  std::string train_range_text(ShardId shard) const;
  /// Returns, for data that mix sources by weight, how many bytes of each source are in no shard of
  /// the epoch.
  std::vector<uint64_t> unread_bytes(uint32_t epoch) const;
  /// Returns the account of a completed epoch. Errors: the partitions report different counts or
  /// records; the shards do not tile the files; there are more bad records than
  /// data.bad_records_max allows.
  Result<wire::ShardCounts> settle(uint32_t epoch, const RoundOutcome& outcome) const;
  /// Returns the number of bad records that all shards of the pass have skipped so far.
  uint64_t skipped_so_far() const;
  /// Checks data that can only be read from their start. In such data, `first_offset` of a shard's
  /// counts is the hash of all records before the shard, and `end_offset` that of all records up to
  /// its end (but see StreamBlock for the first shard and the last).
  /// The end of a shard must equal the start of the next; otherwise two reads of the source
  /// returned different records. Checks `shard` against both neighbours. Error kBadData if the
  /// input is not replayable.
  Result<void> check_stream(uint32_t shard) const;

  /// Returns how many batches have been reported to this chief as acknowledged by all partitions.
  /// The checkpoint schedule uses this number.
  uint64_t steps() const { return steps_before_ + (trains() ? table_.batches_acked() : 0); }
  /// Returns the steps of the job: those in `base`, and those of the current epoch as far as
  /// workers have reported them.
  uint64_t steps_done(const StepBase& base) const;
  /// Returns true if a shard that was not begun may be leased. Always true without `train.steps`.
  /// With `train.steps`, returns false if the leased shards are already expected to reach that
  /// number. Assumes that each leased shard has as many batches as the longest training shard that
  /// has ended. Before any has ended, only one shard at a time is begun.
  bool may_begin_shards(const StepBase& base) const;
  /// Returns true if the job has reached `train.steps` inside the epoch, and every shard that was
  /// begun has ended. If workers may hold leases of an earlier chief, returns false until one lease
  /// time (ChiefConfig::lease_ns) has passed since this chief began the job.
  bool partial_epoch_is_read(const Turn& turn, const StepBase& base) const;

  /// Returns a number that grows whenever the job makes new progress.
  uint64_t progress() const { return steps_max_ + shards_ended_; }
  void note_steps(const StepBase& base) { steps_max_ = std::max(steps_max_, steps_done(base)); }
  /// Adds the bytes and shards of the pass to `snapshot`. `accounts` as for extent_of().
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
