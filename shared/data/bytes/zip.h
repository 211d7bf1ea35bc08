// Zip archives as np.savez writes them (PKWARE, APPNOTE 6.3): locates the bytes of each member.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "shared/data/bytes/file.h"

namespace downpour::data {

struct ZipMember {
  std::string name;
  bool deflated = false;  // compressed with deflate, otherwise stored
  uint64_t bytes = 0;     // uncompressed
  uint64_t packed_bytes = 0;
  uint64_t data_offset = 0;  // of its first packed byte in the file
  uint32_t crc32 = 0;
};

/// Returns the members listed in the central directory. Errors: kBadData if the archive is not
/// complete; kUnsupported for encrypted members and other compression methods.
Result<std::vector<ZipMember>> list_zip(const File& file);

/// Reads a member that is not deflated, and compares its checksum. Error kBadData if it differs.
Result<void> check_stored(const File& file, const ZipMember& member);

/// Reads the bytes of a deflated member in order. Error kBadData if they are damaged, if their
/// number differs from the directory, or if their checksum does not match.
class InflatedMember {
 public:
  InflatedMember(std::shared_ptr<const File> file, ZipMember member);
  ~InflatedMember();
  InflatedMember(const InflatedMember&) = delete;
  InflatedMember& operator=(const InflatedMember&) = delete;
  /// Reads exactly the next `size` bytes.
  Result<void> read(char* to, size_t size);

 private:
  struct Stream;
  std::shared_ptr<const File> file_;
  ZipMember member_;
  std::unique_ptr<Stream> stream_;
  uint64_t used_ = 0, made_ = 0;
  uint64_t crc_ = 0;
};

}  // namespace downpour::data
