// CompressedFile: writes compressed files. decompress.h reads them.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "shared/base/result.h"
#include "shared/data/bytes/decompress.h"
#include "shared/env/storage.h"

namespace downpour::data {

/// A file that takes plain bytes and stores them compressed, or plain.
class CompressedFile {
 public:
  CompressedFile() = default;
  virtual ~CompressedFile() = default;
  CompressedFile(const CompressedFile&) = delete;
  CompressedFile& operator=(const CompressedFile&) = delete;
  virtual Result<void> add(std::string_view bytes) = 0;
  /// Writes the remaining bytes and commits the file.
  virtual Result<void> finish() = 0;
  /// Returns how many bytes have been written to the file.
  virtual uint64_t written() const = 0;
};

/// Creates a writer for kNone, kGzip (level 1 to 9; 0: 6) or kZstd (level 1 to 19; 0: 3). The
/// compressed formats contain a checksum of the content.
std::unique_ptr<CompressedFile> compress_to(std::unique_ptr<OutputFile> file,
                                            Compression compression, int level);

}  // namespace downpour::data
