#include "shared/data/records/chosen_windows.h"

#include <algorithm>

namespace downpour::data {

bool is_chosen(const SourceSpec& source, const plan::ShardRange& range, uint64_t number) {
  const uint64_t place = number - source.skip;  // wraps around to a huge number below `skip`
  if (place >= chosen_end(source) - source.skip) return false;
  if (place % source.shard_count != source.shard_index) return false;
  return place / source.shard_count % range.modulus == range.stream % range.modulus;
}

uint64_t chosen_of(const SourceSpec& source, uint64_t records) {
  records -= std::min(records, source.skip);
  if (source.take > 0) records = std::min(records, source.take);
  return (records + source.shard_count - 1 - source.shard_index) / source.shard_count;
}

uint64_t chosen_end(const SourceSpec& source) {
  return source.take > 0 ? source.skip + source.take : UINT64_MAX;
}

uint64_t number_of_piece(const SourceSpec& source, uint64_t begin, uint64_t end) {
  const bool skipped = source.skip > 0 && end <= source.skip;
  return skipped || begin >= chosen_end(source) ? plan::kNotChosen : begin;
}

Result<bool> ChosenWindows::next(Window& window) {
  if (number_ >= end_) return false;
  DP_TRY(const bool more, all_->next(window));
  if (!more) return false;
  left_out_ += std::erase_if(
      *window.records, [&](const RecordRef&) { return !is_chosen(source_, range_, number_++); });
  return true;
}

std::unique_ptr<WindowSource> choose_by_number(const SourceSpec& source,
                                               const plan::ShardRange& range, bool whole,
                                               std::unique_ptr<WindowSource> all) {
  if (source.takes_all() && range.modulus == 1) return all;
  return std::make_unique<ChosenWindows>(source, range, whole, std::move(all));
}

}  // namespace downpour::data
