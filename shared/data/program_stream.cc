#include "shared/data/program_stream.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "shared/base/hash.h"
#include "shared/base/str.h"
#include "shared/base/units.h"
#include "shared/data/program.h"
#include "shared/data/xxh3.h"

namespace downpour::data {
namespace {

constexpr uint64_t kKeptBytes = 64 * kMiB;       // of blocks that wait for their readers
constexpr uint64_t kBlockBytesMax = 256 * kMiB;  // what a block may take of memory
constexpr uint64_t kGapBytesMax = kMiB;          // between records of a piece: blank lines
constexpr size_t kTailBytes = 16;                // that a parser may look at behind a record
constexpr size_t kEpochsKept =
    2;  // of which runs are kept: the last pieces of one, the first of the next
constexpr size_t kRunsMax = 3;  // of an epoch: more than one only after deaths
static_assert(kTailBytes <= kPadBytes);

}  // namespace

ProgramStream::ProgramStream(std::vector<uint64_t> ends, std::string name)
    : ends_(std::move(ends)), name_(std::move(name)) {
  DP_CHECK(!ends_.empty() && std::is_sorted(ends_.begin(), ends_.end()));
}

/// Of the block that ends first behind `begin`.
size_t ProgramStream::index_of(uint64_t begin) const {
  const auto end = std::upper_bound(ends_.begin(), ends_.end(), begin);
  DP_CHECK(end != ends_.end(), begin);
  return size_t(end - ends_.begin());
}

std::optional<size_t> ProgramStream::reach(uint64_t begin) const {
  const size_t index = index_of(begin);
  const std::lock_guard lock(mutex_);
  const bool gives = kept_.contains(index) || (index >= next_ && !failure_);
  return gives ? std::optional(next_) : std::nullopt;
}

Result<StreamBlockPtr> ProgramStream::take(uint64_t begin, const Start& start) {
  const size_t index = index_of(begin);
  std::unique_lock lock(mutex_);
  for (;;) {
    if (const auto at = kept_.find(index); at != kept_.end()) {
      taken_blocks_.insert(index);
      return at->second;
    }
    if (index < next_) return StreamBlockPtr();
    if (failure_) return *failure_;
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
      keep(reads, std::move(*block));
    } else {
      failure_ = std::move(block).error();
    }
    changed_.notify_all();
  }
}

/// Lets go of others where they are too much: first of those that somebody has taken, then of those
/// that nobody here has asked for yet.
void ProgramStream::keep(size_t index, StreamBlockPtr block) {
  kept_bytes_ += block->bytes;
  kept_[index] = std::move(block);
  while (kept_bytes_ > kKeptBytes && kept_.size() > 1) {
    const size_t goes = taken_blocks_.empty() ? kept_.begin()->first : *taken_blocks_.begin();
    taken_blocks_.erase(goes);
    kept_bytes_ -= kept_[goes]->bytes;
    kept_.erase(goes);
  }
}

Error ProgramStream::failed(std::string what, std::string hint) const {
  return Error{ErrorCode::kBadData, std::move(what), name_, std::move(hint)};
}

Result<bool> ProgramStream::next_window() {
  taken_ = 0;
  for (;;) {
    DP_TRY(const bool more, reading_->source->next(window_));
    if (!more || !window_.records->empty()) return more;
  }
}

Result<StreamBlockPtr> ProgramStream::read_block(size_t index, const Start& start) {
  if (reading_ == nullptr) {
    auto reading = std::make_unique<Reading>();
    DP_TRY_VOID(start(*reading));
    reading_ = std::move(reading);
  }
  const uint64_t begin = index == 0 ? 0 : ends_[index - 1], wanted = ends_[index] - begin;
  auto block = std::make_shared<StreamBlock>();
  block->mark_before = mark_;
  while (block->records < wanted) {
    if (window_.records == nullptr || taken_ == window_.records->size()) {
      DP_TRY(const bool more, next_window());
      if (!more) {
        return failed(str("the program gave only ", begin + block->records, " records of the ",
                          ends_.back(), " that the job says"),
                      "`records` of data.source is how many it gives in an epoch");
      }
    }
    append(*block,
           size_t(std::min<uint64_t>(wanted - block->records, window_.records->size() - taken_)));
    if (block->bytes > kBlockBytesMax) {
      return failed(str("the ", wanted, " records from number ", begin, " on take more than ",
                        kBlockBytesMax / kMiB, " MiB"),
                    "choose fewer with data.shard_records: so many wait in memory at once");
    }
  }
  if (index + 1 == ends_.size()) {
    DP_TRY_VOID(expect_end());
    mark_ = ends_.back();
  }
  block->mark_after = mark_;
  return StreamBlockPtr(std::move(block));
}

Result<void> ProgramStream::expect_end() {
  bool more = taken_ < window_.records->size();
  if (!more) {
    DP_TRY(more, next_window());
  }
  reading_->source.reset();
  if (!more) return {};
  return failed(str("the program gave more records than the ", ends_.back(), " that the job says"),
                "`records` of data.source is how many it gives in an epoch");
}

/// The next records of the window into the block's last piece, or a new one.
void ProgramStream::append(StreamBlock& block, size_t count) {
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
    block.pieces.emplace_back();
    block.pieces.back().offset = first;
  }
  StreamBlock::Piece& piece = block.pieces.back();
  const auto from = size_t(first - piece.offset);
  const size_t used = from + bytes + kTailBytes, before = piece.used;
  if (used > piece.text.capacity())
    piece.text.reserve(std::max(used, piece.text.capacity() * 2), piece.used);
  // What lies behind a record is its line's end or its checksum, and readable.
  std::memcpy(piece.text.data() + from, window_.text + refs[0].begin, bytes + kTailBytes);
  piece.used = used;
  for (size_t i = 0; i < count; ++i) {
    const char* const text = window_.text + refs[i].begin;
    mark_ = hash_combine(mark_, refs[i].is_whole() ? xxh3(text, refs[i].size) : refs[i].size);
    piece.records.push_back({uint32_t(place(refs[i]) - piece.offset), refs[i].size});
  }
  block.records += count;
  block.bytes += used - before + count * sizeof(RecordRef);
}

/// The run that is furthest of those that can give the range; else a new one.
std::shared_ptr<ProgramStream> ProgramStreams::find(const ReadPlan& plan, uint32_t epoch,
                                                    const plan::ShardRange& range) {
  const std::lock_guard lock(mutex_);
  Epochs& epochs = plan.training ? training_ : other_;
  std::vector<std::shared_ptr<ProgramStream>>& runs = epochs[epoch];
  if (epochs.size() > kEpochsKept)
    epochs.erase(epochs.begin()->first == epoch ? std::next(epochs.begin()) : epochs.begin());
  std::shared_ptr<ProgramStream> best;
  size_t furthest = 0;
  for (const auto& stream : runs) {
    const std::optional<size_t> reach = stream->reach(range.begin);
    if (!reach || (best != nullptr && *reach <= furthest)) continue;
    best = stream;
    furthest = *reach;
  }
  if (best != nullptr) return best;
  const plan::FileInfo& program = plan.files[range.file];
  std::vector<uint64_t> ends = program.cuts;
  ends.push_back(program.bytes);
  if (runs.size() == kRunsMax) runs.erase(runs.begin() + 1);
  return runs.emplace_back(std::make_shared<ProgramStream>(std::move(ends), program.path));
}

Result<StreamBlockPtr> ProgramStreams::take(const ReadPlan& plan, uint32_t epoch,
                                            const plan::ShardRange& range) {
  const auto start = [&](ProgramStream::Reading& reading) {
    return start_stream(plan, epoch, range, reading);
  };
  for (;;) {
    DP_TRY(StreamBlockPtr block, find(plan, epoch, range)->take(range.begin, start));
    if (block != nullptr) return block;
  }
}

std::shared_ptr<ProgramStreams> make_program_streams() {
  return std::make_shared<ProgramStreams>();
}

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
};

}  // namespace

std::unique_ptr<WindowSource> windows_of(StreamBlockPtr block, std::vector<RecordRef>& records) {
  return std::make_unique<BlockWindows>(std::move(block), records);
}

}  // namespace downpour::data
