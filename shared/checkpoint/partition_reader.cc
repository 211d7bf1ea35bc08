#include "shared/checkpoint/partition_reader.h"

#include <algorithm>
#include <cstring>
#include <functional>

#include "shared/base/mutate.h"
#include "shared/checkpoint/build_on.h"
#include "shared/checkpoint/checksum.h"
#include "shared/checkpoint/image_layout.h"
#include "shared/checkpoint/paths.h"
#include "shared/checkpoint/schema_codec.h"

namespace downpour::checkpoint {
namespace {

using ByteSpan = std::span<const uint8_t>;

/// One image being read; holds what its error messages need.
class ImageReader {
 public:
  ImageReader(ByteSpan bytes, const std::vector<TableSpec>& tables, const std::string& path,
              uint64_t offset)
      : bytes_(bytes), tables_(tables), path_(path), offset_(offset) {}

  Result<PartitionImage> read() {
    DP_TRY_VOID(verify());
    return read_content();
  }
  /// All but whether the content makes sense.
  Result<void> verify() {
    DP_TRY_VOID(read_header());
    return check_sections();
  }

 private:
  Error bad(uint64_t at, std::string what) const {
    return Error{ErrorCode::kBadData, std::move(what), str(path_, ':', offset_ + at)};
  }
  Error bad(uint64_t at, Error cause) const {
    cause.where = str(path_, ':', offset_ + at);
    return cause;
  }

  /// Header and section table, their checksum first.
  Result<void> read_header() {
    if (bytes_.size() < sizeof(header_))
      return bad(0, str("cut off: an image of ", bytes_.size(), " bytes"));
    std::memcpy(&header_, bytes_.data(), sizeof(header_));
    if (std::memcmp(header_.magic, kImageMagic, sizeof(kImageMagic)) != 0) {
      return bad(0, "no partition image begins here");
    }
    const uint64_t room = (bytes_.size() - sizeof(header_)) / sizeof(SectionEntry);
    if (header_.sections > room)
      return bad(16, str("damaged: ", header_.sections, " sections do not fit"));
    const ByteSpan table = bytes_.subspan(sizeof(header_), header_.sections * sizeof(SectionEntry));
    Checksum sum;
    sum.add(bytes_.first(kSummedImageHeaderBytes));
    sum.add(table);
    if (sum.value() != header_.checksum && !DP_MUTATE("checksum-unchecked"))
      return bad(0, "damaged: the header's checksum does not match");
    if (header_.format < kFirstImageFormat || header_.format > kImageFormat) {
      return Error{ErrorCode::kUnsupported,
                   str("image format ", header_.format, ", this build reads up to ", kImageFormat),
                   str(path_, ':', offset_ + 8), "use the build that wrote it, or a later one"};
    }
    if (header_.bytes != bytes_.size()) {
      return bad(48, str("cut off: ", bytes_.size(), " of ", header_.bytes, " bytes"));
    }
    if (header_.format < kLinedImageFormat &&
        (header_.base != 0) != (header_.format == kChainedImageFormat)) {
      return bad(24, str("an image of format ", header_.format, " with base ", header_.base));
    }
    entries_.resize(header_.sections);
    if (!entries_.empty()) std::memcpy(entries_.data(), table.data(), table.size());
    return {};
  }

  Result<void> check_padding(uint64_t begin, uint64_t end) const {
    const ByteSpan padding = bytes_.subspan(begin, end - begin);
    const auto flaw =
        std::find_if(padding.begin(), padding.end(), [](uint8_t b) { return b != 0; });
    if (flaw == padding.end()) return {};
    return bad(begin + uint64_t(flaw - padding.begin()), "damaged: padding that is not zero");
  }

  /// Sections follow one another without a gap, fill the image, and match their checksums.
  Result<void> check_sections() const {
    const uint64_t table_end = sizeof(header_) + entries_.size() * sizeof(SectionEntry);
    uint64_t end = table_end, widest = kImageAlignment;
    for (size_t s = 0; s < entries_.size(); ++s) {
      const SectionEntry& entry = entries_[s];
      const uint64_t alignment = section_alignment(header_.format, entry.bytes);
      const uint64_t begin = align_up(end, alignment);
      if (entry.offset != begin || begin > bytes_.size() || entry.bytes > bytes_.size() - begin) {
        return bad(end, str("section ", s, " does not lie where it should"));
      }
      DP_TRY_VOID(check_padding(end, begin));
      if (checksum_of(bytes_.subspan(begin, entry.bytes)) != entry.checksum &&
          !DP_MUTATE("checksum-unchecked")) {
        return bad(begin, str("damaged: the checksum of section ", s, " (", entry.bytes,
                              " bytes) does not match"));
      }
      end = begin + entry.bytes;
      widest = std::max(widest, alignment);
    }
    if (align_up(end, widest) != bytes_.size())
      return bad(end, "the image does not end where its last section does");
    return check_padding(end, bytes_.size());
  }

  Result<PartitionImage> read_content() {
    if (!next_is(SectionType::kState))
      return bad(sizeof(header_), "the first section is not the state");
    const SectionEntry& state = entries_[next_++];
    auto image = decode_state(bytes_.subspan(state.offset, state.bytes));
    if (!image) return bad(state.offset, std::move(image).error());
    if (raw(image->partition) != header_.partition) {
      return bad(state.offset, str("state of partition ", image->partition, " in an image of ",
                                   header_.partition));
    }
    image->base = header_.base;
    const bool lined = next_is(SectionType::kLines);
    if (header_.format < kImageFormat && lined != (header_.format == kLinedImageFormat)) {
      return bad(sizeof(header_), str("lines, or none, in an image of format ", header_.format));
    }
    if (lined) {
      const SectionEntry& section = entries_[next_++];
      auto lines = decode_lines(bytes_.subspan(section.offset, section.bytes));
      if (!lines) return bad(section.offset, std::move(lines).error());
      image->lines = std::move(*lines);
    }
    while (next_ < entries_.size()) {
      DP_TRY(TableImage table, read_table());
      if (!image->tables.empty() && image->tables.back().table >= table.table) {
        return bad(sizeof(header_), "tables are not ascending");
      }
      image->tables.push_back(std::move(table));
    }
    return image;
  }

  bool next_is(SectionType type) const {
    return next_ < entries_.size() && entries_[next_].type == uint32_t(type);
  }

  Result<TableImage> read_table() {
    if (!next_is(SectionType::kKeys)) {
      return bad(entries_[next_].offset, str("section ", next_, " is not a table's keys"));
    }
    const SectionEntry& keys = entries_[next_++];
    if (keys.table >= tables_.size()) {
      return bad(keys.offset, str("table ", keys.table, " of a model that has ", tables_.size()));
    }
    TableImage image{.table = TableId(keys.table)};
    DP_TRY_VOID(copy_section(keys, &image.keys));
    const TableSpec& spec = tables_[keys.table];
    for (uint32_t m = 0; m < spec.members.size(); ++m) {
      if (!next_is(SectionType::kRows) || entries_[next_].table != keys.table ||
          entries_[next_].member != m) {
        return bad(keys.offset, str("table ", spec.name, " lacks variable ", spec.members[m].name));
      }
      const SectionEntry& rows = entries_[next_++];
      PageVector<float> floats;
      DP_TRY_VOID(copy_section(rows, &floats));
      auto copies = stored_copies(spec, m, image.keys, floats.size());
      if (!copies)
        return bad(rows.offset,
                   std::move(copies).context("variable ", spec.members[m].name).error());
      if (*copies != rows.copies) {
        return bad(rows.offset, str("variable ", spec.members[m].name, " stores ", *copies,
                                    " floats a weight, not ", rows.copies));
      }
      image.members.push_back(std::move(floats));
    }
    if (header_.format >= kImageFormat && spec.kind == TableKind::kEmbedding) sorter_.sort(image);
    const auto out_of_order =
        std::adjacent_find(image.keys.begin(), image.keys.end(), std::greater_equal<>());
    if (out_of_order != image.keys.end()) {
      return bad(keys.offset, str("key ", *out_of_order, " of table ", spec.name,
                                  " stands twice, or out of order"));
    }
    return image;
  }

  template <typename T>
  Result<void> copy_section(const SectionEntry& entry, PageVector<T>* values) const {
    if (entry.bytes % sizeof(T) != 0)
      return bad(entry.offset, str(entry.bytes, " bytes are not whole elements"));
    values->resize(entry.bytes / sizeof(T));
    if (entry.bytes > 0) std::memcpy(values->data(), bytes_.data() + entry.offset, entry.bytes);
    return {};
  }

  ByteSpan bytes_;
  const std::vector<TableSpec>& tables_;
  const std::string& path_;
  uint64_t offset_;
  ImageHeader header_{};
  std::vector<SectionEntry> entries_;
  size_t next_ = 0;
  RowSorter sorter_;
};

}  // namespace

Result<PartitionImage> decode_image(std::span<const uint8_t> bytes,
                                    const std::vector<TableSpec>& tables, const std::string& path,
                                    uint64_t offset) {
  return ImageReader(bytes, tables, path, offset).read();
}

namespace {

Error not_the_one(const wire::ImageRef& ref, const std::string& path) {
  return Error{ErrorCode::kBadData,
               str("not the image of partition ", ref.partition, " that the manifest names"),
               str(path, ':', ref.offset)};
}

/// Whole in itself, but is it the one? Another incarnation or checkpoint may have left its file
/// here.
Result<PartitionImage> decode_named(std::span<const uint8_t> bytes, const wire::ImageRef& ref,
                                    const std::vector<TableSpec>& tables, const std::string& path) {
  DP_TRY(PartitionImage image, decode_image(bytes, tables, path, ref.offset));
  if ((image_checksum(bytes) != ref.checksum && !DP_MUTATE("checksum-unchecked")) ||
      image.partition != ref.partition || image.base != ref.base) {
    return not_the_one(ref, path);
  }
  return image;
}

}  // namespace

Result<PartitionImage> image_among(std::span<const uint8_t> bytes, const wire::ImageRef& ref,
                                   const std::vector<TableSpec>& tables,
                                   const std::string& source) {
  if (ref.offset > bytes.size() || ref.bytes > bytes.size() - ref.offset) {
    return Error{ErrorCode::kBadData, str("an image beyond the ", bytes.size(), " bytes that came"),
                 str(source, ':', ref.offset)};
  }
  return decode_named(bytes.subspan(ref.offset, ref.bytes), ref, tables, source);
}

Result<void> verify_image(Storage& storage, const std::string& folder, const wire::ImageRef& ref) {
  const std::string path = image_path(folder, ref);
  DP_TRY(const Bytes bytes, storage.read_range(path, ref.offset, ref.bytes));
  const std::vector<TableSpec> no_tables;
  DP_TRY_VOID(ImageReader(bytes.span(), no_tables, path, ref.offset).verify());
  if (image_checksum(bytes.span()) == ref.checksum) return {};
  return not_the_one(ref, path);
}

Result<PartitionImage> read_image(Storage& storage, const std::string& folder,
                                  const wire::ImageRef& ref, const std::vector<TableSpec>& tables) {
  if (auto valid = validate_image_ref(ref); !valid) {
    valid.error().where = folder;
    return std::move(valid).error();
  }
  const std::string path = image_path(folder, ref);
  DP_TRY(const Bytes bytes, storage.read_range(path, ref.offset, ref.bytes));
  return decode_named(bytes.span(), ref, tables, path);
}

Result<PartitionImage> read_partition(Storage& storage, const std::string& folder,
                                      std::span<const wire::ImageRef> chain,
                                      const std::vector<TableSpec>& tables) {
  if (auto valid = validate_chain(chain); !valid) {
    valid.error().where = folder;
    return std::move(valid).error();
  }
  DP_TRY(PartitionImage whole, read_image(storage, folder, chain[0], tables));
  for (const wire::ImageRef& ref : chain.subspan(1)) {
    DP_TRY(PartitionImage next, read_image(storage, folder, ref, tables));
    if (auto built = build_on(whole, std::move(next), tables); !built) {
      built.error().where = str(image_path(folder, ref), ':', ref.offset);
      return std::move(built).error();
    }
  }
  return whole;
}

}  // namespace downpour::checkpoint
