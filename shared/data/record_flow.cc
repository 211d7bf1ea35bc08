#include "shared/data/record_flow.h"

#include <algorithm>
#include <utility>

#include "shared/base/hash.h"
#include "shared/data/batch_reader.h"

namespace downpour::data {

RecordFlow::RecordFlow(const ReadPlan& plan, ShardId shard, std::vector<OpenRange> ranges)
    : plan_(plan),
      shard_(shard),
      shuffle_(plan.data.shuffle != "off"),
      limit_(plan.data.shuffle_records() > 0 ? plan.data.shuffle_records() : UINT64_MAX),
      mixes_(plan.source.is_mix() && ranges.size() > 1),
      rng_(hash_combine(hash_combine(hash_combine(0x6d6978ULL, plan.seed), shard.epoch),
                        shard.shard)),
      left_(mixes_ ? 0 : plan.data.interleave.block) {
  DP_CHECK(!ranges.empty());
  for (OpenRange& range : ranges) {
    const uint64_t number = range.range.records_before;
    double share = 0;
    if (mixes_) {
      const SourcePart& part = plan.source.parts[plan.source.part_of(range.range.file)];
      share = double(range.range.end - range.range.begin) / double(part.record_bytes);
    }
    ranges_.push_back({.open = std::move(range), .number = number, .share = share});
  }
}

Result<bool> RecordFlow::next() {
  records_.clear();
  begin_progress_ = progress();
  if (ranges_ended_ == ranges_.size()) return false;
  if (ranges_.size() == 1 && limit_ == UINT64_MAX) {
    Range& only = ranges_[0];
    DP_TRY_VOID(load(only));
    if (only.ended) return false;
    take(only, only.window.records->size());
  } else {
    DP_TRY_VOID(gather());
    if (records_.empty()) return false;
  }
  end_progress_ = progress();
  if (shuffle_) shuffle_window(records_, plan_.seed, shard_, windows_);
  ++windows_;
  return true;
}

Result<void> RecordFlow::gather() {
  for (Range& range : ranges_) range.in_use = false;
  while (ranges_ended_ < ranges_.size() && records_.size() < limit_) {
    Range& range = ranges_[turn_];
    if (range.ended || left_ == 0) {
      pass_turn();
      continue;
    }
    if (range.window.records == nullptr || range.taken == range.window.records->size()) {
      if (range.in_use) return {};  // its text must stay until these are read
      DP_TRY_VOID(load(range));
      continue;
    }
    const uint64_t room =
        std::min<uint64_t>(limit_ - records_.size(), range.window.records->size() - range.taken);
    const uint64_t count = ranges_.size() == 1 ? room : std::min(room, left_);
    take(range, size_t(count));
    left_ -= std::min(left_, count);
  }
  return {};
}

/// The range's next window, of which those records stay that are its stream's and the source's.
Result<void> RecordFlow::load(Range& range) {
  range.taken = 0;
  DP_TRY(const bool more, range.open.source->next(range.window));
  if (!more) {
    range.ended = true;
    ++ranges_ended_;
    return {};
  }
  const uint64_t first = range.number;
  range.number += range.window.records->size();
  choose_by_number(plan_.source, range.open.range, first, *range.window.records);
  return {};
}

void RecordFlow::take(Range& range, size_t count) {
  const auto index = uint32_t(&range - ranges_.data());
  const auto begin = range.window.records->begin() + ptrdiff_t(range.taken);
  for (auto at = begin; at != begin + ptrdiff_t(count); ++at) records_.push_back({*at, index});
  range.taken += count;
  range.in_use = true;
}

void RecordFlow::pass_turn() {
  if (mixes_) return draw_turn();
  turn_ = (turn_ + 1) % ranges_.size();
  left_ = plan_.data.interleave.block;
}

/// One record of a range that is not at its end, whichever is drawn.
void RecordFlow::draw_turn() {
  double sum = 0;
  for (const Range& range : ranges_) sum += range.ended ? 0 : range.share;
  double at = rng_.uniform64() * sum;
  left_ = 1;
  for (size_t i = 0; i < ranges_.size(); ++i) {
    if (ranges_[i].ended) continue;
    turn_ = i;
    at -= ranges_[i].share;
    if (at < 0) return;
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
  const size_t records = std::max<size_t>(records_.size(), 1);
  return begin_progress_ + (end_progress_ - begin_progress_) * count / records;
}

void RecordFlow::extent(uint64_t& first_offset, uint64_t& end_offset) const {
  if (ranges_.size() == 1 && plan_.data.interleave.cycle == 1) {
    first_offset = ranges_[0].open.source->first_offset();
    end_offset = ranges_[0].open.source->end_offset();
    return;
  }
  first_offset = end_offset = 0;
  for (const Range& range : ranges_) {
    const plan::ShardRange& r = range.open.range;
    const uint64_t first = range.open.source->first_offset(), end = range.open.source->end_offset();
    if (first >= end || !plan_.files[r.file].splittable) continue;  // no record begins in it
    first_offset += plan::place_mark(r.file, r.stream, first);
    end_offset += plan::place_mark(r.file, r.stream, end);
  }
}

void RecordFlow::close(ScratchPool& pool) {
  for (Range& range : ranges_) {
    range.open.source.reset();
    if (range.open.scratch != nullptr) pool.give_back(std::move(range.open.scratch));
  }
}

}  // namespace downpour::data
