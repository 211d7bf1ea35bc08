// ChosenWindows: those of a range's records that its source and its stream choose by number.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <utility>

#include "shared/data/window.h"
#include "shared/job/job.h"
#include "shared/plan/shard.h"

namespace downpour::data {

/// Whether the number-th record over all files belongs to the source and, in it, to the range's
/// stream.
bool is_chosen(const SourceSpec& source, const plan::ShardRange& range, uint64_t number);

/// How many of a source's records belong to it, of all its files' `records`.
uint64_t chosen_of(const SourceSpec& source, uint64_t records);

/// The number over all files from which on none is chosen.
uint64_t chosen_end(const SourceSpec& source);

/// What FileInfo::records_before has for a piece whose records are [begin, end) over all files.
uint64_t number_of_piece(const SourceSpec& source, uint64_t begin, uint64_t end);

/// The windows of another source without the records that are not chosen: those are not read in the
/// account's sense, since they are somebody else's, or nobody's. Windows may be empty.
class ChosenWindows final : public WindowSource {
 public:
  /// The range's first record is the records_before-th over all files. `whole`: it is all of its
  /// file, whose rest need not be read when the last chosen one was.
  ChosenWindows(const SourceSpec& source, const plan::ShardRange& range, bool whole,
                std::unique_ptr<WindowSource> all)
      : source_(source),
        range_(range),
        end_(whole ? chosen_end(source) : UINT64_MAX),
        number_(range.records_before),
        all_(std::move(all)) {}

  Result<bool> next(Window& window) override;
  Result<void> check() override { return all_->check(); }
  bool at_end() const override { return number_ >= end_ || all_->at_end(); }
  uint64_t first_offset() const override { return all_->first_offset(); }
  uint64_t end_offset() const override { return all_->end_offset(); }
  std::span<const uint64_t> marks() const override { return all_->marks(); }
  std::string locate(uint64_t offset) override { return all_->locate(offset); }
  /// Records so far that were not chosen.
  uint64_t left_out() const { return left_out_; }

 private:
  const SourceSpec source_;
  const plan::ShardRange range_;
  const uint64_t end_;  // number where reading may end
  uint64_t number_;     // of the next window's first record
  uint64_t left_out_ = 0;
  const std::unique_ptr<WindowSource> all_;
};

/// `all`, or what leaves only chosen ones where not all are. `whole`: see ChosenWindows.
std::unique_ptr<WindowSource> choose_by_number(const SourceSpec& source,
                                               const plan::ShardRange& range, bool whole,
                                               std::unique_ptr<WindowSource> all);

}  // namespace downpour::data
