#include "shared/data/reading/batch_reader.h"

#include <algorithm>
#include <utility>

namespace downpour::data {
namespace {

constexpr size_t kRecordsAhead = 4;  // records prefetched during shuffled reading, where each
                                     // record is a jump in memory
// Records for which a batch has room at first. The columns of a larger batch double as needed: a
// share of an epoch is usually far shorter than it may be.
constexpr uint32_t kFirstRoom = 1 << 16;

/// Returns the shard that seeds the order of the records. It leaves out the epoch of an evaluation
/// with negatives, so that its batches and therefore its negatives are the same in each.
ShardId ordered_as(const ReadPlan& plan, Split split, ShardId shard) {
  const bool evaluates = !plan.training || split == Split::kHeldOut;
  if (evaluates && plan.data.negatives.given()) shard.epoch = 0;
  return shard;
}

uint32_t first_room(const ReadPlan& plan) { return std::min(plan.batch_size, kFirstRoom); }

}  // namespace

Fault fault_of(const RecordRef& record) {
  switch (record.size) {
    case RecordRef::kDamaged:
      return {.reason = "has a header with a wrong checksum",
              .hint = "copy or download the file again, or set data.bad_records = \"skip\""};
    case RecordRef::kDropped:
      return {};
    case RecordRef::kBadChecksum:
      return {.reason = "has a wrong checksum",
              .hint = "copy or download the file again, or set data.bad_records = \"skip\""};
    case RecordRef::kUnclosed:
      return {
          .reason = "has a quote that is not closed within 16 MiB, the maximum length of a record",
          .hint = "correct the line, or set data.bad_records = \"skip\""};
    case RecordRef::kCutShort:
      return {.reason = "is truncated: the file ends inside the record",
              .hint = "copy or download the file again, or set data.bad_records = \"skip\""};
    default:
      return {.reason = "is longer than the maximum (16 MiB for a line, 64 MiB for a TFRecord)",
              .hint = "check that data.format is the format of the file"};
  }
}

BatchReader::BatchReader(std::shared_ptr<const ReadPlan> plan, Split split, ShardId shard,
                         std::vector<OpenRange> ranges, std::unique_ptr<Scratch> scratch,
                         uint32_t first_batch, std::vector<uint32_t> quarantined_batches)
    : plan_(std::move(plan)),
      split_(split),
      shard_(shard),
      first_batch_(first_batch),
      quarantined_batches_(std::move(quarantined_batches)),
      flow_(*plan_, ordered_as(*plan_, split, shard), std::move(ranges), std::move(scratch)),
      random_(plan_->training && split != Split::kHeldOut && flow_.parser().finishes()) {}

BatchReader::~BatchReader() { flow_.close(*plan_->scratch); }

const ShardTotals& BatchReader::totals() const {
  DP_CHECK(ended_);
  return totals_;
}

void BatchReader::prefetch(const QueuedRecord& record) {
  if (record.ref.is_whole())
    flow_.parser_of(record).prefetch(flow_.text_of(record), record.ref.size);
}

Result<bool> BatchReader::next_run(Batch& batch, size_t max) {
  run_.clear();
  while (run_.empty()) {
    while (cursor_ == flow_.size()) {
      cursor_ = 0;
      DP_TRY(const bool more, flow_.next());  // the window may have no record of this stream
      if (!more) return false;
    }
    const size_t end = cursor_ + std::min(flow_.size() - cursor_, max);
    flow_.append(cursor_, end, run_);
    batch.counts.read += end - cursor_;
    cursor_ = end;
    if (split_ != Split::kAll) keep_own_split(batch);
  }
  for (const QueuedRecord& record : run_) {
    watched_in_batch_ |= is_watched(record);
    batch.first_record = std::min(batch.first_record, record.offset);
    batch.last_record = std::max(batch.last_record, record.offset);
  }
  return true;
}

/// Returns whether a record is held out of training. The name of its file decides, not the number
/// in the list, so that records stay on their side if files are added or removed.
bool BatchReader::is_held_out(const QueuedRecord& record) {
  if (plan_->holdout <= 0) return false;
  const uint32_t file = flow_.range_of(record).file;
  file_hashes_.resize(plan_->files.size());
  uint64_t& hash = file_hashes_[file];
  if (hash == 0) {
    // The name of a table in memory is a number of the process.
    const bool named = !is_memory(plan_->data.format);
    const std::string_view name = named ? plan_->files[file].name() : std::string_view();
    hash = hash_combine(0x686f6c646f7574ULL, hash_string(name));
  }
  return uniform_double(hash_combine(hash, record.offset)) < plan_->holdout;
}

void BatchReader::keep_own_split(Batch& batch) {
  const bool held_out = split_ == Split::kHeldOut;
  const auto is_others = [&](const QueuedRecord& record) {
    if (is_held_out(record) == held_out) return false;
    if (is_watched(record)) fate_ = RecordFate{RecordFate::Kind::kHeldOut};
    return true;
  };
  batch.counts.filtered += std::erase_if(run_, is_others);
}

Result<std::optional<BatchReader::Found>> BatchReader::next_record() {
  Batch counts;
  DP_TRY(const bool more, next_run(counts, 1));
  if (!more) return std::optional<Found>();
  const QueuedRecord& record = run_.front();
  return std::optional(
      Found{flow_.range_of(record).file, record.ref, record.offset, flow_.text_of(record)});
}

Result<void> BatchReader::pass_over(Batch& batch) {
  while (batch.records < plan_->batch_size) {
    DP_TRY(const bool more, next_run(batch, plan_->batch_size - batch.records));
    if (!more) break;
    batch.records += uint32_t(run_.size());
  }
  return {};
}

/// Returns the seed of random ops. It is the same for a record of an epoch in every process.
uint64_t BatchReader::random_of(const QueuedRecord& record) const {
  const plan::ShardRange& range = flow_.range_of(record);
  const uint64_t seed =
      hash_combine(hash_combine(0x72616e646f6d00ULL, plan_->seed), shard_.epoch) +
      (plan_->source.is_program() ? range.begin : 0);  // a program's output starts at byte 0 in
                                                       // each range
  return hash_combine(hash_combine(seed, range.file), record.offset) | 1;
}

Result<void> BatchReader::fill(Batch& batch) {
  std::vector<KeyBuffer>& keys = flow_.scratch().keys;
  Columns columns{.floats = &batch.floats, .keys = &keys};
  uint32_t room = first_room(*plan_);
  while (batch.records < plan_->batch_size) {
    if (batch.records == room) {
      room = std::min(2 * room, plan_->batch_size);
      grow_columns(room, flow_.scratch(), batch);
    }
    DP_TRY(const bool more, next_run(batch, room - batch.records));
    if (!more) break;
    size_t taken = 0;
    if (flow_.takes_runs() && !flow_.parser().finishes() && watched_ == UINT64_MAX) {
      columns.record = batch.records;
      taken = flow_.parser().parse_run(run_, columns, batch.records_hash);
      batch.records += uint32_t(taken);
    }
    for (; taken < run_.size(); ++taken) {
      if (flow_.shuffles() && taken + kRecordsAhead < run_.size())
        prefetch(run_[taken + kRecordsAhead]);
      DP_TRY_VOID(take(batch, columns, run_[taken]));
    }
  }
  return {};
}

Result<void> BatchReader::take(Batch& batch, Columns& columns, const QueuedRecord& record) {
  RecordParser& parser = flow_.parser_of(record);
  Fault fault;
  columns.record = batch.records;
  if (random_) columns.random = random_of(record);
  const char* const begin = flow_.text_of(record);
  const char* const end = begin + record.ref.size;
  const bool whole = record.ref.is_whole();
  if (!whole) fault = fault_of(record.ref);
  if (whole && parser.parse(begin, end, record.offset, columns, fault) &&
      parser.finish(columns, fault)) {
    if (!too_many_keys(*columns.keys)) [[likely]] {
      batch.records_hash += hash_combine(parser.hash(begin, end), record.offset);
      ++batch.records;
      return {};
    }
    fault = {.reason = "brings its batch above the maximum of 67 million keys",
             .hint =
                 "choose a smaller train.batch_size, or in local training a smaller "
                 "train.sync_every"};
  }
  if (fault.reason != nullptr) return skip_or_fail(fault, record, batch);
  ++batch.counts.filtered;
  watched_in_batch_ &= !is_watched(record);
  if (is_watched(record)) fate_ = RecordFate{RecordFate::Kind::kFiltered};
  return {};
}

Result<void> BatchReader::skip_or_fail(const Fault& fault, const QueuedRecord& record,
                                       Batch& batch) {
  const uint64_t skipped = totals_.counts.skipped + batch.counts.skipped + 1;
  const bool unknown = fault.unknown_label && plan_->skips_unknown_labels && !plan_->training;
  const bool skip = plan_->data.bad_records == BadRecords::kSkip;
  if (unknown ||
      (skip && (plan_->data.bad_records_max == 0 || skipped <= plan_->data.bad_records_max))) {
    ++batch.counts.skipped;
    if (is_watched(record)) fate_ = RecordFate{RecordFate::Kind::kSkipped};
    for (KeyBuffer& buffer : flow_.scratch().keys) {  // keys that the record left before its fault
      buffer.count = buffer.offsets.empty() ? batch.records : buffer.offsets[batch.records];
    }
    return {};
  }
  if (!skip) failed_batch_ = totals_.batches;  // otherwise the limit bad_records_max is exceeded
  Error error = bad_record_error(fault, flow_.locate(record));
  if (plan_->targets_optional)
    error.hint = "correct or remove the record: each record gets a prediction";
  if (skip)
    error.what +=
        str(" (this exceeds bad_records_max = ", plan_->data.bad_records_max, " within one shard)");
  return error;
}

void BatchReader::end() {
  ended_ = true;
  flow_.extent(totals_.first_offset, totals_.end_offset);
  totals_.bytes = flow_.progress();
}

Result<bool> BatchReader::next(Batch& batch) {
  DP_CHECK(!failed_);
  while (!ended_) {
    if (plan_->batches_max > 0 && totals_.batches == plan_->batches_max) {
      end();
      return false;
    }
    begin_columns(plan_->layout, flow_.parser(), first_room(*plan_), flow_.scratch(), batch);
    const bool quarantined = std::binary_search(quarantined_batches_.begin(),
                                                quarantined_batches_.end(), totals_.batches);
    Result<void> filled = quarantined ? pass_over(batch) : fill(batch);
    // A record may only seem bad because its bytes could not be read.
    if (Result<void> whole = flow_.check(); !whole) {
      failed_batch_.reset();
      filled = std::move(whole);
    }
    if (!filled) {
      failed_ = true;
      return std::move(filled).error();
    }
    const bool full = batch.records == plan_->batch_size;
    const bool drops = plan_->drop_remainder && split_ != Split::kHeldOut;
    const bool given = batch.records > 0 && (full || !drops);
    if (!given) {
      batch.counts.dropped = batch.records;
    } else if (quarantined) {
      batch.counts.quarantined = std::exchange(batch.records, 0);
      batch.quarantined = true;
    }
    if (watched_in_batch_ && !fate_) {
      fate_ = RecordFate{!given        ? RecordFate::Kind::kDropped
                         : quarantined ? RecordFate::Kind::kQuarantined
                                       : RecordFate::Kind::kBatch,
                         totals_.batches};
    }
    ReadCounts& all = totals_.counts;
    all.read += batch.counts.read;
    all.filtered += batch.counts.filtered;
    all.skipped += batch.counts.skipped;
    all.dropped += batch.counts.dropped;
    all.quarantined += batch.counts.quarantined;
    if (!full) end();
    if (!given) return false;
    totals_.records_hash += batch.records_hash;
    batch.id = {.epoch = shard_.epoch, .shard = shard_.shard, .batch = totals_.batches++};
    batch.end_offset = flow_.progress(cursor_);
    if (batch.id.batch < first_batch_) continue;
    if (!quarantined) finish_columns(plan_->layout, flow_.parser(), flow_.scratch(), batch);
    return true;
  }
  return false;
}

}  // namespace downpour::data
