// PosixOutputFile: the files that PosixStorage writes. Private to shared/env.
#pragma once

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <memory>
#include <string>
#include <unistd.h>
#include <utility>

#include "shared/base/check.h"
#include "shared/base/page_vector.h"
#include "shared/env/beneath.h"
#include "shared/env/io_error.h"
#include "shared/env/storage.h"

namespace downpour {

constexpr off_t kWritebackBytes = 8 << 20;
// For writes that bypass the page cache: the alignment that disks and file systems require of
// address, offset and length, and the number of bytes that are gathered for one write.
constexpr size_t kDirectAlignment = kPageBytes;
constexpr size_t kDirectBytes = 2 << 20;
constexpr uint64_t kTransferBytesMax = uint64_t{1} << 30;  // Linux's limit is just below 2 GiB

/// Appends to a descriptor. If `temporary` is not empty, commit() renames that file to the name of
/// `place`. With gather(), the descriptor may bypass the page cache (O_DIRECT).
class PosixOutputFile final : public OutputFile {
 public:
  PosixOutputFile(PosixStorage& storage, int fd, Place place, std::string path,
                  std::string temporary)
      : storage_(storage),
        fd_(fd),
        place_(std::move(place)),
        path_(std::move(path)),
        temporary_(std::move(temporary)) {}

  /// From now on, gathers bytes in aligned memory and writes them in large pieces. `direct`: the
  /// descriptor has O_DIRECT.
  void gather(bool direct) {
    direct_ = direct;
    gathered_.reset(static_cast<uint8_t*>(std::aligned_alloc(kDirectAlignment, kDirectBytes)));
    DP_CHECK(gathered_ != nullptr, "out of memory for a file's buffer");
  }

  ~PosixOutputFile() override {
    if (!temporary_.empty() &&
        storage_.fault("remove", str(folder_of(path_), "/", temporary_)) == 0) {
      const Place named = place_.sibling(temporary_);
      ::unlinkat(named.fd(), named.name.c_str(), 0);
    }
  }

  Result<void> append(std::span<const uint8_t> bytes) override {
    DP_TRY_VOID(usable());
    while (gathered_ != nullptr && !bytes.empty()) {
      if (const size_t whole = writable_in_place(bytes); whole > 0) {
        if (gathered_bytes_ > 0) DP_TRY_VOID(write_gathered(gathered_bytes_));
        DP_TRY_VOID(write(bytes.first(whole)));
        bytes = bytes.subspan(whole);
        continue;
      }
      const size_t here = std::min(bytes.size(), kDirectBytes - gathered_bytes_);
      std::memcpy(gathered_.get() + gathered_bytes_, bytes.data(), here);
      bytes = bytes.subspan(here);
      gathered_bytes_ += here;
      if (gathered_bytes_ == kDirectBytes) DP_TRY_VOID(write_gathered(kDirectBytes));
    }
    DP_TRY_VOID(write(bytes));
    begin_writeback();
    return {};
  }

  Result<void> commit() override {
    DP_TRY_VOID(write_rest());
    DP_TRY_VOID(sync());
    if (temporary_.empty()) return {};
    DP_TRY_VOID(take_name());
    return storage_.sync_folder_of(place_, path_);
  }

  Result<void> commit_volatile() override {
    DP_TRY_VOID(usable());
    DP_TRY_VOID(write_rest());
    return temporary_.empty() ? Result<void>{} : take_name();
  }

  /// Gives the file its name. It can't be appended to afterwards.
  Result<void> take_name() {
    int error = storage_.fault("rename", path_);
    const Place from = place_.sibling(temporary_);
    if (error == 0 &&
        ::renameat(from.fd(), from.name.c_str(), place_.fd(), place_.name.c_str()) != 0)
      error = errno;
    if (error != 0) return fail("rename", error);
    temporary_.clear();
    failed_ = true;  // rejects further calls
    return {};
  }

  /// Gives the file its name, or returns false if the name exists already. Uses link(2), because
  /// rename(2) would replace the existing file.
  Result<bool> commit_exclusive() {
    DP_TRY_VOID(sync());
    failed_ = true;  // rejects further calls, with or without an error
    int error = storage_.fault("link", path_);
    const Place from = place_.sibling(temporary_);
    if (error == 0 &&
        ::linkat(from.fd(), from.name.c_str(), place_.fd(), place_.name.c_str(), 0) != 0)
      error = errno;
    if (error == EEXIST) return false;
    if (error != 0) return io_error("link", path_, error, Intent::kCreate);
    DP_TRY_VOID(storage_.sync_folder_of(place_, path_));
    return true;  // the destructor unlinks the other name
  }

 private:
  Result<void> usable() const {
    if (!failed_) return {};
    return Error{ErrorCode::kIo, "the file is closed, or an earlier write to it failed", path_};
  }
  Result<void> write(std::span<const uint8_t> bytes) {
    while (!bytes.empty()) {
      if (const int error = storage_.fault("write", path_); error != 0) return fail("write", error);
      const ssize_t n =
          ::write(fd_.get(), bytes.data(), std::min<uint64_t>(bytes.size(), kTransferBytesMax));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0 && errno == EINVAL && leave_direct()) continue;
      if (n < 0) return fail("write", errno);
      bytes = bytes.subspan(size_t(n));
      written_ += n;
      // The remaining bytes are no longer aligned.
      if (size_t(n) % kDirectAlignment != 0 && !bytes.empty()) leave_direct();
    }
    return {};
  }
  /// Returns how many bytes can be written without gathering: whole blocks that are aligned in
  /// memory and in the file; 0 for few bytes.
  size_t writable_in_place(std::span<const uint8_t> bytes) const {
    const bool aligned = std::bit_cast<uintptr_t>(bytes.data()) % kDirectAlignment == 0;
    if (gathered_bytes_ % kDirectAlignment != 0 || !aligned || bytes.size() < kPagedBytesMin)
      return 0;
    return bytes.size() / kDirectAlignment * kDirectAlignment;
  }
  Result<void> write_gathered(size_t bytes) {
    gathered_bytes_ = 0;
    return write({gathered_.get(), bytes});
  }
  /// Writes the gathered bytes, padded with zeros to whole blocks, and then truncates the file to
  /// its size.
  Result<void> write_rest() {
    if (gathered_bytes_ == 0) return {};
    const size_t rest = gathered_bytes_;
    const size_t padded = (rest + kDirectAlignment - 1) / kDirectAlignment * kDirectAlignment;
    std::memset(gathered_.get() + rest, 0, padded - rest);
    DP_TRY_VOID(write_gathered(padded));
    written_ -= off_t(padded - rest);
    int error = storage_.fault("write", path_);
    if (error == 0 && ::ftruncate(fd_.get(), written_) != 0) error = errno;
    return error == 0 ? Result<void>{} : fail("truncate", error);
  }
  /// Removes O_DIRECT from the descriptor, because some file systems open files with it but reject
  /// the writes. Returns false if the descriptor does not have O_DIRECT or if it can't be removed.
  bool leave_direct() {
    if (!std::exchange(direct_, false)) return false;
    const int flags = ::fcntl(fd_.get(), F_GETFL);
    return flags >= 0 && ::fcntl(fd_.get(), F_SETFL, flags & ~O_DIRECT) == 0;
  }
  Result<void> sync() {
    DP_TRY_VOID(usable());
    int error = storage_.fault("fsync", path_);
    if (error == 0 && ::fsync(fd_.get()) != 0) error = errno;
    return error == 0 ? Result<void>{} : fail("fsync", error);
  }
  Error fail(const char* operation, int error) {
    failed_ = true;
    return io_error(operation, path_, error, Intent::kCreate);
  }

  /// Starts to write a large file to the disk early, because fsync would otherwise have to write
  /// all of it. Only a hint; fsync reports any error.
  void begin_writeback() {
    if (temporary_.empty() || direct_ || written_ - writeback_ < kWritebackBytes) return;
    (void)::sync_file_range(fd_.get(), writeback_, written_ - writeback_, SYNC_FILE_RANGE_WRITE);
    writeback_ = written_;
  }

  PosixStorage& storage_;
  Descriptor fd_;
  off_t written_ = 0, writeback_ = 0;
  struct Free {
    void operator()(uint8_t* memory) const { std::free(memory); }
  };
  std::unique_ptr<uint8_t[], Free> gathered_;
  size_t gathered_bytes_ = 0;
  bool direct_ = false;
  Place place_;
  std::string path_;       // for messages
  std::string temporary_;  // name in the same folder; empty if the file has its final name
  bool failed_ = false;
};

}  // namespace downpour
