// ExternalShuffle: any number of records in a uniformly random order, in bounded memory.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "shared/base/result.h"
#include "shared/base/rng.h"

namespace downpour::tools {

/// Each record goes to a bucket drawn by chance; then bucket after bucket is read into memory,
/// shuffled there (Fisher and Yates 1938) and given out. Every order of all records is equally
/// likely (Sanders 1998, "Random permutations on distributed, external and hierarchical memory"). A
/// bucket that is too large for memory is shuffled the same way. Buckets are files without a name,
/// so nothing is left of them however the process ends. The order depends on the records and their
/// order, the seed, the memory and what was expected.
class ExternalShuffle {
 public:
  struct Options {
    std::string folder;           // where the buckets lie
    uint64_t memory_bytes = 0;    // for all of it
    uint64_t expected_bytes = 0;  // of all records; a guess will do
    uint64_t seed = 1;
  };
  explicit ExternalShuffle(Options options);
  ~ExternalShuffle();
  ExternalShuffle(const ExternalShuffle&) = delete;
  ExternalShuffle& operator=(const ExternalShuffle&) = delete;

  using Take = std::function<Result<void>(std::string_view record)>;
  /// Errors: kIo (no space, too many open files), kCannotCreate.
  Result<void> add(std::string_view record);
  /// Gives out every record once. No more add() then.
  Result<void> drain(const Take& take);

  uint64_t records() const { return records_; }
  uint64_t bytes() const { return bytes_; }

 private:
  struct Bucket {
    std::vector<char> buffer;  // what is not in the file yet
    int fd = -1;
    uint64_t file_bytes = 0, bytes = 0, records = 0;
  };
  Result<void> flush(Bucket& bucket);
  Result<void> drain_bucket(Bucket& bucket, const Take& take);
  Result<void> drain_large(Bucket& bucket, const Take& take);
  Result<void> read(Bucket& bucket, uint64_t offset, char* to, size_t size) const;
  static void close(Bucket& bucket);
  bool fits(const Bucket& bucket) const;  // in memory, with what is needed to shuffle it
  uint64_t load_limit() const { return options_.memory_bytes / 2; }

  const Options options_;
  size_t buffer_bytes_ = 0;  // of a bucket
  Rng rng_;
  std::vector<Bucket> buckets_;
  uint64_t records_ = 0, bytes_ = 0;
};

}  // namespace downpour::tools
