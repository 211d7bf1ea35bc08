// RecordCache: keeps the parsed records of a range for the next time that the range is read.
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

#include "shared/data/formats/parser.h"
#include "shared/job/job.h"
#include "shared/plan/shard.h"

namespace downpour::data {

/// A store for cached data, up to a limit: memory of the process, or an unlinked file on its disk.
/// Safe to use from any thread.
class CacheStore {
 public:
  /// `folder` holds the file of Cache::kFile.
  CacheStore(Cache where, uint64_t bytes_max, std::string folder);
  ~CacheStore();
  CacheStore(const CacheStore&) = delete;
  CacheStore& operator=(const CacheStore&) = delete;

  /// A piece of the store. Its destructor returns it to the store, which must outlive it.
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
    uint64_t offset_;  // in the file, in bytes
  };
  /// Returns a piece of at least `bytes` bytes, or nothing if the limit is reached or the disk is
  /// full.
  std::optional<Piece> take(size_t bytes);
  uint64_t used() const;
  /// Returns true if take() has ever returned nothing.
  bool was_full() const;

 private:
  void free(char* data, size_t bytes, uint64_t offset);

  const Cache where_;
  const uint64_t bytes_max_;
  const std::string folder_;
  mutable std::mutex mutex_;
  int file_ = -1;
  uint64_t file_bytes_ = 0;
  std::multimap<size_t, uint64_t> holes_;  // freed pieces of the file, by size
  uint64_t used_ = 0;
  bool was_full_ = false;
};

/// Replays ranges whose records have all been parsed once, without reading their text. A replay has
/// the same windows, columns and hashes, so a shard yields the same batches. Random ops and crosses
/// are computed anew each time. A range is not kept if one of its records is bad, or if the store
/// has no room for it. Safe to use from any thread.
class RecordCache {
 public:
  /// All caches of a process share one store.
  explicit RecordCache(std::shared_ptr<CacheStore> store) : store_(std::move(store)) {}

  /// Identifies the cached records: a range, the window size in bytes, and the side of the holdout.
  struct Key {
    plan::ShardRange range;
    size_t window_bytes = 0;
    bool held_out = false;  // the held-out records instead of the training records
    auto operator<=>(const Key& other) const { return tie() <=> other.tie(); }
    bool operator==(const Key& other) const { return tie() == other.tie(); }

   private:
    std::tuple<uint32_t, uint64_t, uint64_t, uint32_t, uint32_t, size_t, bool> tie() const {
      return {range.file,    range.begin,  range.end, range.stream,
              range.modulus, window_bytes, held_out};
    }
  };
  /// Returns `opened` wrapped so that all parsed records are captured. When the range has been read
  /// to its end, the cache keeps them. If the cache already has the range, the result replays the
  /// kept records instead. `records` is memory for the records of one window.
  ShardRecords capture_or_replay(const Key& key, ShardRecords opened,
                                 std::vector<RecordRef>& records);

  /// The kept records of a range.
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
