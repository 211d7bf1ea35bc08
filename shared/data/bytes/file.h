// File: an open file or object, its size and its fingerprint.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "shared/base/result.h"
#include "shared/data/bytes/compression.h"
#include "shared/plan/shard.h"

namespace downpour::objects {
class ObjectReader;
}

namespace downpour::data {

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
  /// Returns how the file is compressed, by its first bytes.
  Result<Compression> compression() const;
  Result<bool> is_compressed() const;

 private:
  File(int fd, uint64_t bytes, std::string path);
  explicit File(std::unique_ptr<objects::ObjectReader> object);
  int fd_;
  uint64_t bytes_;
  std::string path_;
  std::unique_ptr<objects::ObjectReader> object_;  // null for a file
};

/// Opens a file of the plan. Error kBadData naming the file if its size or fingerprint has changed.
Result<File> open_unchanged(const plan::FileInfo& info);

/// Returns the label file of an idx image file ("...images-idx3..." -> "...labels-idx1..."); empty
/// for other names.
std::string idx_labels_path(const std::string& path);

/// Returns a file's fingerprint. For idx images it includes the fingerprint of their label file, if
/// that exists.
Result<uint64_t> fingerprint_of(const File& file);

/// Returns the error for a file that changed while it was used. `how` says what differs.
Error changed_error(const std::string& path, const std::string& how);

}  // namespace downpour::data
