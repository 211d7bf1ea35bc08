// The bytes of a partition image (see FORMAT.md), and the rules that tables and
// references keep.
#pragma once

#include <cstdint>
#include <span>

#include "shared/base/result.h"
#include "shared/base/units.h"
#include "shared/tensor/variables.h"
#include "shared/wire/messages.h"

namespace downpour::checkpoint {

constexpr uint32_t kFirstImageFormat = 1;    // neither a base nor lines; keys ascending, as in 2, 3
constexpr uint32_t kChainedImageFormat = 2;  // builds on another
constexpr uint32_t kMarkedImageFormat = 3;   // holds lines, with a base or without
constexpr uint32_t kImageFormat = 4;         // the one that is written: rows as they lay in memory
constexpr char kImageMagic[8] = {'D', 'P', 'I', 'M', 'A', 'G', 'E', '\0'};
constexpr uint64_t kImageAlignment = 64;  // of images in a file and of sections in an image
// From format 4 on, large sections can be written from where they are past the page cache.
constexpr uint64_t kLargeSectionBytes = 256 * kKiB;
constexpr uint64_t kLargeSectionAlignment = 4 * kKiB;
constexpr uint32_t kCopiesMax = 16;  // weights and slots: no optimizer comes near

enum class SectionType : uint32_t {
  kState = 1,    // Cap'n Proto PartitionState
  kKeys = 2,     // uint64
  kRows = 3,     // float32: for each key [weights][slot 0]...
  kMarkers = 4,  // Cap'n Proto QuarantineLines
};

struct ImageHeader {
  char magic[8];
  uint32_t format;
  uint32_t partition;
  uint32_t sections;
  uint32_t reserved;
  uint64_t base;  // checksum of the image that it builds on; 0: none
  uint64_t reserved2[2];
  uint64_t bytes;     // of the image, padding included
  uint64_t checksum;  // of the 56 bytes before and of the section table
};
static_assert(sizeof(ImageHeader) == 64);
constexpr size_t kSummedImageHeaderBytes = 56;

struct SectionEntry {
  uint32_t type;
  uint32_t table;           // kKeys, kRows
  uint32_t table_variable;  // kRows
  uint32_t copies;          // kRows: floats stored for each weight, 1 + slots
  uint64_t offset;          // from the image's start
  uint64_t bytes;           // without padding
  uint64_t checksum;
};
static_assert(sizeof(SectionEntry) == 40);

/// What a section of that many bytes begins at a multiple of.
constexpr uint64_t section_alignment(uint32_t format, uint64_t bytes) {
  return format >= kImageFormat && bytes >= kLargeSectionBytes ? kLargeSectionAlignment
                                                               : kImageAlignment;
}
constexpr uint64_t align_up(uint64_t bytes, uint64_t alignment) {
  return (bytes + alignment - 1) / alignment * alignment;
}
/// What a manifest calls the image by: in format 4 of its header and section table, which have the
/// checksums of all else, before it of all its bytes.
uint64_t image_checksum(std::span<const uint8_t> image);
/// Of format 4, from the header and the section table that follows it.
uint64_t image_checksum(const ImageHeader& header, std::span<const SectionEntry> entries);

/// kBadData, of an image or a manifest.
Error bad(std::string what);

/// Sizes a table may have, so that nothing computed from them overflows.
Result<void> validate_table(const TableSpec& table);

/// A plain file name, an aligned offset, a size that is no less than a header, no overflow.
Result<void> validate_image_ref(const wire::ImageRef& ref);

/// A whole image of a partition and what builds on it, each on the one before.
Result<void> validate_chain(std::span<const wire::ImageRef> chain);
/// Images of one chain at the front of `images`: up to the next that is whole.
size_t chain_length(std::span<const wire::ImageRef> images);

/// Floats stored for each weight (1 + slots) if `floats` floats stand under `keys` in member `m`.
/// An error where the keys are no blocks of the variable, or the floats do not divide evenly.
Result<uint32_t> stored_copies(const TableSpec& table, size_t m, std::span<const uint64_t> keys,
                               uint64_t floats);

}  // namespace downpour::checkpoint
