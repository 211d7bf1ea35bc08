#include "tools/data/record_walk.h"

#include <utility>

#include "shared/data/records/chosen_windows.h"

namespace downpour::tools {

Result<RecordWalk> RecordWalk::open(const DataSet& set, WorkerPlace worker, uint32_t epoch) {
  RecordWalk walk;
  if (worker.count > 0) {
    DP_TRY(WorkerView view, WorkerView::open(set, worker, epoch));
    walk.view_.emplace(std::move(view));
    return walk;
  }
  walk.data_ = readable_data(set);
  walk.files_ = set.files;
  walk.options_.programs = set.programs;
  if (!set.data().program.empty()) {
    walk.job_ = std::make_shared<const Job>(set.job);
    walk.options_.through_program_of = walk.job_.get();
    walk.options_.epoch = epoch;
  }
  for (const plan::FileInfo& file : walk.files_) walk.total_bytes_ += file.bytes;
  return walk;
}

Result<bool> RecordWalk::next(RawRecord& record) {
  if (view_) return view_->next(record);
  for (;;) {
    if (number_ >= data::chosen_end(data_.source)) return false;
    if (cursor_ == nullptr) {
      if (next_ == files_.size()) return false;
      options_.first_number = number_;
      DP_TRY(cursor_, open_cursor(data_, files_[next_++], options_));
    }
    DP_TRY(const bool more, cursor_->next(record));
    if (!more) {
      number_ += cursor_->left_out();
      done_bytes_ += file().bytes;
      cursor_.reset();
      continue;
    }
    // All files are read completely and in order, so counting records gives their numbers.
    const bool chosen = job_ != nullptr || data::is_chosen(data_.source, {}, number_);
    ++number_;
    if (chosen && !record.dropped) return true;
  }
}

const plan::FileInfo& RecordWalk::file() const { return view_ ? view_->file() : files_[next_ - 1]; }

std::string RecordWalk::where(const RawRecord& record) {
  return view_ ? view_->where() : cursor_->locate(record.offset);
}

uint64_t RecordWalk::total_bytes() const { return view_ ? view_->total_bytes() : total_bytes_; }

uint64_t RecordWalk::progress_bytes() const {
  if (view_) return view_->progress_bytes();
  return done_bytes_ + (cursor_ == nullptr ? 0 : cursor_->progress());
}

}  // namespace downpour::tools
