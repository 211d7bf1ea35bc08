// Storage: files that survive a crash. Code that needs a disk receives a Storage; the simulator has
// its own implementation.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <sys/stat.h>
#include <vector>

#include "shared/base/bytes.h"
#include "shared/base/result.h"
#include "shared/env/beneath.h"

namespace downpour {

inline std::span<const uint8_t> as_bytes(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

/// A file to append to. After an error every call fails, and no write or fsync is repeated. If a
/// file from Storage::create() is destroyed before commit(), nothing of it remains. Only one thread
/// may use it at a time.
class OutputFile {
 public:
  virtual ~OutputFile() = default;
  virtual Result<void> append(std::span<const uint8_t> bytes) = 0;
  /// Makes the appended bytes durable. A file from Storage::create() also gets its name, and can't
  /// be appended to afterwards.
  virtual Result<void> commit() = 0;
  /// Does the same without making the bytes durable, for files that are not needed after a crash.
  virtual Result<void> commit_volatile() { return commit(); }
};

/// A file system. Paths are used as given. Errors: kNoInput (the file does not exist), kPermission,
/// kCannotCreate (a folder is missing, or the path is that of a folder), kBadData (the file is
/// larger or shorter than the call allows, or not a regular file), kIo. `what` has the operation
/// and the text of errno, and `where` the path. Several threads may use it at the same time.
class Storage {
 public:
  virtual ~Storage() = default;

  /// Reads a whole file. Error kBadData if it has more than `bytes_max` bytes; then no memory is
  /// allocated.
  virtual Result<Bytes> read_file(const std::string& path, uint64_t bytes_max) = 0;
  /// Reads the bytes [offset, offset + bytes). Error kBadData if the file ends before; then no
  /// memory is allocated.
  virtual Result<Bytes> read_range(const std::string& path, uint64_t offset, uint64_t bytes) = 0;
  /// Returns the size of a file in bytes.
  virtual Result<uint64_t> file_bytes(const std::string& path) = 0;
  virtual Result<bool> exists(const std::string& path) = 0;
  /// Returns the names in a folder, ascending, without "." and "..".
  virtual Result<std::vector<std::string>> list(const std::string& folder) = 0;
  /// Makes the next list() show the changes of other machines in the folder. Without this call, a
  /// network file system may return a list that is some seconds old. Ignores errors.
  virtual void refresh(const std::string&) {}

  /// Replaces or creates a file atomically and durably. After a crash the file is completely the
  /// old or the new one.
  virtual Result<void> write_file_atomic(const std::string& path, std::span<const uint8_t> bytes);
  /// Starts to replace or create a file atomically. The file gets its name with commit().
  virtual Result<std::unique_ptr<OutputFile>> create(const std::string& path) = 0;
  /// Does the same for a file of many megabytes that this machine will not read soon. The file may
  /// bypass the page cache, because copying to the cache and writing it back costs processor time.
  virtual Result<std::unique_ptr<OutputFile>> create_large(const std::string& path) {
    return create(path);
  }
  /// Creates a file atomically and durably. Returns false if the name exists already. Of several
  /// callers, exactly one succeeds.
  virtual Result<bool> create_exclusive(const std::string& path,
                                        std::span<const uint8_t> bytes) = 0;
  /// Opens or creates a text file to append lines to, for example an event log. If the file ends
  /// inside a line, because its writer died, a line break is appended. Each commit() is an fsync.
  virtual Result<std::unique_ptr<OutputFile>> open_append(const std::string& path) = 0;

  /// Creates a folder and its parents durably. Succeeds if the folder exists already. An existing
  /// folder in a guarded folder is made durable, too, with its parents there, because the process
  /// that created it may have died before it did so.
  virtual Result<void> make_dirs(const std::string& folder) = 0;
  /// Removes a file or an empty folder. Succeeds if it does not exist.
  virtual Result<void> remove(const std::string& path) = 0;

  /// From now on, no operation follows symbolic links below `folder`. An operation whose path
  /// contains a link fails with kPermission and names the link. remove() removes a link itself. The
  /// path of `folder` itself may contain links. This protects run folders: with a link, another
  /// user with write access to the folder could redirect writes to any file.
  virtual void guard(const std::string& folder) { (void)folder; }
};

/// The file system of the machine.
class PosixStorage : public Storage {
 public:
  Result<Bytes> read_file(const std::string& path, uint64_t bytes_max) override;
  Result<Bytes> read_range(const std::string& path, uint64_t offset, uint64_t bytes) override;
  Result<uint64_t> file_bytes(const std::string& path) override;
  Result<bool> exists(const std::string& path) override;
  Result<std::vector<std::string>> list(const std::string& folder) override;
  void refresh(const std::string& folder) override;
  Result<std::unique_ptr<OutputFile>> create(const std::string& path) override;
  Result<std::unique_ptr<OutputFile>> create_large(const std::string& path) override;
  Result<bool> create_exclusive(const std::string& path, std::span<const uint8_t> bytes) override;
  Result<std::unique_ptr<OutputFile>> open_append(const std::string& path) override;
  Result<void> make_dirs(const std::string& folder) override;
  Result<void> remove(const std::string& path) override;
  void guard(const std::string& folder) override;

  /// Called before each operation that changes the disk ("open", "write", "fsync", "rename",
  /// "link", "mkdir", "remove"). If it returns an errno other than 0, the operation fails with it
  /// instead. Tests of disk faults override it.
  virtual int fault(const char* operation, const std::string& path) {
    (void)operation, (void)path;
    return 0;
  }

 private:
  /// Returns how to open a path: without following links if it is in a guarded folder (beneath.h).
  /// `missing` is the error code if a folder of such a path does not exist.
  Result<Place> place(const std::string& path, ErrorCode missing = ErrorCode::kCannotCreate) const;
  /// Sets `status` to that of `path`. Follows no link in a guarded folder. Returns false if `path`
  /// does not exist.
  Result<bool> look(const std::string& path, struct ::stat* status) const;
  /// Makes the folder of `file` durable. `path` is for messages.
  Result<void> sync_folder_of(const Place& file, const std::string& path);
  /// Creates a new file with a temporary name in the folder of `place`, and opens it with
  /// `more_flags` in addition (may be null). Sets `*more_flags` to 0 if the file system rejects
  /// them.
  Result<int> open_new(const Place& place, const std::string& path, int* more_flags,
                       std::string* temporary);
  friend class PosixOutputFile;

  /// Makes the name of an existing folder durable, and those of its parents in a guarded folder.
  Result<void> sync_names(const std::string& folder);

  mutable std::mutex guard_mutex_;
  std::vector<std::string> guarded_;  // guarded folders, without a slash at the end
  std::set<std::string> durable_;     // folders whose names are durable
};

}  // namespace downpour
