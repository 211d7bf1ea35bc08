#include "tools/data/pieces.h"

#include <charconv>

#include "chief/runtime/run_setup.h"
#include "shared/data/batch_reader.h"
#include "shared/data/dataset.h"

namespace downpour::tools {

Result<WorkerPlace> parse_worker(const std::string& text) {
  WorkerPlace out;
  const char *const begin = text.data(), *const end = begin + text.size();
  const auto index = std::from_chars(begin, end, out.index);
  if (index.ec == std::errc{} && index.ptr != end && *index.ptr == '/') {
    const auto count = std::from_chars(index.ptr + 1, end, out.count);
    if (count.ec == std::errc{} && count.ptr == end && out.index < out.count) return out;
  }
  return Error{ErrorCode::kUsage, str("--worker wants index/count, not `", text, "`"), "",
               "of four workers the first: --worker 0/4"};
}

Result<CutData> cut_data(const DataSet& set) {
  CutData cut{.files = set.files};
  DP_TRY(cut.shard_bytes, chief::choose_shard_bytes(set.job, cut.files));
  DP_TRY_VOID(data::find_cuts(set.data(), cut.shard_bytes, cut.files));
  cut.ranges = plan::cut_shards(cut.files, cut.shard_bytes);
  return cut;
}

std::vector<Piece> pieces_of(const CutData& cut, uint64_t seed, uint32_t epoch,
                             WorkerPlace worker) {
  const auto count = uint32_t(cut.ranges.size());
  std::vector<Piece> pieces;
  for (uint32_t place = worker.index; place < count; place += std::max(worker.count, 1U)) {
    pieces.push_back({.range = cut.ranges[plan::order_at(seed, epoch, count, place)],
                      .shard = {.epoch = epoch, .shard = place}});
  }
  return pieces;
}

DataSpec readable_data(const DataSet& set) {
  DataSpec data = set.data();
  if (is_arrays(data) && !set.declared) data.fields.clear();
  return data;
}

Result<RecordWalk> RecordWalk::open(const DataSet& set, WorkerPlace worker, uint32_t epoch) {
  RecordWalk walk;
  walk.data_ = readable_data(set);
  walk.files_ = set.files;
  if (worker.count == 0) {
    for (uint32_t i = 0; i < walk.files_.size(); ++i)
      walk.pieces_.push_back({.range = {.file = i, .begin = 0, .end = walk.files_[i].bytes}});
  } else {
    DP_TRY(CutData cut, cut_data(set));
    walk.pieces_ = pieces_of(cut, set.job.seed, epoch, worker);
    walk.files_ = std::move(cut.files);
    walk.options_.shuffle.emplace();
    walk.options_.shuffle->seed = set.job.seed;
    walk.holdout_ = set.job.eval.holdout;
  }
  for (const Piece& piece : walk.pieces_) walk.total_bytes_ += piece.range.end - piece.range.begin;
  return walk;
}

Result<bool> RecordWalk::next(RawRecord& record) {
  for (;;) {
    if (cursor_ == nullptr) {
      if (next_ == pieces_.size()) return false;
      piece_ = &pieces_[next_++];
      if (options_.shuffle) options_.shuffle->shard = piece_->shard;
      DP_TRY(cursor_, open_cursor(data_, file(), piece_->range, options_));
    }
    DP_TRY(const bool more, cursor_->next(record));
    if (!more) {
      done_bytes_ += piece_->range.end - piece_->range.begin;
      cursor_.reset();
      continue;
    }
    if (!data::is_held_out(holdout_, piece_->range.file, record.offset)) return true;
  }
}

uint64_t RecordWalk::progress_bytes() const {
  return done_bytes_ + (cursor_ == nullptr ? 0 : cursor_->progress());
}

}  // namespace downpour::tools
