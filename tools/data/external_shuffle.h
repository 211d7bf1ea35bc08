// ExternalShuffle: puts any number of records into a uniformly random order, in bounded memory.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "shared/base/result.h"
#include "shared/base/rng.h"

namespace downpour::tools {

/// Each record goes to a random bucket. Then each bucket in turn is read into memory, shuffled
/// there (Fisher and Yates 1938) and passed to the caller. Every order of all records is equally
/// likely (Sanders 1998, "Random permutations on distributed, external and hierarchical memory"). A
/// bucket that is too large for memory is shuffled by another ExternalShuffle. Buckets are unnamed
/// files, so they disappear however the process ends. The order depends on the records and their
/// order, the seed, memory_bytes and expected_bytes.
class ExternalShuffle {
 public:
  struct Options {
    std::string folder;           // for the files of the buckets
    uint64_t memory_bytes = 0;    // limit of the whole shuffle
    uint64_t expected_bytes = 0;  // size of all records; an estimate is enough
    uint64_t seed = 1;
  };
  explicit ExternalShuffle(Options options);
  ~ExternalShuffle();
  ExternalShuffle(const ExternalShuffle&) = delete;
  ExternalShuffle& operator=(const ExternalShuffle&) = delete;

  using Take = std::function<Result<void>(std::string_view record)>;
  /// Adds a record. Errors: kIo (no space, too many open files), kCannotCreate.
  Result<void> add(std::string_view record);
  /// Passes every record to `take` once. Call add() no more after it.
  Result<void> drain(const Take& take);

  uint64_t records() const { return records_; }
  uint64_t bytes() const { return bytes_; }

 private:
  struct Bucket {
    std::vector<char> buffer;  // records that are not in the file yet
    int fd = -1;
    uint64_t file_bytes = 0, bytes = 0, records = 0;
  };
  Result<void> flush(Bucket& bucket);
  Result<void> drain_bucket(Bucket& bucket, const Take& take);
  Result<void> drain_large(Bucket& bucket, const Take& take);
  Result<void> read(Bucket& bucket, uint64_t offset, char* to, size_t size) const;
  static void close(Bucket& bucket);
  bool fits(const Bucket& bucket) const;  // into memory, together with its list of places
  uint64_t load_limit() const { return options_.memory_bytes / 2; }

  const Options options_;
  size_t buffer_bytes_ = 0;  // per bucket
  Rng rng_;
  std::vector<Bucket> buckets_;
  uint64_t records_ = 0, bytes_ = 0;
};

}  // namespace downpour::tools
