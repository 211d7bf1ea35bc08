// The header and the section table of an image, checked before anything else of it is read; and the
// other bytes against them. So the memory that an image takes follows from bytes that are there.
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

/// Sections of an image, at the most: state, lines, keys and variables of many thousand tables.
constexpr uint32_t kSectionsMax = 1 << 16;

/// Where an image lies, for messages: `path` and the image's offset in that file.
struct ImagePlace {
  const std::string& path;
  uint64_t offset = 0;
  /// An error about byte `at` of the image.
  Error bad(uint64_t at, std::string what) const;
  Error bad(uint64_t at, Error cause) const;
};

struct ImageHead {
  ImageHeader header{};
  std::vector<SectionEntry> entries;
  uint64_t table_end() const { return sizeof(header) + entries.size() * sizeof(SectionEntry); }
};

/// The head of an image of `image_bytes`, of which `bytes` are the first. Its sections follow one
/// another without a gap and fill the image exactly. Errors: kBadData; kUnsupported for a later
/// format.
Result<ImageHead> parse_image_head(ByteSpan bytes, uint64_t image_bytes, const ImagePlace& place);

/// The same of an image in a file, in one or two small reads.
Result<ImageHead> read_image_head(Storage& storage, uint64_t image_bytes, const ImagePlace& place);

/// Checks the bytes behind the head, in their order: sections match their checksums, padding is
/// zero.
class ContentCheck {
 public:
  ContentCheck(const ImageHead& head, const ImagePlace& place)
      : head_(head), place_(place), position_(head.table_end()) {}
  /// The next bytes, up to the image's end. Error kBadData naming the section or the byte.
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

/// Checks that what follows byte `end` of a file of `bytes` are whole images and nothing else.
Result<void> check_rest(Storage& storage, const std::string& path, uint64_t end, uint64_t bytes);

}  // namespace downpour::checkpoint
