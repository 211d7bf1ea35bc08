// ByteSource: yields the bytes of one file in order, plain or decompressed, and checks that the
// file has not changed since the chief saw it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "shared/base/result.h"
#include "shared/plan/shard.h"

namespace downpour::objects {
class ObjectReader;
}

namespace downpour::data {

class ByteSource {
 public:
  virtual ~ByteSource() = default;
  /// Reads up to `size` bytes. Returns 0 at the end of the file. Errors: kIo; kBadData if the file
  /// is cut short or its compressed data are damaged.
  virtual Result<size_t> read(char* to, size_t size) = 0;
  /// Skips the next `bytes` bytes, or to the end of the file.
  virtual Result<void> skip(uint64_t bytes);
  /// Returns how many bytes of the file itself have been used; compressed bytes for a compressed
  /// file.
  virtual uint64_t consumed() const = 0;
  /// Maps offsets of a compressed file to offsets in its decompressed content. Element i is the
  /// number of bytes that the file yields for the bytes before cut i. There is one element for each
  /// cut that read() has reached. The values do not depend on the sizes of the reads.
  virtual std::span<const uint64_t> marks() const { return {}; }
};

/// An open file descriptor, or an object of a store ("s3://bucket/key"). Only one thread may use it
/// at a time.
class File {
 public:
  /// Opens a file or object. Errors: kNoInput if there is none (the hint names the most similar
  /// existing name) or if it is a folder; kPermission; kIo; for an object those of ObjectStore, and
  /// kConfig for bad settings in the environment.
  static Result<File> open(const std::string& path);
  File(File&& other) noexcept;
  File& operator=(File&&) = delete;
  ~File();
  const std::string& path() const { return path_; }
  uint64_t bytes() const { return bytes_; }  // size when it was opened
  /// Reads up to `size` bytes from `offset`; fewer only at the end of the file. Error kBadData if
  /// an object has changed since it was opened.
  Result<size_t> read_at(uint64_t offset, char* to, size_t size) const;
  /// Returns whether the file has become shorter since it was opened.
  bool is_cut() const;
  /// Returns the descriptor, for mapping; -1 for an object.
  int descriptor() const { return fd_; }
  /// Returns the XXH3 hash of the size and of the first and last 64 KiB; for an object the hash of
  /// its size and ETag.
  Result<uint64_t> fingerprint() const;
  /// Returns whether the first bytes identify a compressed format (decompress.h).
  Result<bool> is_compressed() const;

 private:
  File(int fd, uint64_t bytes, std::string path);
  explicit File(std::unique_ptr<objects::ObjectReader> object);
  int fd_;
  uint64_t bytes_;
  std::string path_;
  std::unique_ptr<objects::ObjectReader> object_;  // null for a file
};

/// Reads `file` from `offset` on. Content that is recognized as gzip, zlib or zstd is decompressed;
/// then `offset` must be 0. `cuts` are ascending offsets in a compressed file, see
/// ByteSource::marks().
Result<std::unique_ptr<ByteSource>> open_bytes(File file, uint64_t offset,
                                               std::vector<uint64_t> cuts = {});

/// Opens a file of the plan. Error kBadData naming the file if its size or fingerprint has changed.
Result<File> open_unchanged(const plan::FileInfo& info);

/// Returns the label file of an idx image file ("...images-idx3..." -> "...labels-idx1..."); empty
/// for other names.
std::string idx_labels_path(const std::string& path);

/// Returns a file's fingerprint. For idx images it includes the fingerprint of their label file, if
/// that exists.
Result<uint64_t> fingerprint_of(const File& file);

}  // namespace downpour::data
