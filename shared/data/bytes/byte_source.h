// ByteSource: yields the bytes of one file in order, plain or decompressed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "shared/base/result.h"

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

}  // namespace downpour::data
