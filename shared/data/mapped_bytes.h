// MappedBytes: a stretch of a file as memory, which stays readable whatever becomes of the file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "shared/data/byte_source.h"

namespace downpour::data {

/// Reading mapped memory whose file has been cut short since, or whose disk fails, raises SIGBUS
/// (mmap(2)). A handler then puts zeros in the page's place and notes that the stretch is torn, so
/// that the reader goes on, and asks is_torn() before it uses what it made of the bytes. One
/// process maps at most kMappedBytesMax stretches at a time. Signals of other addresses go to
/// whoever handled them before.
class MappedBytes {
 public:
  /// Bytes [offset, offset + size) of the file, brought to memory. None: this file, or this system,
  /// can't be mapped, or there are too many; read_at() says why or does as well.
  static std::optional<MappedBytes> map(const File& file, uint64_t offset, size_t size);
  MappedBytes(MappedBytes&& other) noexcept;
  MappedBytes& operator=(MappedBytes&& other) noexcept;
  ~MappedBytes();

  const char* data() const { return begin_ + lead_; }
  /// Whether some of it could not be read, as far as it was asked for until now.
  bool is_torn() const;

 private:
  MappedBytes(size_t slot, char* begin, size_t size, size_t lead)
      : slot_(slot), begin_(begin), size_(size), lead_(lead) {}
  void unmap();

  size_t slot_ = 0;  // in the handler's list
  char* begin_ = nullptr;
  size_t size_ = 0, lead_ = 0;  // mapped; of it before the first byte that was asked for
};

inline constexpr size_t kMappedBytesMax = 1024;

}  // namespace downpour::data
