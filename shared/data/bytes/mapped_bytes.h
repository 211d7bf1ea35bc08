// MappedBytes: maps a range of a file into memory, which stays readable if the file is cut short.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "shared/data/bytes/file.h"

namespace downpour::data {

/// Reading mapped memory raises SIGBUS if the file has been cut short since, or if its disk fails
/// (mmap(2)). A signal handler then replaces the page by zeros and marks the range as torn, so that
/// the reader can continue. The reader must check is_torn() before it uses results made from the
/// bytes. A process maps at most kMappedBytesMax ranges at a time. Signals for other addresses go
/// to the handler that was installed before.
class MappedBytes {
 public:
  /// Maps bytes [offset, offset + size) of the file and loads them into memory. Returns nothing if
  /// this file or system does not support mapping, or if there are too many ranges. Then
  /// File::read_at() works, or reports the reason.
  static std::optional<MappedBytes> map(const File& file, uint64_t offset, size_t size);
  MappedBytes(MappedBytes&& other) noexcept;
  MappedBytes& operator=(MappedBytes&& other) noexcept;
  ~MappedBytes();

  const char* data() const { return begin_ + lead_; }
  /// Returns whether some page that was read so far could not be loaded.
  bool is_torn() const;

 private:
  MappedBytes(size_t slot, char* begin, size_t size, size_t lead)
      : slot_(slot), begin_(begin), size_(size), lead_(lead) {}
  void unmap();

  size_t slot_ = 0;  // in the handler's list
  char* begin_ = nullptr;
  size_t size_ = 0, lead_ = 0;  // mapped bytes; those before the requested offset
};

inline constexpr size_t kMappedBytesMax = 1024;

}  // namespace downpour::data
