// Storage: files that survive a crash. Whoever needs a disk is handed one of these; the simulator
// has its own.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
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

/// A file that grows at its end. After an error it refuses everything: no write or fsync is tried
/// again. Destroyed before commit(), a file from Storage::create leaves nothing behind. One thread
/// at a time.
class OutputFile {
 public:
  virtual ~OutputFile() = default;
  virtual Result<void> append(std::span<const uint8_t> bytes) = 0;
  /// Makes what was appended durable. A file from Storage::create also gets its name, and takes no
  /// more.
  virtual Result<void> commit() = 0;
  /// The same without making it durable, for what nobody needs after a crash.
  virtual Result<void> commit_volatile() { return commit(); }
};

/// A file system. Paths are used as given. Errors: kNoInput (not there), kPermission, kCannotCreate
/// (a folder is missing or in the way), kBadData (larger or shorter than the caller may accept),
/// kIo; `what` names the operation and errno's text, `where` the path. May be used by several
/// threads.
class Storage {
 public:
  virtual ~Storage() = default;

  /// A whole file of at most `bytes_max` bytes; nothing is allocated for a larger one.
  virtual Result<Bytes> read_file(const std::string& path, uint64_t bytes_max) = 0;
  /// Bytes [offset, offset + bytes). kBadData where the file ends before; nothing is allocated
  /// then.
  virtual Result<Bytes> read_range(const std::string& path, uint64_t offset, uint64_t bytes) = 0;
  virtual Result<uint64_t> file_bytes(const std::string& path) = 0;
  virtual Result<bool> exists(const std::string& path) = 0;
  /// Names in a folder, ascending; not "." and "..".
  virtual Result<std::vector<std::string>> list(const std::string& folder) = 0;
  /// Makes the next list() show what other machines have changed in the folder. Without it a
  /// network file system may list the folder as it was some seconds ago. Does nothing where that
  /// fails.
  virtual void refresh(const std::string&) {}

  /// Replaces or creates a file: after a crash it is the old or the new one, whole.
  virtual Result<void> write_file_atomic(const std::string& path, std::span<const uint8_t> bytes);
  /// The same for a file written piece by piece: it has its name after commit().
  virtual Result<std::unique_ptr<OutputFile>> create(const std::string& path) = 0;
  /// The same for one of many megabytes that this machine is not about to read. It may go to the
  /// disk past the page cache, whose copying and writing back would take the processor from
  /// whatever else runs.
  virtual Result<std::unique_ptr<OutputFile>> create_large(const std::string& path) {
    return create(path);
  }
  /// Creates a file whole and durable, or answers false where the name is taken; of several callers
  /// one wins.
  virtual Result<bool> create_exclusive(const std::string& path,
                                        std::span<const uint8_t> bytes) = 0;
  /// Opens, or creates, a file to append to: event logs. Each commit() is an fsync.
  virtual Result<std::unique_ptr<OutputFile>> open_append(const std::string& path) = 0;

  /// Makes a folder and its parents, durably; fine where it exists.
  virtual Result<void> make_dirs(const std::string& folder) = 0;
  /// Removes a file or an empty folder; fine where there is none.
  virtual Result<void> remove(const std::string& path) = 0;

  /// From now on no operation follows a symbolic link below `folder`: a link in the way of a path
  /// is an error (kPermission) that names the link, and remove() removes the link itself. `folder`
  /// itself may be reached through links. Protects run folders: through a link, another user with
  /// write access to the folder could redirect writes to any file.
  virtual void guard(const std::string& folder) { (void)folder; }
};

/// The machine's file system.
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

  /// Asked before each operation that changes the disk ("open", "write", "fsync", "rename", "link",
  /// "mkdir", "remove"); an errno other than 0 is reported in its place. The seam for tests of disk
  /// faults.
  virtual int fault(const char* operation, const std::string& path) {
    (void)operation, (void)path;
    return 0;
  }

 private:
  /// Where a path lies. `intent` decides what a missing folder is.
  Result<Place> place(const std::string& path, ErrorCode missing = ErrorCode::kCannotCreate) const;
  /// What `path` is: no link is followed in a guarded folder. False: it is not there.
  Result<bool> look(const std::string& path, struct ::stat* status) const;
  /// Makes the folder that holds `file` durable; `path` for messages.
  Result<void> sync_folder_of(const Place& file, const std::string& path);
  /// `more_flags` may be null; those that the file system does not know are taken out.
  Result<int> open_new(const Place& place, const std::string& path, int* more_flags,
                       std::string* temporary);
  friend class PosixOutputFile;

  mutable std::mutex guard_mutex_;
  std::vector<std::string> guarded_;  // without a slash at the end
};

}  // namespace downpour
