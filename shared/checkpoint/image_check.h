// Image checks: header and section table of an image are checked before anything else of it is
// read, and the other bytes are checked against them. Therefore memory is only allocated for images
// that exist.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "shared/base/result.h"
#include "shared/checkpoint/checksum.h"
#include "shared/checkpoint/image_layout.h"
#include "shared/env/storage.h"

namespace downpour::checkpoint {

using ByteSpan = std::span<const uint8_t>;

/// Maximum number of sections of an image: enough for state, markers, and the keys and variables of
/// thousands of tables.
constexpr uint32_t kSectionsMax = 1 << 16;

/// The location of an image, for messages: `path`, and the offset of the image in that file.
struct ImagePlace {
  const std::string& path;
  uint64_t offset = 0;
  /// Returns an error about byte `at` of the image.
  Error bad(uint64_t at, std::string what) const;
  Error bad(uint64_t at, Error cause) const;
};

/// The header and the section table of an image.
struct ImageHead {
  ImageHeader header{};
  std::vector<SectionEntry> entries;
  uint64_t table_end() const { return sizeof(header) + entries.size() * sizeof(SectionEntry); }
};

/// Parses the head of an image of `image_bytes` bytes; `bytes` are the first of them. Checks that
/// the sections follow one another without gaps and fill the image exactly. Errors: kBadData;
/// kUnsupported for a later format.
Result<ImageHead> parse_image_head(ByteSpan bytes, uint64_t image_bytes, const ImagePlace& place);

/// Reads and parses the head of an image in a file, with one or two small reads.
Result<ImageHead> read_image_head(Storage& storage, uint64_t image_bytes, const ImagePlace& place);

/// Checks the bytes after the head, in order: every section must match its checksum, and padding
/// must be zero.
class ContentCheck {
 public:
  ContentCheck(const ImageHead& head, const ImagePlace& place)
      : head_(head), place_(place), position_(head.table_end()) {}
  /// Checks the next bytes, at most up to the end of the image. Error: kBadData, naming the section
  /// or the byte.
  Result<void> add(ByteSpan bytes);

 private:
  Result<void> add_padding(ByteSpan bytes);
  Result<void> end_section();

  const ImageHead& head_;
  const ImagePlace place_;
  uint64_t position_;  // in the image
  size_t section_ = 0;
  Checksum sum_;
};

/// Checks that the bytes of the file after byte `end` are intact images and nothing else. `bytes`
/// is the size of the file.
Result<void> check_rest(Storage& storage, const std::string& path, uint64_t end, uint64_t bytes);

}  // namespace downpour::checkpoint
