// Image layout: the bytes of a partition image (see FORMAT.md), and the constraints on tables and
// image references.
#pragma once

#include <cstdint>
#include <span>

#include "shared/base/result.h"
#include "shared/base/units.h"
#include "shared/tensor/variables.h"
#include "shared/wire/member_messages.h"

namespace downpour::checkpoint {

constexpr uint32_t kFirstImageFormat = 1;    // neither base nor markers; keys ascend
constexpr uint32_t kChainedImageFormat = 2;  // with a base; keys ascend
constexpr uint32_t kMarkedImageFormat = 3;   // with markers, with or without a base; keys ascend
constexpr uint32_t kImageFormat = 4;  // the format that is written; keys of embeddings in any order
constexpr char kImageMagic[8] = {'D', 'P', 'I', 'M', 'A', 'G', 'E', '\0'};
constexpr uint64_t kImageAlignment = 64;  // of images in a file and of sections in an image
// Since format 4, large sections are aligned so that rows can be written directly from memory,
// without the page cache.
constexpr uint64_t kLargeSectionBytes = 256 * kKiB;
constexpr uint64_t kLargeSectionAlignment = 4 * kKiB;
// maximum of weights and slots together; no optimizer has nearly that many
constexpr uint32_t kCopiesMax = 16;

enum class SectionType : uint32_t {
  kState = 1,    // Cap'n Proto PartitionState
  kKeys = 2,     // uint64
  kRows = 3,     // float32, per key: [weights][slot 0]...[slots of the row]
  kMarkers = 4,  // Cap'n Proto QuarantineMarkers
};

struct ImageHeader {
  char magic[8];
  uint32_t format;
  uint32_t partition;
  uint32_t sections;
  uint32_t reserved;
  uint64_t base;  // checksum of the image that it builds on; 0: a full image
  uint64_t reserved2[2];
  uint64_t bytes;     // of the image, including padding
  uint64_t checksum;  // of the 56 bytes before and of the section table
};
static_assert(sizeof(ImageHeader) == 64);
constexpr size_t kSummedImageHeaderBytes = 56;

struct SectionEntry {
  uint32_t type;
  uint32_t table;           // kKeys, kRows
  uint32_t table_variable;  // kRows
  uint32_t copies;          // kRows: floats stored for each weight, without the slots of rows
  uint64_t offset;          // from the start of the image
  uint64_t bytes;           // without padding
  uint64_t checksum;
};
static_assert(sizeof(SectionEntry) == 40);

/// Returns the alignment of a section of `bytes` bytes.
constexpr uint64_t section_alignment(uint32_t format, uint64_t bytes) {
  return format >= kImageFormat && bytes >= kLargeSectionBytes ? kLargeSectionAlignment
                                                               : kImageAlignment;
}
constexpr uint64_t align_up(uint64_t bytes, uint64_t alignment) {
  return (bytes + alignment - 1) / alignment * alignment;
}
/// Returns the checksum by which a manifest identifies the image. In format 4 it covers the header
/// and the section table, which contain the checksums of all other bytes. In earlier formats it
/// covers all bytes.
uint64_t image_checksum(std::span<const uint8_t> image);
/// Returns that checksum for format 4, from the header and the section table.
uint64_t image_checksum(const ImageHeader& header, std::span<const SectionEntry> entries);

/// Returns the error kBadData for an image or a manifest.
Error bad(std::string what);

/// Checks that the sizes of a table are within limits, so that computations with them cannot
/// overflow.
Result<void> validate_table(const TableSpec& table);

/// Checks that the file name is plain, the offset aligned, the size at least that of a header, and
/// that nothing overflows.
Result<void> validate_image_ref(const wire::ImageRef& ref);

/// Checks that the chain consists of a full image of a partition and the images that build on it,
/// each on the one before.
Result<void> validate_chain(std::span<const wire::ImageRef> chain);
/// Returns the number of images in the first chain of `images`, which ends before the next full
/// image.
size_t chain_length(std::span<const wire::ImageRef> images);

/// Returns the number of floats that variable `m` stores for each row besides those of its weights.
uint64_t row_slots_of(const TableSpec& table, size_t m);

/// Returns the number of floats stored for each weight (1 + slots), if variable `m` has `floats`
/// floats for `keys`, including the slots of rows that its optimizer has. Error: the keys are not
/// blocks of the variable, or the floats are not evenly divisible.
Result<uint32_t> stored_copies(const TableSpec& table, size_t m, std::span<const uint64_t> keys,
                               uint64_t floats);

}  // namespace downpour::checkpoint
