// ChiefCore: epochs, completion rounds, evaluation, prediction.
#include <algorithm>
#include <numeric>

#include "chief/core/account.h"
#include "chief/core/chief_core.h"
#include "chief/core/ps_cores.h"

namespace downpour::chief {

// ---- passes

void ChiefCore::begin_work(Turn& turn) {
  checkpoints_.start(turn, steps());
  if (config_.mode == wire::Purpose::kEval) return begin_evaluation(turn);
  if (config_.mode == wire::Purpose::kPredict) return begin_prediction(turn);
  if (stop_signal_ != 0) {  // the partitions hold batches of an earlier chief's leases
    enter(turn, Phase::kSaving);
    return want_save(turn);
  }
  if (history_.trained()) return begin_evaluation(turn);
  // Partitions from a checkpoint or an earlier chief may hold part of the epoch, so ask them first.
  begin_epoch(turn, claimed_ || !checkpoints_.newest().images.empty());
}

void ChiefCore::open_pass(Turn& turn, const wire::Lease& pattern) {
  attempts_repeated_ += table_.attempts_repeated();
  backups_ += table_.backups();
  paces_ = {};
  steps_before_ = steps();
  const bool train = pattern.purpose == wire::Purpose::kTrain;
  length_unknown_ = train && train_shards_.open_piece() > 0;
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
  if (train && !config_.streams.shared()) {
    table_.split(config_.streams.count, stream_of);
  }
  extend_open_pass(turn);
  share_stream();
}

/// Appends shards to a pass over an open stream.
void ChiefCore::add_shards(uint32_t count) {
  shard_bytes_.resize(shard_bytes_.size() + count,
                      length_unknown_ ? train_shards_.open_piece() : 0);
  table_.grow(count);
}

/// Keeps enough free shards in a pass over an open stream, until a worker reports the end of the
/// stream. There is always at least one, so the epoch cannot be complete before.
void ChiefCore::extend_open_pass(Turn& turn) {
  constexpr uint32_t kPiecesAhead = 4;  // per worker
  if (!length_unknown_) return;
  const uint32_t wanted = kPiecesAhead * std::max(1U, members_.workers_live());
  if (table_.free_count() >= wanted) return;
  const uint32_t count = wanted - table_.free_count();
  if (count <= train_shards() - table_.shard_count()) return add_shards(count);
  fail(turn, Error{ErrorCode::kUnsupported,
                   str("an epoch of the program has more than ", train_shards(), " pieces of ",
                       train_shards_.open_piece(), " records"),
                   "data.source", "choose larger ones with data.shard_records"});
}

/// Records the end of an open stream, if this shard reports it. Shards after it are still leased,
/// and have no records.
void ChiefCore::note_end(Turn& turn, uint32_t shard, const wire::ShardCounts& counts) {
  if (!length_unknown_ || counts.end_offset != plan::kOpenEnd) return;
  length_unknown_ = false;
  std::fill(shard_bytes_.begin() + shard + 1, shard_bytes_.end(), 0);
  bytes_total_ = std::accumulate(shard_bytes_.begin(), shard_bytes_.end(), uint64_t{0});
  turn.log(turn.event("end_found").add("epoch", table_.epoch()).add("shard", shard));
}

EpochExtent ChiefCore::extent_of(uint32_t epoch) const {
  const bool open = train_shards_.open_piece() > 0;
  if (!open) return {.shards = train_shards()};
  if (table_.purpose() == wire::Purpose::kTrain && table_.epoch() == epoch)
    return {.shards = table_.shard_count(), .open = true, .length_unknown = length_unknown_};
  for (const EpochAccount& account : history_.accounts()) {
    if (account.epoch == epoch)
      return {
          .shards = account.shards + account.shards_left, .open = true, .length_unknown = false};
  }
  return {.shards = 0, .open = true, .length_unknown = true};
}

/// Shares a stream among all workers if there is an input process. Without one each worker would
/// have to read the whole stream, so one worker at a time reads it.
void ChiefCore::share_stream() {
  const bool train = table_.purpose() == wire::Purpose::kTrain;
  if (!config_.joining.in_order || !(train || !eval_from_files_)) return;
  table_.share(members_.inputs_live() > 0);
}

/// Returns the batches that all partitions have acknowledged in this run: a hint for the schedule.
uint64_t ChiefCore::steps() const {
  return steps_before_ + (table_.purpose() == wire::Purpose::kTrain ? table_.batches_acked() : 0);
}

void ChiefCore::begin_epoch(Turn& turn, bool reconcile) {
  open_epoch(turn);
  if (!reconcile) return enter(turn, Phase::kTraining);
  reconciled_phase_ = Phase::kTraining;
  reconcile_epoch_ = history_.epoch();
  enter(turn, Phase::kReconciling);
  begin_round(turn);
}

void ChiefCore::open_epoch(Turn& turn) {
  history_.begin_epoch();
  report_.begin_epoch(turn);
  rounds_.forget_void();
  open_pass(turn, {.purpose = wire::Purpose::kTrain,
                   .shard = {history_.epoch(), 0},
                   .plan_hash = config_.plan_hash});
  turn.log(turn.event("epoch")
               .add("epoch", history_.epoch())
               .add("shards", table_.shard_count())
               .add("bytes", bytes_total_));
}

std::vector<plan::ShardRange> ChiefCore::ranges_of(uint32_t shard) const {
  if (table_.purpose() == wire::Purpose::kTrain) return train_shards_.at(table_.epoch(), shard);
  return {eval_ranges_[shard]};
}

/// Returns the range of the shard, in words.
std::string ChiefCore::range_text(uint32_t shard) const {
  const bool eval = table_.purpose() != wire::Purpose::kTrain && eval_from_files_;
  return plan::text_of(ranges_of(shard), eval ? config_.eval_files : config_.train_files);
}

// ---- the end of a pass

void ChiefCore::check_pass_end(Turn& turn) {
  if (!table_.all_ended() && !(phase_ == Phase::kTraining && partial_epoch_is_read(turn))) return;
  if (phase_ == Phase::kTraining) {
    enter(turn, Phase::kCompleting);
    begin_round(turn);
  } else if (phase_ == Phase::kEvaluating) {
    end_evaluation(turn);
  } else if (phase_ == Phase::kPredicting) {
    begin_stop(turn, 0, {});
  }
}

// ---- completion

void ChiefCore::begin_round(Turn& turn) {
  rounds_.cancel_repeat();
  if (!settled()) return;  // begins when every partition has an owner again
  const uint32_t epoch = phase_ == Phase::kReconciling ? reconcile_epoch_ : history_.epoch();
  rounds_.begin(turn, epoch, extent_of(epoch), ownership_.view());
  quarantine_.begin_round();
  const auto request = rounds_.current().request(quarantine_.markers(), quarantine_.known());
  for_each_owner(members_, ownership_.view(),
                 [&](uint32_t, const Member& member) { turn.ask(member, request); });
}

void ChiefCore::on_status(Turn& turn, Member& member, wire::StatusReply&& reply) {
  const auto owner = ownership_.owner_number(ps_key(member));
  if (!owner || rounds_.waits() || (phase_ != Phase::kReconciling && phase_ != Phase::kCompleting))
    return;
  std::string why;
  switch (rounds_.current().take(*owner, std::move(reply), why)) {
    case CompletionRound::Verdict::kIgnored:
      return;
    case CompletionRound::Verdict::kFailed:
      return fail(turn, Error{ErrorCode::kBadData, str(member.name(), ": ", why)});
    case CompletionRound::Verdict::kVoid:
      turn.send(member, ownership_.view());  // it may have missed the view
      return void_round(turn, str(member.name(), ": ", why));
    case CompletionRound::Verdict::kTaken:
      break;
  }
  turn.outbox().answered(member);
  if (rounds_.current().all_in()) end_round(turn);
}

void ChiefCore::void_round(Turn& turn, const std::string& why) {
  if (rounds_.repeat(turn, why)) return;
  fail(turn, Error{ErrorCode::kPeersLost,
                   str("epoch ", history_.epoch(), " cannot be completed: ", why)});
}

void ChiefCore::end_round(Turn& turn) {
  Result<RoundOutcome> outcome = rounds_.current().judge();
  if (!outcome) return fail(turn, std::move(outcome).error());
  rounds_.forget_void();
  // A ps that has missed Sealed still has the markers of sealed epochs.
  std::erase_if(outcome->markers, [&](const auto& l) { return l.batch.epoch < history_.sealed(); });
  decide_markers(turn, *outcome);
  if (ending()) return;
  if (quarantine_.wants_round()) return begin_round(turn);
  if (phase_ == Phase::kReconciling) return end_reconcile(turn, *outcome);
  if (outcome->lacking.empty() || history_.ends_with(*outcome))
    return complete_epoch(turn, *outcome);
  take_lacking(turn, *outcome);
  if (ending()) return;
  // If the job may end inside the epoch, shards that were not begun need not be leased.
  const bool all = config_.job.train.steps == 0;
  const auto again = std::count_if(outcome->lacking.begin(), outcome->lacking.end(),
                                   [&](const LackingShard& shard) { return all || shard.begun; });
  if (again > 0) {
    turn.notice(NoticeLevel::kWarning,
                str("of epoch ", history_.epoch(), " ", again, " of ", table_.shard_count(),
                    " shards are not whole at every partition: leased again"));
  }
  enter(turn, Phase::kTraining);
}

/// Returns the account of the epoch, or the error that forbids it.
Result<wire::ShardCounts> ChiefCore::settle(const RoundOutcome& outcome) const {
  DP_TRY(const wire::ShardCounts counts, check_account(outcome.partitions));
  std::vector<const wire::ShardCounts*> by_shard(table_.shard_count());
  for (uint32_t shard = 0; shard < table_.shard_count(); ++shard) {
    const ShardEntry& entry = table_.entry(shard);
    if (entry.has_counts) by_shard[shard] = &entry.counts;
  }
  DP_TRY_VOID(check_tiles(config_.train_files, train_shards_, history_.epoch(), by_shard));
  const uint64_t limit = config_.job.data.bad_records_max;
  if (limit > 0 && counts.skipped > limit) {
    return Error{ErrorCode::kBadData,
                 str(counts.skipped, " bad records, more than data.bad_records_max = ", limit)};
  }
  return counts;
}

/// Returns, for a weighted mix, the bytes of each source that no shard of the epoch has.
std::vector<uint64_t> ChiefCore::unread_bytes() const {
  if (!train_shards_.mixes()) return {};
  const SourceSpec& source = config_.job.data.source;
  std::vector<uint64_t> bytes(source.parts.size());
  for (const uint32_t index : train_shards_.unread(history_.epoch())) {
    const plan::ShardRange& range = train_shards_.ranges()[index];
    bytes[source.part_of(range.file)] += range.end - range.begin;
  }
  return bytes;
}

namespace {

/// Returns "3-7,9-10" for [3, 7) and [9, 10); empty if there are too many intervals for a line.
std::string left_text(const std::vector<LackingShard>& left) {
  constexpr size_t kPiecesMax = 256;
  std::string text;
  size_t pieces = 0;
  for (size_t i = 0, begin = 0; i < left.size(); ++i) {
    if (i + 1 < left.size() && left[i + 1].shard == left[i].shard + 1) continue;
    if (++pieces > kPiecesMax) return {};
    text += str(text.empty() ? "" : ",", left[begin].shard, '-', left[i].shard + 1);
    begin = i + 1;
  }
  return text;
}

/// Returns the error for a job that wants a number of steps and whose data have no batch.
Error no_batch(const wire::ShardCounts& counts) {
  return Error{ErrorCode::kNoInput,
               str("a whole epoch has no batch to train on: ", account_text(counts)), "train.steps",
               "look at what data.filter leaves; with drop_remainder a shard needs "
               "train.batch_size records"};
}

}  // namespace

void ChiefCore::complete_epoch(Turn& turn, const RoundOutcome& outcome) {
  Result<wire::ShardCounts> counts = settle(outcome);
  if (!counts)
    return fail(turn, std::move(counts).error().with_context("epoch ", history_.epoch()));
  if (config_.job.train.steps > 0 && counts->batches == 0) return fail(turn, no_batch(*counts));
  report_.note_trained(turn);
  const bool partial = !outcome.lacking.empty();
  const bool open = train_shards_.open_piece() > 0;
  EpochAccount account{.epoch = history_.epoch(),
                       .shards = outcome.shards - uint32_t(outcome.lacking.size()),
                       .shards_left = uint32_t(outcome.lacking.size()),
                       .input_bytes = open      ? counts->read
                                      : partial ? bytes_ended_
                                                : bytes_total_,
                       .unread_bytes = unread_bytes(),
                       .counts = *counts,
                       .metrics = outcome.metrics,
                       .attempts_repeated = table_.attempts_repeated()};
  report_.measure_epoch(turn, account);
  JsonLine line = turn.event("complete")
                      .add("epoch", history_.epoch())
                      .add("round", rounds_.number())
                      .add("shards_left", account.shards_left)
                      .add("read", counts->read)
                      .add("applied", counts->applied)
                      .add("filtered", counts->filtered)
                      .add("skipped", counts->skipped)
                      .add("dropped", counts->dropped)
                      .add("quarantined", counts->quarantined)
                      .add("batches", counts->batches)
                      .add("had_it", account.duplicate_parts)
                      .add("gaps", account.gaps);
  if (partial) line.add("left", left_text(outcome.lacking));
  turn.log(line);
  history_.add(account, partial);
  turn.emit(EpochDone{std::move(account), report_.take_observed()});
  if (evaluates(config_)) return begin_evaluation(turn);
  end_epoch(turn);
}

/// Ends an epoch that is complete and evaluated: requests a checkpoint that seals it, and begins
/// the next epoch.
void ChiefCore::end_epoch(Turn& turn) {
  checkpoints_.want();
  next_epoch(turn);
  check_save(turn);
}

void ChiefCore::next_epoch(Turn& turn) {
  if (history_.trained() || checkpoints_.waits_for_best() ||
      history_.complete() - history_.sealed() >= config_.unsealed_epochs_max) {
    return enter(turn, Phase::kSaving);  // after_save() continues
  }
  history_.advance();
  begin_epoch(turn, claimed_ || history_.epoch() < history_.begun());
}

// ---- evaluation and prediction

void ChiefCore::begin_evaluation(Turn& turn) {
  const uint32_t id = history_.next_evaluation();
  const uint32_t trained =
      config_.mode == wire::Purpose::kTrain ? history_.epochs_trained() : history_.sealed();
  evaluation_ = EvaluationRun(id, trained, turn.now_ns());
  enter(turn, Phase::kEvaluating);
  open_pass(turn, {.purpose = wire::Purpose::kEval,
                   .shard = {history_.epoch(), 0},
                   .plan_hash = config_.plan_hash,
                   .evaluation = id});
  turn.log(turn.event("evaluation")
               .add("evaluation", id)
               .add("epochs", trained)
               .add("shards", table_.shard_count()));
}

void ChiefCore::on_eval_report(Turn& turn, Member& member, wire::EvalReport&& report) {
  // Reports also count during a reconciliation: if the epoch proves complete, they are valid.
  if (!working() || !table_.covers(report.lease)) return;
  const uint32_t shard = report.lease.shard.shard;
  if (table_.entry(shard).state == ShardState::kEnded) return;  // the first report counts
  // A shard without a record to evaluate (all filtered, or none held out) has no outputs.
  const bool nothing = report.counts.applied == 0 && report.outputs.empty();
  if (!nothing && report.outputs.size() != config_.job.model.outputs.size()) {
    if (!table_.holds(member.incarnation(), report.lease)) return;
    return count_failure(turn, member,
                         Error{ErrorCode::kMalformed,
                               str("it reported ", report.outputs.size(),
                                   " outputs, the model has ", config_.job.model.outputs.size())},
                         shard, 0);
  }
  const wire::ShardCounts counts = report.counts;
  evaluation_.take(shard, std::move(report));
  end_shard(turn, member, shard, counts);
}

void ChiefCore::end_evaluation(Turn& turn) {
  Evaluation evaluation = evaluation_.finish(turn.now_ns());
  turn.log(turn.event("evaluated")
               .add("evaluation", evaluation.id)
               .add("epochs", evaluation.epochs_trained)
               .add("read", evaluation.counts.read)
               .add("applied", evaluation.counts.applied));
  history_.add(evaluation);
  turn.emit(EvalDone{std::move(evaluation)});
  if (config_.mode == wire::Purpose::kEval) return begin_stop(turn, 0, {});
  end_epoch(turn);
}

void ChiefCore::begin_prediction(Turn& turn) {
  enter(turn, Phase::kPredicting);
  open_pass(turn, {.purpose = wire::Purpose::kPredict,
                   .shard = {history_.epoch(), 0},
                   .plan_hash = config_.plan_hash});
  turn.log(turn.event("prediction").add("shards", table_.shard_count()));
}

void ChiefCore::on_predict_report(Turn& turn, Member& member, wire::PredictReport&& report,
                                  Bytes&& values) {
  if (phase_ != Phase::kPredicting || !table_.covers(report.lease)) return;
  if (!table_.holds(member.incarnation(), report.lease))
    return turn.send(member, wire::LeaseRevoked{report.lease});
  const uint32_t shard = report.lease.shard.shard;
  table_.renew(turn.now_ns(), shard, member.incarnation(), report.batch + 1, 0);
  switch (prediction_.take(report, std::move(values))) {
    case PredictionRun::Verdict::kKept:
    case PredictionRun::Verdict::kRepeated:
      return;
    case PredictionRun::Verdict::kBroken:
      // A report was lost, so the shard starts again.
      return revoke(turn, shard, member.incarnation());
    case PredictionRun::Verdict::kWhole:
      break;
  }
  for (PredictionBatch& batch : prediction_.next_in_order()) turn.emit(std::move(batch));
  end_shard(turn, member, shard, report.counts);
}

}  // namespace downpour::chief
