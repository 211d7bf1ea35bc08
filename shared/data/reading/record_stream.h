// RecordStream: reads a sequential source once for all readers of a process. A sequential source
// can only be read from its start: the epoch of a program, or a compressed file. It is cut into
// *pieces*, which are consecutive ranges (FileInfo::is_streamed()). The records of a piece form a
// *block*, which waits in memory for the reader of the piece.
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
#include "shared/data/records/window.h"
#include "shared/plan/shard.h"

namespace downpour::data {

struct ArrayFields;
struct ReadPlan;

/// The records of one piece of the source, in decompressed form or as the program wrote them. They
/// are stored in one or several buffers.
struct StreamBlock {
  /// A buffer with consecutive records of the block. It is not a piece of the source.
  struct Piece {
    Buffer text;
    size_t used = 0;      // bytes in use
    uint64_t offset = 0;  // of text[0] in the source
    std::vector<RecordRef> records;
  };
  std::vector<Piece> pieces;  // at most kShuffleWindowBytes each, unless one record is longer
  uint64_t records = 0;
  uint64_t bytes = 0;  // in use in all of `pieces`
  // Hash of all records of the source before this block, and hash of those and the block's own
  // records. Two runs of the source gave the same records if the hashes are equal. A reader reports
  // them instead of offsets (WindowSource::first_offset() and end_offset()), and the chief checks
  // them like offsets: each shard must begin where the shard before it ends. Two values are
  // therefore not hashes. The first block's mark_before is 0. The last block's mark_after is the
  // end of its range, or kOpenEnd if the source has no known length.
  uint64_t mark_before = 0, mark_after = 0;
  std::shared_ptr<const ArrayFields> arrays;  // for rows of arrays; null for text
};
using StreamBlockPtr = std::shared_ptr<const StreamBlock>;

/// Memory of blocks that no reader needs any more. Later blocks use it again, because allocating
/// new pages costs more than filling old ones. Safe to use from any thread.
class SparePieces {
 public:
  /// Returns a buffer without records.
  StreamBlock::Piece take();
  void give_back(std::vector<StreamBlock::Piece>& pieces);

 private:
  std::mutex mutex_;
  std::vector<StreamBlock::Piece> pieces_;
  size_t bytes_ = 0;
};

/// One run of a program, or one pass through a compressed file. Any thread may call take(). If
/// several threads wait for blocks, one of them reads for all.
class RecordStream {
 public:
  /// The opened source.
  struct Reading {
    std::unique_ptr<WindowSource> source;
    Buffer buffer;                                        // memory of the windows
    std::vector<RecordRef> records;                       // records of the current window
    std::shared_ptr<const ArrayFields> arrays = nullptr;  // see StreamBlock
  };
  /// Opens the source at its first record.
  using Start = std::function<Result<void>(Reading& reading)>;
  /// The unit in which the ends of the blocks are given.
  enum class Ends : uint8_t {
    kNumbers,  // record numbers of a program with a known number of records
    kOpen,     // record numbers of a program with an unknown number of records
    kPlaces,   // offsets in a compressed file, in compressed bytes
  };

  /// `ends` has the end of each block, ascending. A block begins at the end of the block before it.
  /// `name` identifies the source in errors.
  /// - kNumbers: a block has exactly the records of its numbers.
  /// - kPlaces: a block has the records that begin in the decompressed output of its bytes.
  /// - kOpen: `ends` has one element, the length of every block in records. Block i is requested as
  ///   begin = i * length. It may have fewer records than that, because it also ends after 64 MiB
  ///   of text or with the program. The next block continues with the next record and is still
  ///   requested as (i + 1) * length.
  RecordStream(std::vector<uint64_t> ends, Ends kind, std::string name,
               std::shared_ptr<SparePieces> spare);
  /// Returns the block that begins at `begin`, after reading all blocks up to it. Returns null if
  /// the block was read earlier and is no longer kept. Returns a block without records if a source
  /// of unknown length has ended before the block. Calls `start` before the first block is read,
  /// and `stopped` before each block is read. Errors:
  /// - those of `start` and of reading; the stream then reads no further block;
  /// - kUnavailable if `stopped` returned true;
  /// - kBadData if a program writes more or fewer records than the last end says (kNumbers), or if
  ///   a block takes more than 256 MiB of memory.
  Result<StreamBlockPtr> take(uint64_t begin, const Start& start,
                              const std::function<bool()>& stopped);
  /// Returns the number of blocks read so far. Returns nothing if take() cannot return the block
  /// any more, because it is no longer kept or reading has failed before it.
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
  // Used only by the thread that reads.
  std::unique_ptr<Reading> reading_;
  Window window_;
  size_t taken_ = 0;   // records of the window that were taken
  uint64_t mark_ = 0;  // mark_after of the records taken so far

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool is_read_ = false;  // a thread is reading
  size_t next_ = 0;       // index of the next block to read
  bool ended_ = false;    // kOpen: blocks from next_ on have no records
  uint64_t kept_bytes_ = 0, taken_bytes_ = 0;
  std::map<size_t, StreamBlockPtr> kept_;
  std::set<size_t> taken_blocks_;  // kept blocks that a reader has taken; they are evicted first
  std::optional<Error> failure_;
};

/// The RecordStreams of all readers of a process, by epoch and file. Keeps those of the latest two
/// epochs, because readers may read the last pieces of one epoch and the first pieces of the next.
class RecordStreams {
 public:
  /// Returns the block of a piece. `start` opens the source at its first record. If the piece's
  /// block is no longer kept, starts a second run from the first record. The run that has read
  /// further continues for the other readers.
  Result<StreamBlockPtr> take(const ReadPlan& plan, uint32_t epoch, const plan::ShardRange& range,
                              const RecordStream::Start& start);

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

/// Returns the windows of a block, one for each of its buffers. Copies their records to `records`,
/// because a reader may permute them. Progress is counted in records.
std::unique_ptr<WindowSource> windows_of(StreamBlockPtr block, std::vector<RecordRef>& records);

/// Opens a piece of a compressed file. Progress is counted in bytes of the file. `plan` must
/// outlive the result.
Result<std::unique_ptr<WindowSource>> open_piece(const ReadPlan& plan, uint32_t epoch,
                                                 const plan::ShardRange& range,
                                                 std::vector<RecordRef>& records);

}  // namespace downpour::data
