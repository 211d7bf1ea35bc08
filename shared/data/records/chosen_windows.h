// ChosenWindows: keeps only the records of a range that its source and its stream choose by number.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <utility>

#include "shared/data/records/window.h"
#include "shared/job/job.h"
#include "shared/plan/shard.h"

namespace downpour::data {

/// Returns whether a record belongs to the source and to the range's stream. `number` counts the
/// records of all files from 0.
bool is_chosen(const SourceSpec& source, const plan::ShardRange& range, uint64_t number);

/// Returns how many of a source's records are chosen, if all of its files together have `records`.
uint64_t chosen_of(const SourceSpec& source, uint64_t records);

/// Returns the first number over all files from which on no record is chosen.
uint64_t chosen_end(const SourceSpec& source);

/// Returns the element of FileInfo::records_before for a piece whose records are numbered [begin,
/// end) over all files.
uint64_t number_of_piece(const SourceSpec& source, uint64_t begin, uint64_t end);

/// Yields the windows of another source without the records that are not chosen. Those do not count
/// as read, because they belong to another stream or to none. Windows may be empty.
class ChosenWindows final : public WindowSource {
 public:
  /// The first record of the range has the number range.records_before over all files. `whole`: the
  /// range is the whole file, so reading may stop after the last chosen record.
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
  /// Returns how many records so far were not chosen.
  uint64_t left_out() const { return left_out_; }

 private:
  const SourceSpec source_;
  const plan::ShardRange range_;
  const uint64_t end_;  // number of the record at which reading may stop
  uint64_t number_;     // of the first record of the next window
  uint64_t left_out_ = 0;
  const std::unique_ptr<WindowSource> all_;
};

/// Returns `all`, wrapped in ChosenWindows if some of its records are not chosen. `whole`: see
/// ChosenWindows.
std::unique_ptr<WindowSource> choose_by_number(const SourceSpec& source,
                                               const plan::ShardRange& range, bool whole,
                                               std::unique_ptr<WindowSource> all);

}  // namespace downpour::data
