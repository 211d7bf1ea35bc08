#include "shared/data/reading/record_flow.h"

#include <algorithm>
#include <utility>

#include "shared/base/hash.h"

namespace downpour::data {

RecordFlow::RecordFlow(const ReadPlan& plan, ShardId shard, std::vector<OpenRange> ranges,
                       std::unique_ptr<Scratch> scratch)
    : plan_(plan),
      shard_(shard),
      shuffle_(plan.data.shuffle != "off"),
      limit_(plan.data.shuffle_records() > 0 ? plan.data.shuffle_records() : UINT64_MAX),
      mixes_(plan.source.is_mix() && ranges.size() > 1),
      single_(ranges.size() == 1 && limit_ == UINT64_MAX),
      rng_(hash_combine(hash_combine(hash_combine(0x6d6978ULL, plan.seed), shard.epoch),
                        shard.shard)),
      scratch_(std::move(scratch)),
      left_(mixes_ ? 0 : plan.data.interleave.block) {
  DP_CHECK(!ranges.empty());
  for (OpenRange& range : ranges) {
    uint64_t share = 0;
    if (mixes_) {
      const SourcePart& part = plan.source.parts[plan.source.part_of(range.range.file)];
      const uint64_t bytes = range.range.end - range.range.begin;
      share = std::max<uint64_t>(bytes / std::max<uint64_t>(part.record_bytes, 1), 1);
    }
    ranges_.push_back({.open = std::move(range), .share = share});
  }
}

Result<bool> RecordFlow::next() {
  size_ = 0;
  begin_progress_ = progress();
  if (single_) {
    Range& only = ranges_[0];
    if (only.ended) return false;
    DP_TRY_VOID(load(only));
    if (only.ended) return false;
    size_ = only.taken = only.window.records->size();
    end_progress_ = progress();
    if (shuffle_) shuffle_window(*only.window.records, plan_.seed, shard_, windows_);
  } else {
    DP_TRY_VOID(gather());
    size_ = scratch_->taken.size();
    if (size_ == 0) return false;
    end_progress_ = progress();
    if (shuffle_) shuffle_window(scratch_->taken, plan_.seed, shard_, windows_);
  }
  ++windows_;
  return true;
}

void RecordFlow::append(size_t begin, size_t end, std::vector<QueuedRecord>& to) const {
  const size_t before = to.size();
  to.resize(before + (end - begin));
  for (size_t i = begin; i < end; ++i) {
    const RangeRecord taken =
        single_ ? RangeRecord{(*ranges_[0].window.records)[i], 0} : scratch_->taken[i];
    to[before + (i - begin)] = {taken.ref, taken.range,
                                ranges_[taken.range].window.offset_of(taken.ref)};
  }
}

Result<void> RecordFlow::check() {
  for (Range& range : ranges_) DP_TRY_VOID(range.open.source->check());
  return {};
}

Result<void> RecordFlow::gather() {
  scratch_->taken.clear();
  active_ = 0;
  shares_ = 0;
  for (Range& range : ranges_) {
    range.in_use = range.resting = false;
    active_ += range.ended ? 0 : 1;
    shares_ += range.ended ? 0 : range.share;
  }
  while (active_ > 0 && scratch_->taken.size() < limit_) {
    Range& range = ranges_[turn_];
    if (range.ended || range.resting || left_ == 0) {
      pass_turn();
      continue;
    }
    const size_t records = range.window.records == nullptr ? 0 : range.window.records->size();
    if (range.taken == records) {
      if (!range.in_use) {
        DP_TRY_VOID(load(range));
        if (range.ended) rest(range);
        continue;
      }
      // The next window of the range can't be loaded yet, because its text must stay in memory
      // until the records taken from it are read. If the order of turns matters, the flow's window
      // ends here. Otherwise the range rests, and the other ranges continue.
      if (!range.open.source->at_end() && (!shuffle_ || mixes_)) return {};
      rest(range);
      continue;
    }
    const uint64_t room =
        std::min<uint64_t>(limit_ - scratch_->taken.size(), records - range.taken);
    const uint64_t count = ranges_.size() == 1 ? room : std::min(room, left_);
    take(range, size_t(count));
    left_ -= std::min(left_, count);
  }
  return {};
}

void RecordFlow::rest(Range& range) {
  range.resting = true;
  --active_;
  shares_ -= range.share;
}

Result<void> RecordFlow::load(Range& range) {
  range.taken = 0;
  DP_TRY(const bool more, range.open.source->next(range.window));
  range.ended = !more;
  return {};
}

void RecordFlow::take(Range& range, size_t count) {
  const auto index = uint32_t(&range - ranges_.data());
  const auto begin = range.window.records->begin() + ptrdiff_t(range.taken);
  for (auto at = begin; at != begin + ptrdiff_t(count); ++at)
    scratch_->taken.push_back({*at, index});
  range.taken += count;
  range.in_use = true;
}

void RecordFlow::pass_turn() {
  if (mixes_) return draw_turn();
  turn_ = (turn_ + 1) % ranges_.size();
  left_ = plan_.data.interleave.block;
}

/// Draws the range of the next turn among those that take turns. The turn has one record.
void RecordFlow::draw_turn() {
  uint64_t at = rng_.below(shares_);
  left_ = 1;
  for (turn_ = 0;; ++turn_) {
    const Range& range = ranges_[turn_];
    if (range.ended || range.resting) continue;
    if (at < range.share) return;
    at -= range.share;
  }
}

uint64_t RecordFlow::progress() const {
  uint64_t bytes = 0;
  for (const Range& range : ranges_) {
    if (range.window.records == nullptr) continue;
    const Window& w = range.window;
    const size_t records = std::max<size_t>(w.records->size(), 1);
    bytes += range.ended
                 ? w.end_progress
                 : w.begin_progress + (w.end_progress - w.begin_progress) * range.taken / records;
  }
  return bytes;
}

uint64_t RecordFlow::progress(size_t count) const {
  return begin_progress_ + (end_progress_ - begin_progress_) * count / std::max<size_t>(size_, 1);
}

void RecordFlow::extent(uint64_t& first_offset, uint64_t& end_offset) const {
  if (ranges_.size() == 1 && plan_.data.interleave.cycle == 1 && plan_.shares == 0) {
    first_offset = ranges_[0].open.source->first_offset();
    end_offset = ranges_[0].open.source->end_offset();
    return;
  }
  first_offset = end_offset = 0;
  for (const Range& range : ranges_) {
    const plan::ShardRange& r = range.open.range;
    const uint64_t first = range.open.source->first_offset(), end = range.open.source->end_offset();
    // Skip ranges in which no record begins, and whole files.
    if (first >= end || !plan_.files[r.file].is_cut()) continue;
    first_offset += plan::offset_hash(r.file, r.stream, first);
    end_offset += plan::offset_hash(r.file, r.stream, end);
  }
}

void RecordFlow::close(ScratchPool& pool) {
  for (Range& range : ranges_) range.open.source.reset();
  pool.give_back(std::move(scratch_));
}

}  // namespace downpour::data
