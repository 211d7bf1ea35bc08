// RecordStream: what can only be read from its start, an epoch of a program or a compressed file,
// read once for all readers of a process: in blocks of records, which wait in memory for whoever
// reads that shard.
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

struct ArrayFields;
struct ReadPlan;

/// The records of a range, where they lie in the program's output, or decompressed.
struct StreamBlock {
  struct Piece {
    Buffer text;
    size_t used = 0;      // bytes of it
    uint64_t offset = 0;  // of text[0]
    std::vector<RecordRef> records;
  };
  std::vector<Piece> pieces;  // of at most kShuffleWindowBytes each, unless a record is longer
  uint64_t records = 0;
  uint64_t bytes = 0;  // of all pieces
  // A hash of all records before it, and with its own: of two runs that gave the same. 0 and the
  // end of its range at the ends, as places in a file are (of an open stream kOpenEnd).
  uint64_t mark_before = 0, mark_after = 0;
  std::shared_ptr<const ArrayFields> arrays;  // whose rows they are; null: texts
};
using StreamBlockPtr = std::shared_ptr<const StreamBlock>;

/// Memory of blocks that were read, for those to come: new memory costs more than filling it. Any
/// thread.
class SparePieces {
 public:
  /// An empty piece.
  StreamBlock::Piece take();
  void give_back(std::vector<StreamBlock::Piece>& pieces);

 private:
  std::mutex mutex_;
  std::vector<StreamBlock::Piece> pieces_;
  size_t bytes_ = 0;
};

/// One run of a program, or one reading of a file. Any thread may take; one of those that wait
/// reads for all of them.
class RecordStream {
 public:
  struct Reading {
    std::unique_ptr<WindowSource> source;
    Buffer buffer;                                        // of its windows
    std::vector<RecordRef> records;                       // of the window
    std::shared_ptr<const ArrayFields> arrays = nullptr;  // see StreamBlock
  };
  using Start = std::function<Result<void>(Reading& reading)>;
  enum class Ends : uint8_t {
    kNumbers,  // of records
    kOpen,     // the same, or of fewer that take kOpenBlockBytes; reading tells which is the last
    kPlaces,   // in a compressed file: those of what comes out for the bytes before it
  };

  /// `ends`: behind the last record of each block, ascending; of kOpen only the first block's, and
  /// all are as long. `name` is what errors call it.
  RecordStream(std::vector<uint64_t> ends, Ends kind, std::string name,
               std::shared_ptr<SparePieces> spare);
  /// The block that begins there, without records where the stream ends before it; null: it was
  /// read, and is kept no more. `start` is called once in
  /// all. Errors: its own; as of reading; kBadData where a program gives another number of records
  /// than the last block ends with, or a block takes too much memory. After one the stream is
  /// spent.
  /// `stopped` is asked before each block that is read on the way.
  Result<StreamBlockPtr> take(uint64_t begin, const Start& start,
                              const std::function<bool()>& stopped);
  /// Blocks that were read so far; none: take() would not give this one.
  std::optional<size_t> reach(uint64_t begin) const;

 private:
  size_t index_of(uint64_t begin) const;
  uint64_t end_of(size_t index) const;
  void let_go();
  Result<StreamBlockPtr> read_block(size_t index, const Start& start);
  Result<void> read_records(StreamBlock& block, uint64_t begin, uint64_t end);
  Result<void> read_to_mark(StreamBlock& block, size_t index);
  size_t fitting(const StreamBlock& block, size_t count) const;
  bool has_window() const { return window_.records != nullptr && taken_ < window_.records->size(); }
  Result<bool> next_window();
  Result<void> expect_end();
  Result<void> append(StreamBlock& block, size_t count);
  Error failed(std::string what, std::string hint) const;

  const std::vector<uint64_t> ends_;
  const Ends kind_;
  const std::string name_;
  const std::shared_ptr<SparePieces> spare_;
  // Of whoever reads.
  std::unique_ptr<Reading> reading_;
  Window window_;
  size_t taken_ = 0;  // of the window's records
  uint64_t mark_ = 0;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool is_read_ = false;  // somebody does
  size_t next_ = 0;       // block to be read
  bool ended_ = false;    // of kOpen: from next_ on they have no records
  uint64_t kept_bytes_ = 0, taken_bytes_ = 0;
  std::map<size_t, StreamBlockPtr> kept_;
  std::set<size_t> taken_blocks_;  // of those that are kept: they go first
  std::optional<Error> failure_;
};

/// The streams of a process's readers: those of the last epochs.
class RecordStreams {
 public:
  /// The records of a range of a program or compressed file, which the plan cuts in pieces
  /// (FileInfo::is_streamed()). Where they were let go already it is read once more from its start,
  /// beside the run that is further.
  Result<StreamBlockPtr> take(const ReadPlan& plan, uint32_t epoch, const plan::ShardRange& range);

 private:
  struct Run {
    uint32_t file = 0;
    std::shared_ptr<RecordStream> stream;
  };
  using Epochs = std::map<uint32_t, std::vector<Run>>;
  std::shared_ptr<RecordStream> find(const ReadPlan& plan, uint32_t epoch,
                                     const plan::ShardRange& range);

  const std::shared_ptr<SparePieces> spare_ = std::make_shared<SparePieces>();
  std::mutex mutex_;
  Epochs training_, other_;
};

/// The windows of a block: a piece each, whose records are copied to `records`. Their progress is
/// in records.
std::unique_ptr<WindowSource> windows_of(StreamBlockPtr block, std::vector<RecordRef>& records);

/// A range of a compressed file that is streamed. `plan` must outlive it.
Result<std::unique_ptr<WindowSource>> open_piece(const ReadPlan& plan, uint32_t epoch,
                                                 const plan::ShardRange& range,
                                                 std::vector<RecordRef>& records);

}  // namespace downpour::data
