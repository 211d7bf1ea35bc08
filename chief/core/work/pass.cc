#include "chief/core/work/pass.h"

#include <numeric>

#include "chief/core/work/account.h"
#include "shared/base/defence.h"

namespace downpour::chief {

Pass::Pass(const ChiefConfig& config, const Membership& members)
    : config_(config),
      members_(members),
      train_shards_(plan::cut_streams(config.train_files, config.shard_bytes, config.streams),
                    config.job.seed, config.joining),
      eval_ranges_(
          config.eval_files.empty()
              ? plan::cut_held_out(config.train_files, config.joining, config.shard_bytes)
              : plan::cut_shards(config.eval_files,
                                 plan::eval_shard_bytes(config.joining, config.shard_bytes))) {}

PassView Pass::view(const Turn& turn) const {
  return {.table = table_,
          .paces = paces_,
          .bytes_of = [this](uint32_t shard) { return bytes_of(shard); },
          .now_ns = turn.now_ns()};
}

bool Pass::no_input() const {
  return config_.mode == wire::Purpose::kTrain ? train_shards() == 0 : eval_ranges_.empty();
}

// ---- growth

Result<void> Pass::open(const wire::Lease& pattern) {
  attempts_repeated_ += table_.attempts_repeated();
  backups_ += table_.backups();
  paces_ = {};
  steps_before_ = steps();
  const bool train = pattern.purpose == wire::Purpose::kTrain;
  length_unknown_ = train && open_stream();
  const uint32_t shards = length_unknown_ ? 0
                          : train         ? train_shards()
                                          : uint32_t(eval_ranges_.size());
  table_ = LeaseTable(pattern, shards);
  epoch_steps_ = epoch_acked_ = 0;
  bytes_ended_ = bytes_total_ = 0;
  shard_bytes_.resize(shards);
  std::vector<uint32_t> stream_of(shards);
  for (uint32_t shard = 0; shard < shards; ++shard) {
    const std::vector<plan::ShardRange> ranges = ranges_of(shard);
    shard_bytes_[shard] = plan::bytes_of(ranges);
    bytes_total_ += shard_bytes_[shard];
    stream_of[shard] = ranges.front().stream;
  }
  if (train && config_.job.train.backups > 0) {
    table_.share_among_replicas(uint32_t(*config_.job.train.replicas));
  } else if (train && config_.job.train.replicas && !config_.streams.shared()) {
    table_.split_among_replicas(config_.streams.count, stream_of);
  } else if (train && config_.job.train.replicas) {
    table_.split_among_replicas(uint32_t(*config_.job.train.replicas));
  } else if (train && !config_.streams.shared()) {
    table_.split(config_.streams.count, stream_of);
  }
  DP_TRY_VOID(extend());
  share_stream();
  return {};
}

void Pass::add_shards(uint32_t count) {
  shard_bytes_.resize(shard_bytes_.size() + count,
                      length_unknown_ ? train_shards_.open_piece() : 0);
  table_.grow(count);
}

void Pass::add_shards_of_earlier_chief(const wire::Lease& lease) {
  constexpr uint32_t kPiecesAheadMax = 1 << 16;
  const uint32_t shards = table_.shard_count();
  const bool of_pass =
      lease.purpose == wire::Purpose::kTrain && trains() && lease.shard.epoch == table_.epoch();
  if (!earlier_leases_ || !length_unknown_ || !of_pass || lease.shard.shard < shards) return;
  const uint32_t count = lease.shard.shard - shards + 1;
  if (count <= std::min(kPiecesAheadMax, train_shards() - shards)) add_shards(count);
}

Result<void> Pass::extend() {
  constexpr uint32_t kPiecesAhead = 4;      // per worker or replica
  constexpr uint32_t kPiecesOfReplica = 2;  // free ones of each replica
  if (!length_unknown_) return {};
  const auto replicas = uint32_t(config_.job.train.replicas.value_or(0));
  const uint32_t wanted = kPiecesAhead * std::max({1U, members_.workers_live(), replicas});
  // A replica without a shard would miss a step, although the stream may go on.
  const bool some_lacks = table_.fewest_free() < kPiecesOfReplica;
  if (table_.free_count() >= wanted && !some_lacks) return {};
  const uint32_t count = std::max(wanted - std::min(wanted, table_.free_count()),
                                  some_lacks ? kPiecesOfReplica * replicas : 0);
  if (count <= train_shards() - table_.shard_count()) {
    add_shards(count);
    return {};
  }
  return Error{ErrorCode::kUnsupported,
               str("an epoch of the program has more than ", train_shards(), " shards of ",
                   train_shards_.open_piece(), " records"),
               "data.source", "choose larger shards with data.shard_records"};
}

void Pass::share_stream() {
  const bool train_data = trains() || config_.eval_files.empty();
  if (config_.joining.in_order && train_data) table_.share(members_.inputs_live() > 0);
}

// ---- progress

void Pass::measure_piece(uint32_t shard, const wire::ShardCounts& counts) {
  if (!trains() || !open_stream()) return;
  if (!length_unknown_) bytes_total_ += counts.read - shard_bytes_[shard];
  shard_bytes_[shard] = counts.read;
}

void Pass::end_shard(uint32_t shard, const wire::ShardCounts& counts) {
  table_.end(shard, counts);
  if (trains()) {
    shard_batches_longest_ = std::max(shard_batches_longest_, counts.batches);
  } else {
    ++shards_ended_;
  }
}

void Pass::note_end(Turn& turn, uint32_t shard, const wire::ShardCounts& counts) {
  if (!length_unknown_ || counts.end_offset != plan::kOpenEnd) return;
  length_unknown_ = false;
  std::fill(shard_bytes_.begin() + shard + 1, shard_bytes_.end(), 0);
  bytes_total_ = std::accumulate(shard_bytes_.begin(), shard_bytes_.end(), uint64_t{0});
  turn.log(turn.event("end_found").add("epoch", table_.epoch()).add("shard", shard));
}

/// The steps are the smallest sum over the partitions' ended shards, plus the common batches of the
/// lacking shards. This is an estimate, because a lacking shard may have ended at some of them.
void Pass::take_steps(const RoundOutcome& outcome) {
  epoch_steps_ = UINT64_MAX;
  for (const wire::PartitionStatus& status : outcome.partitions)
    epoch_steps_ = std::min<uint64_t>(epoch_steps_, status.counts.batches);
  if (outcome.partitions.empty()) epoch_steps_ = 0;
  for (const LackingShard& shard : outcome.lacking) epoch_steps_ += shard.first_batch;
  epoch_acked_ = table_.batches_acked();
}

void Pass::advance(const Turn& turn, Incarnation worker, uint32_t shard, uint64_t bytes_done) {
  const Holder* holder = table_.holder(shard, worker);
  if (holder == nullptr) return;
  const uint64_t bytes = std::min(bytes_done, bytes_of(shard));
  if (bytes > holder->bytes_done) {
    paces_.advanced(turn.now_ns(), worker, bytes - holder->bytes_done);
  }
}

void Pass::note_idle(const Turn& turn, Incarnation worker) {
  if (table_.held_count(worker) == 0) paces_.idle(turn.now_ns(), worker);
}

// ---- the data

EpochExtent Pass::extent_of(uint32_t epoch, const std::vector<EpochAccount>& accounts) const {
  if (!open_stream()) return {.shards = train_shards()};
  if (trains() && table_.epoch() == epoch)
    return {.shards = table_.shard_count(), .open = true, .length_unknown = length_unknown_};
  for (const EpochAccount& account : accounts) {
    if (account.epoch == epoch)
      return {
          .shards = account.shards + account.shards_left, .open = true, .length_unknown = false};
  }
  return {.shards = 0, .open = true, .length_unknown = true};
}

std::vector<plan::ShardRange> Pass::ranges_of(uint32_t shard) const {
  if (trains()) return train_shards_.at(table_.epoch(), shard);
  return {eval_ranges_[shard]};
}

std::string Pass::range_text(uint32_t shard) const {
  const bool eval = !trains() && !config_.eval_files.empty();
  return plan::text_of(ranges_of(shard), eval ? config_.eval_files : config_.train_files);
}

std::string Pass::train_range_text(ShardId shard) const {
  if (shard.shard >= train_shards()) return {};
  return plan::text_of(train_shards_.at(shard.epoch, shard.shard), config_.train_files);
}

std::vector<uint64_t> Pass::unread_bytes(uint32_t epoch) const {
  if (!train_shards_.mixes()) return {};
  const SourceSpec& source = config_.job.data.source;
  std::vector<uint64_t> bytes(source.parts.size());
  for (const uint32_t index : train_shards_.unread(epoch)) {
    const plan::ShardRange& range = train_shards_.ranges()[index];
    bytes[source.part_of(range.file)] += range.end - range.begin;
  }
  return bytes;
}

Result<wire::ShardCounts> Pass::settle(uint32_t epoch, const RoundOutcome& outcome) const {
  DP_TRY(const wire::ShardCounts counts, check_account(outcome.partitions));
  std::vector<const wire::ShardCounts*> by_shard(table_.shard_count());
  for (uint32_t shard = 0; shard < table_.shard_count(); ++shard) {
    const ShardEntry& entry = table_.entry(shard);
    if (entry.has_counts) by_shard[shard] = &entry.counts;
  }
  DP_TRY_VOID(check_tiles(config_.train_files, train_shards_, epoch, by_shard));
  const uint64_t limit = config_.job.data.bad_records_max;
  if (limit > 0 && counts.skipped > limit) {
    return Error{ErrorCode::kBadData,
                 str(counts.skipped, " bad records, more than data.bad_records_max = ", limit)};
  }
  return counts;
}

uint64_t Pass::skipped_so_far() const {
  uint64_t skipped = 0;
  for (uint32_t shard = 0; shard < table_.shard_count(); ++shard)
    skipped += table_.entry(shard).counts.skipped;
  return skipped;
}

Result<void> Pass::check_stream(uint32_t shard) const {
  if (!config_.joining.in_order || !trains()) return {};
  for (uint32_t at = std::max(shard, 1U); at <= shard + 1 && at < table_.shard_count(); ++at) {
    const ShardEntry &before = table_.entry(at - 1), &after = table_.entry(at);
    if (!before.has_counts || !after.has_counts ||
        before.counts.end_offset == after.counts.first_offset) {
      continue;
    }
    defended(Defence::kChiefNotReplayable);
    return Error{ErrorCode::kBadData,
                 str("the input is not replayable: a second read of the source returned different "
                     "records before shard ",
                     at),
                 range_text(at),
                 "with replay = \"epoch\", a program must write the same records for the same "
                 "DOWNPOUR_SEED and DOWNPOUR_EPOCH; a file must not change"};
  }
  return {};
}

// ---- train.steps

uint64_t Pass::steps_done(const StepBase& base) const {
  if (base.counted || !trains() || table_.epoch() != base.epoch) return base.steps;
  return base.steps + epoch_steps_ + table_.batches_acked() - epoch_acked_;
}

bool Pass::may_begin_shards(const StepBase& base) const {
  const uint64_t wanted = config_.job.train.steps;
  if (wanted == 0 || !trains()) return true;
  if (shard_batches_longest_ == 0 && table_.leased_count() > 0) return false;
  uint64_t steps = steps_done(base);
  for (const uint32_t shard : table_.leased()) {
    const uint64_t acked = table_.entry(shard).batches_acked;
    steps += shard_batches_longest_ - std::min<uint64_t>(shard_batches_longest_, acked);
  }
  return steps < wanted;
}

bool Pass::partial_epoch_is_read(const Turn& turn, const StepBase& base) const {
  const uint64_t wanted = config_.job.train.steps;
  if (wanted == 0 || table_.all_ended() || table_.leased_count() > 0) return false;
  const bool reached = config_.job.train.replicas ? table_.is_closed() : steps_done(base) >= wanted;
  if (!reached) return false;
  // A worker may hold a lease of an earlier chief and not have reported it yet. The images would
  // reveal that; the wait only avoids a checkpoint that must be repeated.
  if (earlier_leases_ && turn.now_ns() - turn.start_ns() < config_.lease_ns) return false;
  return !table_.begun_is_free();
}

void Pass::show(ProgressSnapshot& snapshot, const std::vector<EpochAccount>& accounts) const {
  snapshot.bytes_done = bytes_ended_;
  for (const uint32_t shard : table_.leased()) {
    snapshot.bytes_done += std::min(table_.entry(shard).bytes_done, bytes_of(shard));
  }
  snapshot.bytes_total = bytes_total_;
  if (length_unknown_ && !accounts.empty())  // estimate: as many as in the epoch before
    snapshot.bytes_total = std::max(accounts.back().input_bytes, snapshot.bytes_done);
  snapshot.shards_done = table_.ended_count();
  snapshot.shards_total = table_.shard_count();
  snapshot.shards_in_flight = table_.leased_count();
}

}  // namespace downpour::chief
