#include "shared/data/reading/record_stream.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "shared/base/hash.h"
#include "shared/base/str.h"
#include "shared/base/units.h"
#include "shared/data/bytes/xxh3.h"
#include "shared/data/formats/format.h"
#include "shared/data/reading/read_plan.h"

namespace downpour::data {
namespace {

constexpr uint64_t kKeptBytes = 64 * kMiB;       // limit for all kept blocks
constexpr uint64_t kTakenBytes = 40 * kMiB;      // limit for blocks that a reader has taken already
constexpr uint64_t kSpareBytes = 64 * kMiB;      // limit for the memory of SparePieces
constexpr uint64_t kBlockBytesMax = 256 * kMiB;  // maximum size of a block in memory
constexpr uint64_t kOpenBlockBytes = 64 * kMiB;  // an open block ends after this much text
constexpr uint64_t kGapBytesMax = kMiB;          // maximum gap in a piece, for example blank lines
constexpr size_t kLookaheadBytes = 16;           // that a parser may read after a record
// Epochs whose runs are kept: readers may read the last pieces of one and the first of the next.
constexpr size_t kEpochsKept = 2;
constexpr size_t kRunsMax = 3;  // per epoch; more than one only if a block is no longer kept
static_assert(kLookaheadBytes <= kPadBytes);

size_t bytes_of(const StreamBlock::Piece& piece) {
  return piece.text.capacity() + piece.records.capacity() * sizeof(RecordRef);
}

}  // namespace

StreamBlock::Piece SparePieces::take() {
  const std::lock_guard lock(mutex_);
  if (pieces_.empty()) return {};
  StreamBlock::Piece piece = std::move(pieces_.back());
  pieces_.pop_back();
  bytes_ -= bytes_of(piece);
  piece.used = 0;
  piece.records.clear();
  return piece;
}

void SparePieces::give_back(std::vector<StreamBlock::Piece>& pieces) {
  const std::lock_guard lock(mutex_);
  for (StreamBlock::Piece& piece : pieces) {
    if (bytes_ + bytes_of(piece) > kSpareBytes) continue;
    bytes_ += bytes_of(piece);
    pieces_.push_back(std::move(piece));
  }
}

RecordStream::RecordStream(std::vector<uint64_t> ends, Ends kind, std::string name,
                           std::shared_ptr<SparePieces> spare)
    : ends_(std::move(ends)), kind_(kind), name_(std::move(name)), spare_(std::move(spare)) {
  DP_CHECK(!ends_.empty() && ends_.front() > 0 && std::is_sorted(ends_.begin(), ends_.end()));
}

/// Returns the index of the first block that ends after `begin`.
size_t RecordStream::index_of(uint64_t begin) const {
  if (kind_ == Ends::kOpen) return size_t(begin / ends_.front());
  const auto end = std::upper_bound(ends_.begin(), ends_.end(), begin);
  DP_CHECK(end != ends_.end(), begin);
  return size_t(end - ends_.begin());
}

uint64_t RecordStream::end_of(size_t index) const {
  return kind_ == Ends::kOpen ? (index + 1) * ends_.front() : ends_[index];
}

std::optional<size_t> RecordStream::reach(uint64_t begin) const {
  const size_t index = index_of(begin);
  const std::lock_guard lock(mutex_);
  const bool gives = kept_.contains(index) || (index >= next_ && !failure_);
  return gives ? std::optional(next_) : std::nullopt;
}

Result<StreamBlockPtr> RecordStream::take(uint64_t begin, const Start& start,
                                          const std::function<bool()>& stopped) {
  const size_t index = index_of(begin);
  std::unique_lock lock(mutex_);
  for (;;) {
    if (const auto at = kept_.find(index); at != kept_.end()) {
      const StreamBlockPtr block = at->second;
      if (taken_blocks_.insert(index).second) taken_bytes_ += block->bytes;
      let_go();
      return block;
    }
    if (index < next_) return StreamBlockPtr();
    if (failure_) return *failure_;
    if (ended_) {
      auto none = std::make_shared<StreamBlock>();
      none->mark_before = none->mark_after = plan::kOpenEnd;
      none->arrays = reading_->arrays;
      return StreamBlockPtr(none);
    }
    if (stopped()) return Error{ErrorCode::kUnavailable, "reading was stopped", name_};
    if (is_read_) {
      changed_.wait(lock);
      continue;
    }
    is_read_ = true;
    const size_t reads = next_;
    lock.unlock();
    Result<StreamBlockPtr> block = read_block(reads, start);
    lock.lock();
    is_read_ = false;
    if (block) {
      ++next_;
      kept_bytes_ += (*block)->bytes;
      ended_ = (*block)->mark_after == plan::kOpenEnd;
      kept_[reads] = std::move(*block);
      let_go();
    } else {
      failure_ = std::move(block).error();
    }
    changed_.notify_all();
  }
}

/// Evicts blocks while the limits are exceeded: first those that a reader has taken, then those
/// that no reader has requested yet. Taken blocks are kept for a while because another reader may
/// request them. Keeps at least one block.
void RecordStream::let_go() {
  while (kept_.size() > 1 && (kept_bytes_ > kKeptBytes || taken_bytes_ > kTakenBytes)) {
    const bool taken = !taken_blocks_.empty();
    const size_t goes = taken ? *taken_blocks_.begin() : kept_.begin()->first;
    const uint64_t bytes = kept_[goes]->bytes;
    if (taken) taken_bytes_ -= bytes;
    kept_bytes_ -= bytes;
    taken_blocks_.erase(goes);
    kept_.erase(goes);
  }
}

Error RecordStream::failed(std::string what, std::string hint) const {
  return Error{ErrorCode::kBadData, std::move(what), name_, std::move(hint)};
}

Result<bool> RecordStream::next_window() {
  taken_ = 0;
  for (;;) {
    DP_TRY(const bool more, reading_->source->next(window_));
    if (!more || !window_.records->empty()) return more;
  }
}

Result<StreamBlockPtr> RecordStream::read_block(size_t index, const Start& start) {
  if (reading_ == nullptr) {
    auto reading = std::make_unique<Reading>();
    DP_TRY_VOID(start(*reading));
    reading_ = std::move(reading);
  }
  const std::shared_ptr<StreamBlock> block(new StreamBlock, [spare = spare_](StreamBlock* ended) {
    spare->give_back(ended->pieces);
    delete ended;
  });
  block->mark_before = mark_;
  block->arrays = reading_->arrays;
  if (kind_ == Ends::kPlaces) {
    DP_TRY_VOID(read_to_mark(*block, index));
  } else {
    DP_TRY_VOID(read_records(*block, index == 0 ? 0 : end_of(index - 1), end_of(index)));
  }
  if (kind_ != Ends::kOpen && index + 1 == ends_.size()) {
    DP_TRY_VOID(expect_end());
    mark_ = ends_.back();
  }
  block->mark_after = mark_;
  return StreamBlockPtr(block);
}

Result<void> RecordStream::read_records(StreamBlock& block, uint64_t begin, uint64_t end) {
  while (block.records < end - begin) {
    if (!has_window()) {
      DP_TRY(const bool more, next_window());
      if (!more && kind_ == Ends::kOpen) {
        reading_->source.reset();
        mark_ = plan::kOpenEnd;
        return {};
      }
      if (!more) {
        return failed(str("the program wrote only ", begin + block.records, " records of the ",
                          ends_.back(), " that the job declares"),
                      "set `records` of data.source to the number of records that the program "
                      "writes per epoch");
      }
    }
    const uint64_t wanted = end - begin - block.records;
    auto count = size_t(std::min<uint64_t>(wanted, window_.records->size() - taken_));
    if (kind_ == Ends::kOpen) {
      count = fitting(block, count);
      if (count == 0) return {};
    }
    DP_TRY_VOID(append(block, count));
  }
  return {};
}

/// Returns how many of the window's next `count` records belong to an open block. Only their
/// offsets decide, so a block has the same records for any sizes of the windows.
size_t RecordStream::fitting(const StreamBlock& block, size_t count) const {
  const auto first = window_.records->begin() + ptrdiff_t(taken_);
  const uint64_t begin =
      block.pieces.empty() ? window_.offset + first->begin : block.pieces.front().offset;
  const auto end = std::partition_point(first, first + ptrdiff_t(count), [&](const RecordRef& ref) {
    return window_.offset + ref.begin - begin < kOpenBlockBytes;
  });
  return size_t(end - first);
}

/// Appends the records that begin before the decompressed offset of the block's end (marks()).
/// While that offset is not known, every record that was read begins before it.
Result<void> RecordStream::read_to_mark(StreamBlock& block, size_t index) {
  for (;;) {
    if (!has_window()) {
      DP_TRY(const bool more, next_window());
      if (!more) return {};
    }
    const std::span<const uint64_t> marks = reading_->source->marks();
    const auto first = window_.records->begin() + ptrdiff_t(taken_);
    auto end = window_.records->end();
    if (index < marks.size()) {
      end = std::partition_point(first, end, [&](const RecordRef& ref) {
        return window_.offset + ref.begin < marks[index];
      });
    }
    if (first != end) DP_TRY_VOID(append(block, size_t(end - first)));
    if (has_window()) return {};
  }
}

Result<void> RecordStream::expect_end() {
  bool more = has_window();
  if (!more) {
    DP_TRY(more, next_window());
  }
  reading_->source.reset();
  if (!more) return {};
  return failed(
      str("the program wrote more records than the ", ends_.back(), " that the job declares"),
      "set `records` of data.source to the number of records that the program writes per epoch");
}

/// Appends the next `count` records of the window to the block's last piece, or to a new piece.
Result<void> RecordStream::append(StreamBlock& block, size_t count) {
  const auto* const refs = window_.records->data() + taken_;
  taken_ += count;
  const auto place = [&](const RecordRef& ref) { return window_.offset + ref.begin; };
  const auto size = [](const RecordRef& ref) { return ref.is_whole() ? ref.size : 0; };
  const uint64_t first = place(refs[0]);
  const size_t bytes = size_t(place(refs[count - 1]) - first) + size(refs[count - 1]);
  const auto fits = [&](const StreamBlock::Piece& piece) {
    const uint64_t from = first - piece.offset;
    return from <= piece.used + kGapBytesMax && from + bytes <= kShuffleWindowBytes;
  };
  if (block.pieces.empty() || !fits(block.pieces.back())) {
    block.pieces.push_back(spare_->take());
    block.pieces.back().offset = first;
  }
  StreamBlock::Piece& piece = block.pieces.back();
  const auto from = size_t(first - piece.offset);
  const size_t used = from + bytes + kLookaheadBytes, before = piece.used;
  if (used > piece.text.capacity())
    piece.text.reserve(std::max(used, piece.text.capacity() * 2), piece.used);
  // The bytes after a record (its line break or its checksum) are copied too. They are readable.
  std::memcpy(piece.text.data() + from, window_.text + refs[0].begin, bytes + kLookaheadBytes);
  piece.used = used;
  for (size_t i = 0; i < count; ++i) {
    const char* const text = window_.text + refs[i].begin;
    mark_ = hash_combine(mark_, refs[i].is_whole() ? xxh3(text, refs[i].size) : refs[i].size);
    piece.records.push_back({uint32_t(place(refs[i]) - piece.offset), refs[i].size});
  }
  block.records += count;
  block.bytes += used - before + count * sizeof(RecordRef);
  if (block.bytes <= kBlockBytesMax) return {};
  return failed(
      str("a shard of the stream needs more than ", kBlockBytesMax / kMiB, " MiB of memory"),
      "choose smaller shards with data.shard_records (with train.sync_every = \"epoch\": more "
      "train.replicas): a shard stays in memory until it is read");
}

/// Returns the most advanced run that can still return the range, or a new run if there is none.
std::shared_ptr<RecordStream> RecordStreams::find(const ReadPlan& plan, uint32_t epoch,
                                                  const plan::ShardRange& range) {
  const std::lock_guard lock(mutex_);
  Epochs& epochs = plan.training ? training_ : other_;
  std::vector<Run>& runs = epochs[epoch];
  if (epochs.size() > kEpochsKept)
    epochs.erase(epochs.begin()->first == epoch ? std::next(epochs.begin()) : epochs.begin());
  std::shared_ptr<RecordStream> best;
  size_t furthest = 0;
  for (const Run& run : runs) {
    if (run.file != range.file) continue;
    const std::optional<size_t> reach = run.stream->reach(range.begin);
    if (!reach || (best != nullptr && *reach <= furthest)) continue;
    best = run.stream;
    furthest = *reach;
  }
  if (best != nullptr) return best;
  const plan::FileInfo& info = plan.files[range.file];
  std::vector<uint64_t> ends = info.cuts;
  if (!info.is_open()) ends.push_back(info.bytes);
  if (runs.size() == kRunsMax) runs.erase(runs.begin() + 1);
  const auto kind = info.is_open()      ? RecordStream::Ends::kOpen
                    : info.is_program() ? RecordStream::Ends::kNumbers
                                        : RecordStream::Ends::kPlaces;
  runs.push_back(
      {range.file, std::make_shared<RecordStream>(std::move(ends), kind, info.path, spare_)});
  return runs.back().stream;
}

namespace {

plan::ShardRange all_of(const ReadPlan& plan, uint32_t file) {
  return {.file = file, .end = plan.files[file].bytes};
}

Result<void> start_file(const ReadPlan& plan, uint32_t file, RecordStream::Reading& reading) {
  DP_TRY(reading.source, open_windows(plan, plan.files[file], all_of(plan, file),
                                      {kPlainWindowBytes, reading.buffer, reading.records}));
  return {};
}

}  // namespace

Result<StreamBlockPtr> RecordStreams::take(const ReadPlan& plan, uint32_t epoch,
                                           const plan::ShardRange& range,
                                           const RecordStream::Start& start) {
  for (;;) {
    DP_TRY(StreamBlockPtr block, find(plan, epoch, range)->take(range.begin, start, [&] {
      return are_stopped(*plan.programs);
    }));
    if (block != nullptr) return block;
  }
}

std::shared_ptr<RecordStreams> make_record_streams() { return std::make_shared<RecordStreams>(); }

namespace {

class BlockWindows final : public WindowSource {
 public:
  BlockWindows(StreamBlockPtr block, std::vector<RecordRef>& records)
      : block_(std::move(block)), records_(records) {}

  Result<bool> next(Window& window) override {
    if (at_end()) return false;
    const StreamBlock::Piece& piece = block_->pieces[at_++];
    records_ = piece.records;
    window.text = piece.text.data();
    window.offset = piece.offset;
    window.records = &records_;
    window.begin_progress = given_;
    window.end_progress = given_ += records_.size();
    return true;
  }
  bool at_end() const override { return at_ == block_->pieces.size(); }
  uint64_t first_offset() const override { return block_->mark_before; }
  uint64_t end_offset() const override { return block_->mark_after; }
  std::string locate(uint64_t offset) override { return str("byte ", offset); }

 private:
  const StreamBlockPtr block_;
  std::vector<RecordRef>& records_;
  size_t at_ = 0;
  uint64_t given_ = 0;
};

/// Windows of a block of a compressed file: progress in bytes of the range, and "file:line" for
/// errors.
class FileBlockWindows final : public WindowSource {
 public:
  FileBlockWindows(const ReadPlan& plan, const plan::ShardRange& range, StreamBlockPtr block,
                   std::vector<RecordRef>& records)
      : plan_(plan), range_(range), records_(block->records), inner_(std::move(block), records) {}

  Result<bool> next(Window& window) override {
    DP_TRY(const bool more, inner_.next(window));
    if (!more) return false;
    for (uint64_t* const progress : {&window.begin_progress, &window.end_progress})
      *progress = uint64_t(__uint128_t{range_.end - range_.begin} * *progress / records_);
    return true;
  }
  bool at_end() const override { return inner_.at_end(); }
  uint64_t first_offset() const override { return inner_.first_offset(); }
  uint64_t end_offset() const override { return inner_.end_offset(); }
  std::string locate(uint64_t offset) override {
    RecordStream::Reading file;
    const auto opened = start_file(plan_, range_.file, file);
    return opened ? file.source->locate(offset) : plan_.files[range_.file].path;
  }

 private:
  const ReadPlan& plan_;
  const plan::ShardRange range_;
  const uint64_t records_;
  BlockWindows inner_;
};

}  // namespace

std::unique_ptr<WindowSource> windows_of(StreamBlockPtr block, std::vector<RecordRef>& records) {
  return std::make_unique<BlockWindows>(std::move(block), records);
}

Result<std::unique_ptr<WindowSource>> open_piece(const ReadPlan& plan, uint32_t epoch,
                                                 const plan::ShardRange& range,
                                                 std::vector<RecordRef>& records) {
  const auto start = [&](RecordStream::Reading& reading) {
    return start_file(plan, range.file, reading);
  };
  DP_TRY(StreamBlockPtr block, plan.streams->take(plan, epoch, range, start));
  return std::unique_ptr<WindowSource>(
      std::make_unique<FileBlockWindows>(plan, range, std::move(block), records));
}

}  // namespace downpour::data
