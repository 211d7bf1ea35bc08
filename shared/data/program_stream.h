// ProgramStream: what a program writes that can only be read from its start, read once for all
// readers of a process: in blocks of records, which wait in memory for whoever reads that shard.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "shared/base/result.h"
#include "shared/data/window.h"
#include "shared/plan/shard.h"

namespace downpour::data {

struct ReadPlan;

/// The records of a range, where they lie in the program's output.
struct StreamBlock {
  struct Piece {
    Buffer text;
    size_t used = 0;      // bytes of it
    uint64_t offset = 0;  // of text[0] in the output
    std::vector<RecordRef> records;
  };
  std::vector<Piece> pieces;  // of at most kShuffleWindowBytes each, unless a record is longer
  uint64_t records = 0;
  uint64_t bytes = 0;  // of all pieces
  // A hash of all records before it, and with its own: of two runs of a program that gave the same.
  // 0 and the number of all records at the ends, as places in a file are.
  uint64_t mark_before = 0, mark_after = 0;
};
using StreamBlockPtr = std::shared_ptr<const StreamBlock>;

/// One run of a program. Any thread may take; one of those that wait reads for all of them.
class ProgramStream {
 public:
  struct Reading {
    std::unique_ptr<WindowSource> source;
    Buffer buffer;                   // of its windows
    std::vector<RecordRef> records;  // of the window
  };
  using Start = std::function<Result<void>(Reading& reading)>;

  /// `ends`: behind the last record of each block, ascending. `name` is what errors call it.
  ProgramStream(std::vector<uint64_t> ends, std::string name);
  /// The block that begins with that record; null: it was read, and is kept no more. `start` is
  /// called once in all. Errors: its own; as of the program; kBadData where it gives another number
  /// of records than the last block ends with, or a block takes too much memory. After one the
  /// stream is spent.
  Result<StreamBlockPtr> take(uint64_t begin, const Start& start);
  /// Blocks that were read so far; none: take() would not give this one.
  std::optional<size_t> reach(uint64_t begin) const;

 private:
  size_t index_of(uint64_t begin) const;
  void keep(size_t index, StreamBlockPtr block);
  Result<StreamBlockPtr> read_block(size_t index, const Start& start);
  Result<bool> next_window();
  Result<void> expect_end();
  void append(StreamBlock& block, size_t count);
  Error failed(std::string what, std::string hint) const;

  const std::vector<uint64_t> ends_;
  const std::string name_;
  // Of whoever reads.
  std::unique_ptr<Reading> reading_;
  Window window_;
  size_t taken_ = 0;  // of the window's records
  uint64_t mark_ = 0;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool is_read_ = false;  // somebody does
  size_t next_ = 0;       // block to be read
  uint64_t kept_bytes_ = 0;
  std::map<size_t, StreamBlockPtr> kept_;
  std::set<size_t> taken_blocks_;  // of those that are kept: they go first
  std::optional<Error> failure_;
};

/// The streams of a process's readers: those of the last epochs.
class ProgramStreams {
 public:
  /// The records of a range of the plan's program, of which the plan's file says the cuts. Where
  /// they were let go already the program is run once more, beside the run that is further.
  Result<StreamBlockPtr> take(const ReadPlan& plan, uint32_t epoch, const plan::ShardRange& range);

 private:
  using Epochs = std::map<uint32_t, std::vector<std::shared_ptr<ProgramStream>>>;  // runs of each
  std::shared_ptr<ProgramStream> find(const ReadPlan& plan, uint32_t epoch,
                                      const plan::ShardRange& range);

  std::mutex mutex_;
  Epochs training_, other_;
};

/// The windows of a block: a piece each, whose records are copied to `records`.
std::unique_ptr<WindowSource> windows_of(StreamBlockPtr block, std::vector<RecordRef>& records);

}  // namespace downpour::data
