// Compression while writing: the other direction of decompress.h.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "shared/base/result.h"
#include "shared/data/decompress.h"
#include "shared/env/storage.h"

namespace downpour::data {

/// A file that takes plain bytes and holds them compressed, or as they are.
class CompressedFile {
 public:
  CompressedFile() = default;
  virtual ~CompressedFile() = default;
  CompressedFile(const CompressedFile&) = delete;
  CompressedFile& operator=(const CompressedFile&) = delete;
  virtual Result<void> add(std::string_view bytes) = 0;
  /// Writes what is left and commits the file.
  virtual Result<void> finish() = 0;
  /// Bytes that have gone to the file.
  virtual uint64_t written() const = 0;
};

/// kNone, kGzip (level 1 to 9; 0: 6) or kZstd (1 to 19; 0: 3), with a checksum of the content.
std::unique_ptr<CompressedFile> compress_to(std::unique_ptr<OutputFile> file,
                                            Compression compression, int level);

}  // namespace downpour::data
