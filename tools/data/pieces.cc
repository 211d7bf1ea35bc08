#include "tools/data/pieces.h"

#include <charconv>

#include "chief/runtime/run_setup.h"
#include "shared/data/batch_reader.h"
#include "shared/data/chosen_windows.h"
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
  DP_TRY(cut.shard_bytes, chief::choose_shard_bytes(set.job, set.data(), cut.files));
  DataSpec noted = set.data();
  DP_TRY_VOID(data::note_parts(noted, cut.files));
  DP_TRY_VOID(data::find_cuts(noted, noted.source, cut.shard_bytes, cut.files));
  DP_TRY_VOID(chief::cut_compressed(set.job, cut.files));
  if (const SourceSpec& source = noted.source; source.skip > 0 || source.take > 0) {
    data::ReadPlan reading;
    reading.data = noted;
    reading.source = source;
    reading.files = cut.files;
    reading.programs = set.programs;
    DP_TRY_VOID(data::count_pieces(reading, cut.shard_bytes, cut.files));
  }
  cut.streams = data::stream_spec(noted);
  cut.joining = data::joining_of(noted, cut.files);
  cut.ranges = plan::cut_streams(cut.files, cut.shard_bytes, cut.streams);
  return cut;
}

uint32_t worker_of(const CutData& cut, const Piece& piece, uint32_t workers) {
  return (cut.streams.shared() ? piece.shard.shard : piece.range.stream) % workers;
}

std::vector<Piece> pieces_of(const CutData& cut, uint64_t seed, uint32_t epoch,
                             WorkerPlace worker) {
  const plan::ShardMap shards(cut.ranges, seed, cut.joining);
  std::vector<Piece> pieces;
  for (uint32_t place = 0; place < shards.count(); ++place) {
    for (const plan::ShardRange& range : shards.at(epoch, place)) {
      const Piece piece{.range = range, .shard = {.epoch = epoch, .shard = place}};
      if (worker.count == 0 || worker_of(cut, piece, worker.count) == worker.index)
        pieces.push_back(piece);
    }
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
  walk.options_.programs = set.programs;
  if (!set.data().program.empty()) {
    walk.job_ = std::make_shared<const Job>(set.job);
    walk.options_.through_program_of = walk.job_.get();
    walk.options_.epoch = epoch;
  }
  if (worker.count == 0) {
    for (uint32_t i = 0; i < walk.files_.size(); ++i)
      walk.pieces_.push_back({.range = {.file = i, .begin = 0, .end = walk.files_[i].bytes}});
  } else if (data::chooses_by_number(set.data().source, data::stream_spec(set.data()))) {
    return Error{ErrorCode::kUnsupported,
                 "what a worker sees of records that are chosen by number is not shown", "--worker",
                 "leave it out, or set data.sharding = \"auto\" and no skip, take or shard"};
  } else if (set.data().interleave.cycle > 1 || set.data().source.is_mix() ||
             set.data().shuffle_records() > 0) {
    return Error{
        ErrorCode::kUnsupported,
        "what a worker sees is not shown where records are interleaved or shuffled in windows",
        "--worker", "leave it out, or data.interleave and the window of data.shuffle"};
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
    if (!options_.shuffle && number_ >= data::chosen_end(data_.source)) return false;
    if (cursor_ == nullptr) {
      if (next_ == pieces_.size()) return false;
      piece_ = &pieces_[next_++];
      if (options_.shuffle) options_.shuffle->shard = piece_->shard;
      options_.first_number = number_;
      DP_TRY(cursor_, open_cursor(data_, file(), piece_->range, options_));
    }
    DP_TRY(const bool more, cursor_->next(record));
    if (!more) {
      number_ += cursor_->left_out();
      done_bytes_ += piece_->range.end - piece_->range.begin;
      cursor_.reset();
      continue;
    }
    // Without a worker the files are read from end to end, and so a record's number is its place.
    const bool chosen = job_ != nullptr || options_.shuffle ||
                        data::is_chosen(data_.source, piece_->range, number_);
    ++number_;
    if (!chosen) continue;
    if (record.dropped) continue;
    if (!data::is_held_out(holdout_, piece_->range.file, record.offset)) return true;
  }
}

uint64_t RecordWalk::progress_bytes() const {
  return done_bytes_ + (cursor_ == nullptr ? 0 : cursor_->progress());
}

}  // namespace downpour::tools
