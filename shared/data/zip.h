// Zip archives as np.savez writes them (PKWARE, APPNOTE 6.3): where each member's bytes lie.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "shared/data/byte_source.h"

namespace downpour::data {

struct ZipMember {
  std::string name;
  bool deflated = false;  // else stored
  uint64_t bytes = 0;     // as it was before
  uint64_t packed_bytes = 0;
  uint64_t data_offset = 0;  // of its first packed byte in the file
  uint32_t crc32 = 0;
};

/// The members that the central directory lists. Errors: kBadData where it is no whole archive;
/// kUnsupported for encrypted members and other compressions.
Result<std::vector<ZipMember>> list_zip(const File& file);

/// A deflated member's bytes in their order. Error kBadData where they are damaged, are not as many
/// as the directory says, or fail its checksum.
class InflatedMember {
 public:
  InflatedMember(std::shared_ptr<const File> file, ZipMember member);
  ~InflatedMember();
  InflatedMember(const InflatedMember&) = delete;
  InflatedMember& operator=(const InflatedMember&) = delete;
  /// The next `size` bytes, all of them.
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
