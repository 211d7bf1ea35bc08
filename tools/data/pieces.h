// Pieces: which parts of a data set are read in which order: all of it, or what a worker would be
// given.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "shared/plan/shard.h"
#include "tools/data/data_set.h"
#include "tools/data/record_cursor.h"

namespace downpour::tools {

/// One of `count` workers.
struct WorkerPlace {
  uint32_t index = 0;
  uint32_t count = 0;  // 0: no worker, all of the data
};
/// "0/4". Error kUsage: it is none.
Result<WorkerPlace> parse_worker(const std::string& text);

struct Piece {
  plan::ShardRange range;  // of a shard that joins several, one of them
  ShardId shard;           // its place in the epoch's order
};

/// A data set as the chief cuts it.
struct CutData {
  std::vector<plan::FileInfo> files;  // with the places where they may be cut
  uint64_t shard_bytes = 0;
  plan::StreamSpec streams;
  std::vector<plan::ShardRange> ranges;
  plan::Joining joining;
};
Result<CutData> cut_data(const DataSet& set);

/// The ranges of the shards in an epoch's order that a worker is given if all are equally fast:
/// every count-th one; of several streams those that fall to it. Of no worker: all.
std::vector<Piece> pieces_of(const CutData& cut, uint64_t seed, uint32_t epoch, WorkerPlace worker);

/// The data as they are read without a job's declarations: of arrays all that there are.
DataSpec readable_data(const DataSet& set);

/// Which of `workers` is given a shard if all are equally fast.
uint32_t worker_of(const CutData& cut, const Piece& piece, uint32_t workers);

/// Goes through all records of the source: in the order of the files, or those that a worker is
/// given, in its order and without those held out.
class RecordWalk {
 public:
  /// Error kUnsupported: of a worker, where records are chosen by number, interleaved, or shuffled
  /// in windows of a number.
  static Result<RecordWalk> open(const DataSet& set, WorkerPlace worker, uint32_t epoch);
  /// False at the end.
  Result<bool> next(RawRecord& record);
  /// Of the record given last.
  const plan::FileInfo& file() const { return files_[piece_->range.file]; }
  std::string where(const RawRecord& record) { return cursor_->locate(record.offset); }
  /// Of all bytes of the files how many lie behind.
  uint64_t progress_bytes() const;
  uint64_t total_bytes() const { return total_bytes_; }

 private:
  DataSpec data_;
  std::vector<plan::FileInfo> files_;
  std::vector<Piece> pieces_;
  std::shared_ptr<const Job> job_;  // where its records go through a program
  CursorOptions options_;
  double holdout_ = 0;
  uint64_t number_ = 0;  // of the next record over all files
  const Piece* piece_ = nullptr;
  size_t next_ = 0;
  std::unique_ptr<RecordCursor> cursor_;
  uint64_t total_bytes_ = 0, done_bytes_ = 0;
};

}  // namespace downpour::tools
