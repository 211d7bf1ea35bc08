#include "tools/data/external_shuffle.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <memory>
#include <unistd.h>
#include <utility>

#include "shared/base/units.h"
#include "shared/env/io_error.h"

namespace downpour::tools {
namespace {

constexpr uint64_t kBucketsMax = 256;  // open files
constexpr size_t kBufferBytesMin = 16 * kKiB, kBufferBytesMax = 2 * kMiB;
constexpr size_t kAhead = 8;  // records to prefetch, because they are read in random order
constexpr size_t kReadBytes = kMiB;
using Length = uint32_t;  // before each record in a bucket

struct Place {
  uint32_t size = 0;
  uint64_t offset = 0;
};

/// Memory per record in addition to its bytes.
constexpr uint64_t kPlaceBytes = sizeof(Place) + sizeof(Length);

Error file_error(const char* operation, const std::string& folder, int error) {
  Error result =
      io_error(str(operation, " of a temporary file").c_str(), folder, error, Intent::kCreate);
  if (error == ENOSPC || error == EDQUOT)
    result.hint =
        "a shuffle needs temporary space of the size of the data: free some space, or choose "
        "another folder with --temporary";
  return result;
}

/// Opens an unnamed temporary file.
Result<int> open_nameless(const std::string& folder) {
  int fd = ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (fd < 0 && (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL)) {
    std::string name = folder + "/.downpour-shuffle-XXXXXX";
    fd = ::mkostemp(name.data(), O_CLOEXEC);
    if (fd >= 0) ::unlink(name.c_str());
  }
  if (fd < 0) return file_error("making", folder, errno);
  return fd;
}

}  // namespace

ExternalShuffle::ExternalShuffle(Options options)
    : options_(std::move(options)), rng_(options_.seed) {
  // Aim at buckets of half the size that fits. Bucket sizes vary randomly, and expected_bytes may
  // be too low.
  const uint64_t wanted = options_.expected_bytes / std::max<uint64_t>(load_limit() / 2, 1) + 1;
  const uint64_t whole = options_.expected_bytes <= load_limit() / 2 ? 1 : wanted;
  buckets_.resize(size_t(std::min(whole, kBucketsMax)));
  buffer_bytes_ = buckets_.size() == 1
                      ? size_t(load_limit())
                      : size_t(std::clamp<uint64_t>(options_.memory_bytes / 4 / buckets_.size(),
                                                    kBufferBytesMin, kBufferBytesMax));
}

ExternalShuffle::~ExternalShuffle() {
  for (Bucket& bucket : buckets_) close(bucket);
}

void ExternalShuffle::close(Bucket& bucket) {
  if (bucket.fd >= 0) ::close(bucket.fd);
  bucket.fd = -1;
  bucket.buffer = {};
}

Result<void> ExternalShuffle::flush(Bucket& bucket) {
  if (bucket.fd < 0) {
    DP_TRY(bucket.fd, open_nameless(options_.folder));
  }
  const char* from = bucket.buffer.data();
  for (size_t left = bucket.buffer.size(); left > 0;) {
    const ssize_t n = ::pwrite(bucket.fd, from, left, off_t(bucket.file_bytes));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return file_error("writing", options_.folder, errno);
    from += n;
    left -= size_t(n);
    bucket.file_bytes += uint64_t(n);
  }
  bucket.buffer.clear();
  return {};
}

Result<void> ExternalShuffle::add(std::string_view record) {
  DP_CHECK(record.size() <= UINT32_MAX, record.size());
  Bucket& bucket = buckets_.size() == 1 ? buckets_[0] : buckets_[rng_.below(buckets_.size())];
  const auto length = Length(record.size());
  const size_t more = sizeof length + record.size();
  if (!bucket.buffer.empty() && bucket.buffer.size() + more > buffer_bytes_)
    DP_TRY_VOID(flush(bucket));
  const size_t at = bucket.buffer.size();
  if (bucket.buffer.capacity() < at + more) {
    bucket.buffer.reserve(
        std::max(at + more, std::min(buffer_bytes_, 2 * bucket.buffer.capacity())));
  }
  bucket.buffer.resize(at + more);
  std::memcpy(bucket.buffer.data() + at, &length, sizeof length);
  std::memcpy(bucket.buffer.data() + at + sizeof length, record.data(), record.size());
  bucket.bytes += more;
  ++bucket.records;
  ++records_;
  bytes_ += record.size();
  return {};
}

Result<void> ExternalShuffle::read(Bucket& bucket, uint64_t offset, char* to, size_t size) const {
  while (size > 0) {
    const ssize_t n = ::pread(bucket.fd, to, size, off_t(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return file_error("reading", options_.folder, errno);
    DP_CHECK(n > 0, offset);
    to += n;
    size -= size_t(n);
    offset += uint64_t(n);
  }
  return {};
}

bool ExternalShuffle::fits(const Bucket& bucket) const {
  return bucket.bytes + bucket.records * sizeof(Place) <= load_limit() + load_limit() / 4;
}

Result<void> ExternalShuffle::drain(const Take& take) {
  const bool in_memory = buckets_.size() == 1 && buckets_[0].fd < 0 && fits(buckets_[0]);
  for (Bucket& bucket : buckets_) {
    if (in_memory) break;
    DP_TRY_VOID(flush(bucket));
    bucket.buffer = {};  // leave the memory to the bucket that is being drained
  }
  for (Bucket& bucket : buckets_) {
    DP_TRY_VOID(drain_bucket(bucket, take));
    close(bucket);
  }
  return {};
}

Result<void> ExternalShuffle::drain_bucket(Bucket& bucket, const Take& take) {
  if (bucket.fd >= 0 && bucket.records > 1 && !fits(bucket)) return drain_large(bucket, take);
  const char* text = bucket.buffer.data();
  std::unique_ptr<char[]> loaded;
  if (bucket.fd >= 0) {
    loaded.reset(new char[size_t(bucket.bytes)]);
    DP_TRY_VOID(read(bucket, 0, loaded.get(), size_t(bucket.bytes)));
    close(bucket);
    text = loaded.get();
  }
  std::vector<Place> places(size_t(bucket.records));
  uint64_t offset = 0;
  for (Place& place : places) {
    Length length;
    std::memcpy(&length, text + offset, sizeof length);
    offset += sizeof length;
    place = {.size = length, .offset = offset};
    offset += length;
  }
  for (size_t i = places.size(); i > 1; --i) std::swap(places[i - 1], places[rng_.below(i)]);
  for (size_t i = 0; i < places.size(); ++i) {
    if (i + kAhead < places.size()) __builtin_prefetch(text + places[i + kAhead].offset);
    DP_TRY_VOID(take({text + places[i].offset, places[i].size}));
  }
  return {};
}

Result<void> ExternalShuffle::drain_large(Bucket& bucket, const Take& take) {
  ExternalShuffle inner({.folder = options_.folder,
                         .memory_bytes = options_.memory_bytes,
                         .expected_bytes = bucket.bytes + bucket.records * kPlaceBytes,
                         .seed = rng_.next()});
  std::vector<char> block;
  size_t used = 0;
  uint64_t offset = 0;
  for (uint64_t i = 0; i < bucket.records; ++i) {
    // First the length of a record must be in the block, then all of the record. Bytes that are
    // missing are read from the file and appended.
    for (size_t need = sizeof(Length);;) {
      if (block.size() - used < need) {
        block.erase(block.begin(), block.begin() + ptrdiff_t(used));
        used = 0;
        const size_t have = block.size();
        const uint64_t more =
            std::min<uint64_t>(std::max(need - have, kReadBytes), bucket.bytes - offset);
        block.resize(have + size_t(more));
        DP_TRY_VOID(read(bucket, offset, block.data() + have, size_t(more)));
        offset += more;
      }
      Length length;
      std::memcpy(&length, block.data() + used, sizeof length);
      if (need == sizeof length && length > 0) {
        need += length;
        continue;
      }
      DP_TRY_VOID(inner.add({block.data() + used + sizeof length, length}));
      used += sizeof length + length;
      break;
    }
  }
  close(bucket);
  block = {};
  return inner.drain(take);
}

}  // namespace downpour::tools
