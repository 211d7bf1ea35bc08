#include "shared/data/reading/record_cache.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "shared/data/reading/read_plan.h"

namespace downpour::data {

namespace {

constexpr size_t kCachePieceBytes = size_t{1} << 20;

/// Opens an unlinked file in `folder`. Returns -1 if that is impossible.
int open_unnamed(const std::string& folder) {
  const int file = ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (file >= 0) return file;
  std::string path = folder + "/downpour-cache-XXXXXX";  // for file systems without O_TMPFILE
  const int named = ::mkostemp(path.data(), O_CLOEXEC);
  if (named >= 0) ::unlink(path.c_str());
  return named;
}

}  // namespace

CacheStore::CacheStore(Cache where, uint64_t bytes_max, std::string folder)
    : where_(where), bytes_max_(bytes_max), folder_(std::move(folder)) {}

CacheStore::~CacheStore() {
  if (file_ >= 0) ::close(file_);
}

std::optional<CacheStore::Piece> CacheStore::take(size_t bytes) {
  bytes = std::max((bytes + kPageBytes - 1) / kPageBytes * kPageBytes, kPageBytes);
  const std::lock_guard lock(mutex_);
  const auto full = [&] {
    was_full_ = true;
    return std::optional<Piece>();
  };
  if (used_ + bytes > bytes_max_) return full();
  if (where_ != Cache::kFile) {
    auto* const data = static_cast<char*>(std::malloc(bytes));
    if (data == nullptr) return full();
    used_ += bytes;
    return Piece(*this, data, bytes, 0);
  }
  if (file_ < 0 && (file_ = open_unnamed(folder_)) < 0) return full();
  uint64_t offset = file_bytes_;
  const auto hole = holes_.find(bytes);
  if (hole != holes_.end()) offset = hole->second;
  // Allocate the disk blocks now, because writing to a mapped page of a full disk raises SIGBUS.
  if (hole == holes_.end() && ::posix_fallocate(file_, off_t(offset), off_t(bytes)) != 0)
    return full();
  void* const data =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file_, off_t(offset));
  if (data == MAP_FAILED) return full();
  if (hole != holes_.end()) {
    holes_.erase(hole);
  } else {
    file_bytes_ += bytes;
  }
  used_ += bytes;
  return Piece(*this, static_cast<char*>(data), bytes, offset);
}

void CacheStore::free(char* data, size_t bytes, uint64_t offset) {
  const std::lock_guard lock(mutex_);
  used_ -= bytes;
  if (where_ != Cache::kFile) return std::free(data);
  ::munmap(data, bytes);
  holes_.emplace(bytes, offset);
}

uint64_t CacheStore::used() const {
  const std::lock_guard lock(mutex_);
  return used_;
}

bool CacheStore::was_full() const {
  const std::lock_guard lock(mutex_);
  return was_full_;
}

/// A record of a window: its columns, or the reason why it has none.
struct RecordCache::Row {
  const char* columns = nullptr;  // null: it was not parsed, or the filter dropped it
  uint64_t hash = 0;
  uint32_t begin = 0;  // offset in its window's text
  bool filtered = false;
};

struct RecordCache::Kept {
  struct Stretch {  // the records of one window
    uint64_t offset = 0, begin_progress = 0, end_progress = 0;
    const Row* rows = nullptr;
    size_t count = 0;
    std::span<const RecordOffset> places = {};
  };
  std::shared_ptr<CacheStore> store;  // owns the memory of `pieces`
  std::vector<Stretch> stretches;
  std::vector<CacheStore::Piece> pieces;
  uint64_t first_offset = 0, end_offset = 0;
};

namespace {

using Row = RecordCache::Row;

template <typename T>
char* put(char* to, const T* from, size_t count) {
  std::memcpy(to, from, count * sizeof(T));
  return to + count * sizeof(T);
}
template <typename T>
const char* get(const char* from, T* to, size_t count) {
  std::memcpy(to, from, count * sizeof(T));
  return from + count * sizeof(T);
}

/// Converts a record in Columns to bytes and back: its floats column by column; then for each entry
/// of keys their number (uint32), the keys, and their values if the entry has values.
class ColumnsCodec {
 public:
  explicit ColumnsCodec(const RecordParser& parser) : shapes_(parser.key_shapes()) {
    before_.resize(shapes_.size());
  }

  /// Notes the number of keys before the record. Call it before the record is parsed.
  void begin(const Columns& columns) {
    for (size_t k = 0; k < shapes_.size(); ++k) before_[k] = count_before(columns, k);
  }
  /// Returns the size in bytes of the record that has been parsed since begin().
  size_t bytes(const Columns& columns) const {
    size_t bytes = 0;
    for (const FloatColumn& column : *columns.floats) bytes += column.width * sizeof(float);
    for (size_t k = 0; k < shapes_.size(); ++k) {
      const size_t keys = (*columns.keys)[k].count - before_[k];
      bytes += sizeof(uint32_t) + keys * (shapes_[k].values ? 12 : 8);
    }
    return bytes;
  }
  void write(const Columns& columns, char* to) const {
    for (const FloatColumn& column : *columns.floats)
      to = put(to, &column.values[size_t(columns.record) * column.width], column.width);
    for (size_t k = 0; k < shapes_.size(); ++k) {
      const KeyBuffer& buffer = (*columns.keys)[k];
      const auto count = uint32_t(buffer.count - before_[k]);
      to = put(to, &count, 1);
      to = put(to, buffer.keys.data() + before_[k], count);
      if (shapes_[k].values) to = put(to, buffer.values.data() + before_[k], count);
    }
  }
  void read(const char* from, Columns& columns) const {
    for (FloatColumn& column : *columns.floats)
      from = get(from, &column.values[size_t(columns.record) * column.width], column.width);
    for (size_t k = 0; k < shapes_.size(); ++k) {
      KeyBuffer& buffer = (*columns.keys)[k];
      buffer.count = count_before(columns, k);
      uint32_t count = 0;
      from = get(from, &count, 1);
      buffer.ensure(count);
      from = get(from, buffer.keys.data() + buffer.count, count);
      if (shapes_[k].values) {
        float* const values = buffer.values.data() + buffer.count;
        from = get(from, values, count);
        for (uint32_t i = 0; i < count; ++i) buffer.all_one &= values[i] == 1.0F;
      }
      buffer.count += count;
      if (!buffer.offsets.empty()) buffer.offsets[columns.record + 1] = uint32_t(buffer.count);
    }
  }

 private:
  /// Returns the number of keys before the record. buffer.count may be larger, because it may
  /// include keys of a bad record.
  size_t count_before(const Columns& columns, size_t k) const {
    const KeyBuffer& buffer = (*columns.keys)[k];
    return buffer.offsets.empty() ? columns.record : buffer.offsets[columns.record];
  }

  const std::vector<KeyShape>& shapes_;
  std::vector<size_t> before_;
};

/// Replays kept windows. The `size` of each RecordRef is the index of its row in the window, not a
/// size in bytes.
class KeptWindows final : public WindowSource {
 public:
  KeptWindows(std::shared_ptr<const RecordCache::Kept> kept, std::shared_ptr<const Row*> rows,
              std::unique_ptr<WindowSource> opened, std::vector<RecordRef>& records)
      : kept_(std::move(kept)),
        rows_(std::move(rows)),
        opened_(std::move(opened)),
        records_(records) {}
  Result<bool> next(Window& window) override {
    records_.clear();
    if (at_end()) return false;
    const auto& stretch = kept_->stretches[next_++];
    records_.resize(stretch.count);
    for (uint32_t i = 0; i < stretch.count; ++i)
      records_[i] = {.begin = stretch.rows[i].begin, .size = i};
    *rows_ = stretch.rows;
    window = {.text = reinterpret_cast<const char*>(stretch.rows),  // never dereferenced as text
              .offset = stretch.offset,
              .records = &records_,
              .begin_progress = stretch.begin_progress,
              .end_progress = stretch.end_progress,
              .places = stretch.places};
    return true;
  }
  bool at_end() const override { return next_ == kept_->stretches.size(); }
  uint64_t first_offset() const override { return kept_->first_offset; }
  uint64_t end_offset() const override { return kept_->end_offset; }
  std::string locate(uint64_t offset) override { return opened_->locate(offset); }

 private:
  const std::shared_ptr<const RecordCache::Kept> kept_;
  const std::shared_ptr<const Row*> rows_;
  const std::unique_ptr<WindowSource> opened_;  // locates records for errors
  std::vector<RecordRef>& records_;
  size_t next_ = 0;
};

class KeptParser final : public RecordParser {
 public:
  KeptParser(std::shared_ptr<const Row*> rows, std::unique_ptr<RecordParser> opened)
      : rows_(std::move(rows)), opened_(std::move(opened)), codec_(*opened_) {
    stand_for(*opened_);
  }
  bool parse(const char* begin, const char* end, uint64_t, Columns& columns, Fault&) override {
    const Row& row = row_at(begin, end);
    if (row.filtered) return false;
    DP_CHECK(row.columns != nullptr);  // fails if the first reader did not parse the record
    codec_.read(row.columns, columns);
    return true;
  }
  void prefetch(const char*, size_t size) const override {
    const char* const columns = (*rows_)[size].columns;
    for (size_t line = 0; line < kLinesAhead; ++line) __builtin_prefetch(columns + line * 64);
  }
  uint64_t hash(const char* begin, const char* end) const override {
    return row_at(begin, end).hash;
  }

 private:
  static constexpr size_t kLinesAhead = 6;
  const Row& row_at(const char* begin, const char* end) const {
    return (*rows_)[size_t(uintptr_t(end) - uintptr_t(begin))];
  }
  const std::shared_ptr<const Row*> rows_;
  const std::unique_ptr<RecordParser> opened_;  // owns the field names that faults refer to
  ColumnsCodec codec_;
};

}  // namespace

/// Captures a range while it is read for the first time. Shared by a source and a parser of one
/// thread.
class RangeCapture {
 public:
  RangeCapture(RecordCache& cache, const RecordCache::Key& key) : cache_(cache), key_(key) {
    kept_->store = cache.store_;
  }

  void begin_window(const Window& window) {
    end_window();
    if (spoilt_) return;
    text_ = window.text;
    places_.assign(window.places.begin(), window.places.end());
    stretch_ = {.offset = window.offset,
                .begin_progress = window.begin_progress,
                .end_progress = window.end_progress};
    for (const RecordRef& record : *window.records) {
      const bool dropped = record.size == RecordRef::kDropped;
      spoilt_ |= !record.is_whole() && !dropped;
      rows_.push_back({.begin = record.begin});
      rows_.back().filtered = dropped;
    }
    open_ = true;
  }
  /// Puts the captured records into the cache. Called when the range has been read to its end.
  void end(uint64_t first_offset, uint64_t end_offset) {
    end_window();
    if (spoilt_) return;
    kept_->first_offset = first_offset;
    kept_->end_offset = end_offset;
    cache_.keep(key_, std::move(kept_));
    spoilt_ = true;
  }
  /// Discards the captured records and captures no more. Frees their memory at once.
  void spoil() {
    spoilt_ = true;
    kept_ = std::make_shared<RecordCache::Kept>();
    rows_ = {};
  }
  bool spoilt() const { return spoilt_; }

  /// Returns the row of the record that begins at `text`, or null if it is not in this window.
  Row* row_at(const char* text) {
    const auto begin = size_t(text - text_);
    const auto row = std::lower_bound(rows_.begin(), rows_.end(), begin,
                                      [](const Row& a, uint64_t b) { return a.begin < b; });
    return row != rows_.end() && row->begin == begin ? &*row : nullptr;
  }
  /// Allocates memory for a record's columns. Returns null, and discards the range, if there is
  /// none.
  char* room(size_t bytes) {
    if (bytes > left_) {
      auto piece = cache_.store_->take(std::max(bytes, kCachePieceBytes));
      if (!piece) {
        spoil();
        return nullptr;
      }
      at_ = piece->data();
      left_ = piece->bytes();
      kept_->pieces.push_back(std::move(*piece));
    }
    char* const room = at_;
    at_ += bytes;
    left_ -= bytes;
    return room;
  }

 private:
  void end_window() {
    if (!std::exchange(open_, false) || spoilt_) return;
    const size_t bytes = rows_.size() * sizeof(Row);
    auto piece = cache_.store_->take(bytes);
    if (!piece) return spoil();
    std::memcpy(piece->data(), rows_.data(), bytes);
    stretch_.rows = reinterpret_cast<const Row*>(piece->data());
    stretch_.count = rows_.size();
    kept_->pieces.push_back(std::move(*piece));
    if (!places_.empty()) {
      auto places = cache_.store_->take(places_.size() * sizeof(RecordOffset));
      if (!places) return spoil();
      std::memcpy(places->data(), places_.data(), places_.size() * sizeof(RecordOffset));
      stretch_.places = {reinterpret_cast<const RecordOffset*>(places->data()), places_.size()};
      kept_->pieces.push_back(std::move(*places));
    }
    kept_->stretches.push_back(stretch_);
    rows_.clear();
  }

  RecordCache& cache_;
  const RecordCache::Key key_;
  std::shared_ptr<RecordCache::Kept> kept_ = std::make_shared<RecordCache::Kept>();
  RecordCache::Kept::Stretch stretch_;
  std::vector<Row> rows_;  // records of the window, in file order
  std::vector<RecordOffset> places_;
  const char* text_ = nullptr;
  char* at_ = nullptr;
  size_t left_ = 0;
  bool open_ = false, spoilt_ = false;
};

namespace {

class WatchedWindows final : public WrappedWindows {
 public:
  WatchedWindows(std::unique_ptr<WindowSource> opened, std::shared_ptr<RangeCapture> capture)
      : WrappedWindows(std::move(opened)), capture_(std::move(capture)) {}
  Result<bool> next(Window& window) override {
    DP_TRY(const bool more, inner_->next(window));
    if (more) {
      capture_->begin_window(window);
    } else {
      capture_->end(inner_->first_offset(), inner_->end_offset());
    }
    return more;
  }

 private:
  const std::shared_ptr<RangeCapture> capture_;
};

class WatchedParser final : public RecordParser {
 public:
  WatchedParser(std::unique_ptr<RecordParser> opened, std::shared_ptr<RangeCapture> capture)
      : opened_(std::move(opened)), capture_(std::move(capture)), codec_(*opened_) {
    stand_for(*opened_);
  }
  bool parse(const char* begin, const char* end, uint64_t offset, Columns& columns,
             Fault& fault) override {
    if (capture_->spoilt()) return opened_->parse(begin, end, offset, columns, fault);
    codec_.begin(columns);
    const bool good = opened_->parse(begin, end, offset, columns, fault);
    Row* const row = !good && fault.reason != nullptr ? nullptr : capture_->row_at(begin);
    if (row == nullptr) {
      capture_->spoil();
      return good;
    }
    row->filtered = !good;
    if (!good) return false;
    char* const room = capture_->room(codec_.bytes(columns));
    if (room == nullptr) return true;
    codec_.write(columns, room);
    row->columns = room;
    row->hash = opened_->hash(begin, end);
    return true;
  }
  void prefetch(const char* begin, size_t size) const override { opened_->prefetch(begin, size); }
  uint64_t hash(const char* begin, const char* end) const override {
    return opened_->hash(begin, end);
  }

 private:
  const std::unique_ptr<RecordParser> opened_;
  const std::shared_ptr<RangeCapture> capture_;
  ColumnsCodec codec_;
};

}  // namespace

ShardRecords RecordCache::capture_or_replay(const Key& key, ShardRecords opened,
                                            std::vector<RecordRef>& records) {
  std::shared_ptr<const Kept> kept;
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = kept_.find(key); found != kept_.end()) kept = found->second;
  }
  ShardRecords out;
  if (kept != nullptr) {
    const auto rows = std::make_shared<const Row*>(nullptr);
    out.kept = true;
    out.source =
        std::make_unique<KeptWindows>(std::move(kept), rows, std::move(opened.source), records);
    out.parser = std::make_unique<KeptParser>(rows, std::move(opened.parser));
    return out;
  }
  const auto capture = std::make_shared<RangeCapture>(*this, key);
  out.source = std::make_unique<WatchedWindows>(std::move(opened.source), capture);
  out.parser = std::make_unique<WatchedParser>(std::move(opened.parser), capture);
  return out;
}

std::shared_ptr<CacheStore> make_cache_store(Cache where, uint64_t bytes_max, std::string folder) {
  return std::make_shared<CacheStore>(where, bytes_max, std::move(folder));
}
uint64_t used_bytes(const CacheStore& store) { return store.used(); }
bool was_full(const CacheStore& store) { return store.was_full(); }

std::shared_ptr<const ReadPlan> with_cache(const ReadPlan& plan,
                                           std::shared_ptr<CacheStore> store) {
  auto out = std::make_shared<ReadPlan>(plan);
  out->cache = std::make_shared<RecordCache>(std::move(store));
  return out;
}

void RecordCache::keep(const Key& key, std::shared_ptr<const Kept> kept) {
  const std::lock_guard lock(mutex_);
  kept_.emplace(key, std::move(kept));  // keeps the earlier entry if another reader was faster
}

}  // namespace downpour::data
