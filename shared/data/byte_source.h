// ByteSource: the bytes of one file in order, plain or compressed, checked against what the chief
// saw.
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
  /// Up to `size` bytes; 0 at the end of the file. Errors: kIo, kBadData (cut short, damaged
  /// inside).
  virtual Result<size_t> read(char* to, size_t size) = 0;
  /// Goes over the next `bytes` bytes, or to the end of the file.
  virtual Result<void> skip(uint64_t bytes);
  /// Bytes of the file itself that were used so far (compressed ones, where they are).
  virtual uint64_t consumed() const = 0;
  /// Of a compressed file: how many bytes had come out when those before each of its cuts were
  /// used, for as many cuts as read() has come to. However it is read, they are the same.
  virtual std::span<const uint64_t> marks() const { return {}; }
};

/// An open file descriptor, or ("s3://bucket/key") an object of a store, which belongs to one
/// thread at a time.
class File {
 public:
  /// Errors: kNoInput naming the path with the nearest existing name as hint; a folder;
  /// kPermission; kIo; of an object as ObjectStore's, kConfig for the environment's settings.
  static Result<File> open(const std::string& path);
  File(File&& other) noexcept;
  File& operator=(File&&) = delete;
  ~File();
  const std::string& path() const { return path_; }
  uint64_t bytes() const { return bytes_; }  // when it was opened
  /// Up to `size` bytes from `offset`; fewer only at the end of the file. Of an object that changed
  /// since it was opened: kBadData.
  Result<size_t> read_at(uint64_t offset, char* to, size_t size) const;
  /// Whether it has become shorter since it was opened.
  bool is_cut() const;
  /// For mapping it; -1 of an object.
  int descriptor() const { return fd_; }
  /// XXH3 of size and of the first and last 64 KiB; of an object size and ETag, hashed.
  Result<uint64_t> fingerprint() const;
  /// By its first bytes (decompress.h).
  Result<bool> is_compressed() const;

 private:
  File(int fd, uint64_t bytes, std::string path);
  explicit File(std::unique_ptr<objects::ObjectReader> object);
  int fd_;
  uint64_t bytes_;
  std::string path_;
  std::unique_ptr<objects::ObjectReader> object_;  // null for a file
};

/// Reads `file` from `offset` on; gzip, zlib and zstd are recognized by their content, are
/// decompressed, and start at 0 only. `cuts` are places of a compressed file, ascending: see
/// ByteSource::marks().
Result<std::unique_ptr<ByteSource>> open_bytes(File file, uint64_t offset,
                                               std::vector<uint64_t> cuts = {});

/// Opens a file of the plan. Error kBadData naming it if size or fingerprint are not what they
/// were.
Result<File> open_unchanged(const plan::FileInfo& info);

/// The labels beside an idx image file ("...images-idx3..." -> "...labels-idx1..."); empty for
/// other names.
std::string idx_labels_path(const std::string& path);

/// A file's fingerprint; for idx images together with that of their labels, if they are there.
Result<uint64_t> fingerprint_of(const File& file);

}  // namespace downpour::data
