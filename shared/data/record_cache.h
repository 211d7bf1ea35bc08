// RecordCache: what parsers made of the records of a range, kept for the next time that it is read.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "shared/data/parser.h"
#include "shared/job/job.h"
#include "shared/plan/shard.h"

namespace downpour::data {

/// Memory of the process, or of an unlinked file on its disk, up to a limit. Any thread.
class CacheStore {
 public:
  /// `folder` is where the file of Cache::kFile lies.
  CacheStore(Cache where, uint64_t bytes_max, std::string folder);
  ~CacheStore();
  CacheStore(const CacheStore&) = delete;
  CacheStore& operator=(const CacheStore&) = delete;

  /// A piece that goes back to the store when it is destroyed; the store must outlive it.
  class Piece {
   public:
    Piece(CacheStore& store, char* data, size_t bytes, uint64_t offset)
        : store_(&store), data_(data), bytes_(bytes), offset_(offset) {}
    Piece(Piece&& other) noexcept
        : store_(other.store_),
          data_(std::exchange(other.data_, nullptr)),
          bytes_(other.bytes_),
          offset_(other.offset_) {}
    Piece& operator=(Piece&&) = delete;
    ~Piece() {
      if (data_ != nullptr) store_->free(data_, bytes_, offset_);
    }
    char* data() const { return data_; }
    size_t bytes() const { return bytes_; }

   private:
    CacheStore* store_;
    char* data_;
    size_t bytes_;
    uint64_t offset_;  // in the file
  };
  /// None: there is no room, or the disk is full.
  std::optional<Piece> take(size_t bytes);
  uint64_t used() const;
  /// Whether something found no room.
  bool was_full() const;

 private:
  void free(char* data, size_t bytes, uint64_t offset);

  const Cache where_;
  const uint64_t bytes_max_;
  const std::string folder_;
  mutable std::mutex mutex_;
  int file_ = -1;
  uint64_t file_bytes_ = 0;
  std::multimap<size_t, uint64_t> holes_;  // of the file: pieces that came back, by their size
  uint64_t used_ = 0;
  bool was_full_ = false;
};

/// A range whose records have all been parsed once is given out again without its text: the same
/// windows, the same columns, the same hashes, so that a shard's batches are the same batches. What
/// random ops and crosses make is made anew. A range with a record that could not be read is not
/// kept, nor one for which there is no room. Any thread.
class RecordCache {
 public:
  /// The caches of a process share their store.
  explicit RecordCache(std::shared_ptr<CacheStore> store) : store_(std::move(store)) {}

  /// What is asked for: some of a range's records, in windows of so many bytes.
  struct Key {
    plan::ShardRange range;
    size_t window_bytes = 0;
    bool held_out = false;  // the other side of the holdout
    auto operator<=>(const Key& other) const { return tie() <=> other.tie(); }
    bool operator==(const Key& other) const { return tie() == other.tie(); }

   private:
    std::tuple<uint32_t, uint64_t, uint64_t, uint32_t, uint32_t, size_t, bool> tie() const {
      return {range.file,    range.begin,  range.end, range.stream,
              range.modulus, window_bytes, held_out};
    }
  };
  /// `opened`, which reads the range; or what was kept of it, with the same records; or `opened`,
  /// watched: once all of it has been read, it is kept. `records` is memory for a window's.
  ShardRecords capture_or_replay(const Key& key, ShardRecords opened,
                                 std::vector<RecordRef>& records);

  /// Of a range.
  struct Row;
  struct Kept;

 private:
  friend class RangeCapture;
  void keep(const Key& key, std::shared_ptr<const Kept> kept);

  const std::shared_ptr<CacheStore> store_;
  std::mutex mutex_;
  std::map<Key, std::shared_ptr<const Kept>> kept_;
};

}  // namespace downpour::data
