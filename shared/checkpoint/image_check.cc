#include "shared/checkpoint/image_check.h"

#include <algorithm>
#include <cstring>

namespace downpour::checkpoint {
namespace {

/// Enough for the head of nearly every image.
constexpr uint64_t kHeadBytes = 4 * kKiB;

Result<void> check_header(const ImageHeader& header, uint64_t image_bytes,
                          const ImagePlace& place) {
  if (header.format < kFirstImageFormat || header.format > kImageFormat) {
    return Error{ErrorCode::kUnsupported,
                 str("image format ", header.format, ", this build reads up to ", kImageFormat),
                 str(place.path, ':', place.offset + 8),
                 "use the build that wrote it, or a later one"};
  }
  if (header.bytes != image_bytes) {
    return place.bad(
        48, str("the image has ", image_bytes, " bytes, but its header declares ", header.bytes));
  }
  if (header.format < kMarkedImageFormat &&
      (header.base != 0) != (header.format == kChainedImageFormat)) {
    return place.bad(24, str("an image of format ", header.format, " with base ", header.base));
  }
  return {};
}

/// Checks that the sections follow one another without gaps and fill the image.
Result<void> check_layout(const ImageHead& head, uint64_t image_bytes, const ImagePlace& place) {
  uint64_t end = head.table_end(), widest = kImageAlignment;
  for (size_t s = 0; s < head.entries.size(); ++s) {
    const SectionEntry& entry = head.entries[s];
    const uint64_t alignment = section_alignment(head.header.format, entry.bytes);
    const uint64_t begin = align_up(end, alignment);
    if (entry.offset != begin || begin > image_bytes || entry.bytes > image_bytes - begin)
      return place.bad(end, str("section ", s, " is not at its expected offset"));
    end = begin + entry.bytes;
    widest = std::max(widest, alignment);
  }
  if (align_up(end, widest) == image_bytes) return {};
  return place.bad(end, "the image does not end with its last section");
}

}  // namespace

Error ImagePlace::bad(uint64_t at, std::string what) const {
  return Error{ErrorCode::kBadData, std::move(what), str(path, ':', offset + at)};
}

Error ImagePlace::bad(uint64_t at, Error cause) const {
  cause.where = str(path, ':', offset + at);
  return cause;
}

Result<ImageHead> parse_image_head(ByteSpan bytes, uint64_t image_bytes, const ImagePlace& place) {
  ImageHead head;
  ImageHeader& header = head.header;
  if (bytes.size() < sizeof(header))
    return place.bad(0, str("cut off: an image of ", bytes.size(), " bytes"));
  std::memcpy(&header, bytes.data(), sizeof(header));
  if (std::memcmp(header.magic, kImageMagic, sizeof(kImageMagic)) != 0)
    return place.bad(0, "this is not the start of a partition image");
  const uint64_t room = (bytes.size() - sizeof(header)) / sizeof(SectionEntry);
  if (header.sections > room)
    return place.bad(16, str("damaged: ", header.sections, " sections do not fit into the image"));
  const ByteSpan table = bytes.subspan(sizeof(header), header.sections * sizeof(SectionEntry));
  Checksum sum;
  sum.add(bytes.first(kSummedImageHeaderBytes));
  sum.add(table);
  if (sum.value() != header.checksum)
    return place.bad(0, "damaged: the header's checksum does not match");
  DP_TRY_VOID(check_header(header, image_bytes, place));
  head.entries.resize(header.sections);
  if (!table.empty()) std::memcpy(head.entries.data(), table.data(), table.size());
  DP_TRY_VOID(check_layout(head, image_bytes, place));
  return head;
}

Result<ImageHead> read_image_head(Storage& storage, uint64_t image_bytes, const ImagePlace& place) {
  DP_TRY(Bytes bytes,
         storage.read_range(place.path, place.offset, std::min(image_bytes, kHeadBytes)));
  ImageHeader header{};
  if (bytes.size() >= sizeof(header)) std::memcpy(&header, bytes.data(), sizeof(header));
  const bool is_image = std::memcmp(header.magic, kImageMagic, sizeof(kImageMagic)) == 0;
  const uint64_t table_end = sizeof(header) + header.sections * uint64_t{sizeof(SectionEntry)};
  if (is_image && table_end > bytes.size() && header.sections <= kSectionsMax) {
    DP_TRY(bytes, storage.read_range(place.path, place.offset, std::min(image_bytes, table_end)));
  }
  return parse_image_head(bytes.span(), image_bytes, place);
}

Result<void> ContentCheck::add(ByteSpan bytes) {
  const auto take = [&](uint64_t end) {
    const ByteSpan taken = bytes.first(size_t(std::min<uint64_t>(end - position_, bytes.size())));
    bytes = bytes.subspan(taken.size());
    return taken;
  };
  for (; section_ < head_.entries.size(); ++section_) {
    const SectionEntry& entry = head_.entries[section_];
    const uint64_t end = entry.offset + entry.bytes;
    if (position_ < entry.offset) DP_TRY_VOID(add_padding(take(entry.offset)));
    if (position_ < entry.offset) return {};
    const ByteSpan content = take(end);
    sum_.add(content);
    position_ += content.size();
    if (position_ < end) return {};
    DP_TRY_VOID(end_section());
  }
  return add_padding(bytes);
}

Result<void> ContentCheck::add_padding(ByteSpan bytes) {
  const auto flaw = std::find_if(bytes.begin(), bytes.end(), [](uint8_t b) { return b != 0; });
  if (flaw != bytes.end())
    return place_.bad(position_ + uint64_t(flaw - bytes.begin()),
                      "damaged: the padding is not zero");
  position_ += bytes.size();
  return {};
}

Result<void> ContentCheck::end_section() {
  const SectionEntry& entry = head_.entries[section_];
  const uint64_t found = sum_.value();
  sum_ = Checksum();
  if (found == entry.checksum) return {};
  return place_.bad(entry.offset, str("damaged: the checksum of section ", section_, " (",
                                      entry.bytes, " bytes) does not match"));
}

Result<void> check_rest(Storage& storage, const std::string& path, uint64_t end, uint64_t bytes) {
  while (end < bytes) {
    const ImagePlace place{path, end};
    DP_TRY(const Bytes start, storage.read_range(path, end, std::min(bytes - end, kHeadBytes)));
    ImageHeader header{};
    if (start.size() >= sizeof(header)) std::memcpy(&header, start.data(), sizeof(header));
    const bool is_image = std::memcmp(header.magic, kImageMagic, sizeof(kImageMagic)) == 0;
    if (!is_image || header.bytes > bytes - end) {
      return place.bad(0, str("the file has ", bytes - end, " bytes after its last image"));
    }
    DP_TRY(const ImageHead head, read_image_head(storage, header.bytes, place));
    end += head.header.bytes;
  }
  return {};
}

}  // namespace downpour::checkpoint
