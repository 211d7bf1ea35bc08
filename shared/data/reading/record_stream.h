// RecordStream: reads a source that can only be read from its start, once for all readers of a
// process. Such a source is an epoch of a program or a compressed file. Its records come in blocks,
// which wait in memory for the reader of their shard.
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

/// The records of a range, in decompressed form or as the program wrote them.
struct StreamBlock {
  struct Piece {
    Buffer text;
    size_t used = 0;      // bytes in use
    uint64_t offset = 0;  // of text[0] in the source
    std::vector<RecordRef> records;
  };
  std::vector<Piece> pieces;  // at most kShuffleWindowBytes each, unless one record is longer
  uint64_t records = 0;
  uint64_t bytes = 0;  // of all pieces together
  // Hash of all records before this block, and hash of those and the block's own records. Equal
  // hashes show that two runs gave the same records. Two values are fixed, as for offsets in a
  // file: the first block's mark_before is 0, and the last block's mark_after is the end of its
  // range (kOpenEnd for an open stream).
  uint64_t mark_before = 0, mark_after = 0;
  std::shared_ptr<const ArrayFields> arrays;  // for rows of arrays; null for text
};
using StreamBlockPtr = std::shared_ptr<const StreamBlock>;

/// Memory of blocks that have been read, kept for later blocks because allocating new pages costs
/// more than filling them. Safe to use from any thread.
class SparePieces {
 public:
  /// Returns a piece without records.
  StreamBlock::Piece take();
  void give_back(std::vector<StreamBlock::Piece>& pieces);

 private:
  std::mutex mutex_;
  std::vector<StreamBlock::Piece> pieces_;
  size_t bytes_ = 0;
};

/// One run of a program, or one pass through a file. Any thread may call take(). If several threads
/// wait, one of them reads for all.
class RecordStream {
 public:
  struct Reading {
    std::unique_ptr<WindowSource> source;
    Buffer buffer;                                        // memory of the windows
    std::vector<RecordRef> records;                       // records of the current window
    std::shared_ptr<const ArrayFields> arrays = nullptr;  // see StreamBlock
  };
  using Start = std::function<Result<void>(Reading& reading)>;
  enum class Ends : uint8_t {
    kNumbers,  // record numbers
    kOpen,     // record numbers; a block may end earlier, at kOpenBlockBytes
    kPlaces,   // offsets in a compressed file
  };

  /// `ends` has the end of each block, ascending. For kPlaces, a block has the records that begin
  /// in the decompressed output of its bytes. For kOpen, `ends` has only the end of the first
  /// block. All blocks then have that length, and only reading finds the last one. `name`
  /// identifies the stream in errors.
  RecordStream(std::vector<uint64_t> ends, Ends kind, std::string name,
               std::shared_ptr<SparePieces> spare);
  /// Returns the block that begins at `begin`. The block has no records if the stream ends before
  /// it. Returns null if the block was read earlier and is no longer kept. Calls `start` once per
  /// stream, and `stopped` before it reads each block up to the wanted one. Errors: those of
  /// `start` and of reading; kBadData if a program gives more or fewer records than the end of the
  /// last block says, or if a block takes too much memory. After an error the stream reads no
  /// further block.
  Result<StreamBlockPtr> take(uint64_t begin, const Start& start,
                              const std::function<bool()>& stopped);
  /// Returns the number of blocks read so far, or nothing if take() would not return this block.
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
  size_t taken_ = 0;  // records of the window that were taken
  uint64_t mark_ = 0;

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

/// The streams of all readers of a process. Keeps those of the latest epochs.
class RecordStreams {
 public:
  /// Returns the records of a range whose file is cut into pieces of a stream
  /// (FileInfo::is_streamed()). `start` begins a run from the start of the source. If the block is
  /// no longer kept, starts another run from the beginning of the source, in addition to the run
  /// that is already further.
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

/// Returns the windows of a block, one for each piece. Their records are copied to `records`, and
/// their progress counts records.
std::unique_ptr<WindowSource> windows_of(StreamBlockPtr block, std::vector<RecordRef>& records);

/// Opens a range of a streamed compressed file. `plan` must outlive the result.
Result<std::unique_ptr<WindowSource>> open_piece(const ReadPlan& plan, uint32_t epoch,
                                                 const plan::ShardRange& range,
                                                 std::vector<RecordRef>& records);

}  // namespace downpour::data
