#include "shared/checkpoint/partition_reader.h"

#include <algorithm>
#include <cstring>
#include <functional>

#include "shared/checkpoint/build_on.h"
#include "shared/checkpoint/checksum.h"
#include "shared/checkpoint/image_check.h"
#include "shared/checkpoint/image_layout.h"
#include "shared/checkpoint/paths.h"
#include "shared/checkpoint/schema_codec.h"

namespace downpour::checkpoint {
namespace {

/// Maximum memory for verifying an image piece by piece.
constexpr uint64_t kVerifiedBytes = 4 * kMiB;

/// Reads one image; holds what its error messages need.
class ImageReader {
 public:
  ImageReader(ByteSpan bytes, const std::vector<TableSpec>& tables, const std::string& path,
              uint64_t offset)
      : bytes_(bytes), tables_(tables), place_{path, offset} {}

  Result<PartitionImage> read() {
    DP_TRY(head_, parse_image_head(bytes_, bytes_.size(), place_));
    DP_TRY_VOID(ContentCheck(head_, place_).add(bytes_.subspan(head_.table_end())));
    return read_content();
  }

 private:
  template <typename What>
  Error bad(uint64_t at, What&& what) const {
    return place_.bad(at, std::forward<What>(what));
  }

  Result<PartitionImage> read_content() {
    if (!next_is(SectionType::kState))
      return bad(sizeof(ImageHeader), "the first section is not the state");
    const SectionEntry& state = head_.entries[next_++];
    auto image = decode_state(bytes_.subspan(state.offset, state.bytes));
    if (!image) return bad(state.offset, std::move(image).error());
    if (raw(image->partition) != head_.header.partition) {
      return bad(state.offset, str("state of partition ", image->partition, " in an image of ",
                                   head_.header.partition));
    }
    image->base = head_.header.base;
    const bool lined = next_is(SectionType::kMarkers);
    if (head_.header.format < kImageFormat &&
        lined != (head_.header.format == kMarkedImageFormat)) {
      return bad(sizeof(ImageHeader),
                 str("the quarantine markers do not match the image format ", head_.header.format));
    }
    if (lined) {
      const SectionEntry& section = head_.entries[next_++];
      auto markers = decode_markers(bytes_.subspan(section.offset, section.bytes));
      if (!markers) return bad(section.offset, std::move(markers).error());
      image->markers = std::move(*markers);
    }
    while (next_ < head_.entries.size()) {
      DP_TRY(TableImage table, read_table());
      if (!image->tables.empty() && image->tables.back().table >= table.table) {
        return bad(sizeof(ImageHeader), "tables are not ascending");
      }
      image->tables.push_back(std::move(table));
    }
    return image;
  }

  bool next_is(SectionType type) const {
    return next_ < head_.entries.size() && head_.entries[next_].type == uint32_t(type);
  }

  Result<TableImage> read_table() {
    if (!next_is(SectionType::kKeys)) {
      return bad(head_.entries[next_].offset, str("section ", next_, " is not a table's keys"));
    }
    const SectionEntry& keys = head_.entries[next_++];
    if (keys.table >= tables_.size()) {
      return bad(keys.offset,
                 str("table ", keys.table, " of a model with this many tables: ", tables_.size()));
    }
    TableImage image{.table = TableId(keys.table)};
    DP_TRY_VOID(copy_section(keys, &image.keys));
    const TableSpec& spec = tables_[keys.table];
    for (uint32_t m = 0; m < spec.table_variables.size(); ++m) {
      if (!next_is(SectionType::kRows) || head_.entries[next_].table != keys.table ||
          head_.entries[next_].table_variable != m) {
        return bad(keys.offset,
                   str("table ", spec.name, " lacks variable ", spec.table_variables[m].name));
      }
      const SectionEntry& rows = head_.entries[next_++];
      PageVector<float> floats;
      DP_TRY_VOID(copy_section(rows, &floats));
      auto copies = stored_copies(spec, m, image.keys, floats.size());
      if (!copies)
        return bad(rows.offset,
                   std::move(copies).context("variable ", spec.table_variables[m].name).error());
      if (*copies != rows.copies) {
        return bad(rows.offset, str("variable ", spec.table_variables[m].name, " stores ", *copies,
                                    " floats per weight, expected ", rows.copies));
      }
      image.table_variables.push_back(std::move(floats));
    }
    const bool may_be_unsorted = head_.header.format >= kImageFormat;
    if (may_be_unsorted && spec.kind == TableKind::kEmbedding) sorter_.sort(image);
    const auto out_of_order =
        std::adjacent_find(image.keys.begin(), image.keys.end(), std::greater_equal<>());
    if (out_of_order != image.keys.end()) {
      return bad(keys.offset, str("key ", *out_of_order, " of table ", spec.name,
                                  " is a duplicate or out of order"));
    }
    return image;
  }

  template <typename T>
  Result<void> copy_section(const SectionEntry& entry, PageVector<T>* values) const {
    if (entry.bytes % sizeof(T) != 0)
      return bad(entry.offset, str(entry.bytes, " bytes are not a whole number of elements"));
    values->resize(entry.bytes / sizeof(T));
    if (entry.bytes > 0) std::memcpy(values->data(), bytes_.data() + entry.offset, entry.bytes);
    return {};
  }

  ByteSpan bytes_;
  const std::vector<TableSpec>& tables_;
  const ImagePlace place_;
  ImageHead head_;
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

/// Returns the head of the image that `ref` names. From format 4 on, the head proves that it is
/// this image.
Result<ImageHead> named_head(Storage& storage, const std::string& path, const wire::ImageRef& ref) {
  DP_TRY(ImageHead head, read_image_head(storage, ref.bytes, {path, ref.offset}));
  const bool shows = head.header.format >= kImageFormat;
  if (shows && image_checksum(head.header, head.entries) != ref.checksum)
    return not_the_one(ref, path);
  return head;
}

/// Decodes an image and checks that it is the one that `ref` names. Another incarnation or
/// checkpoint may have left an intact file with this name.
Result<PartitionImage> decode_named(std::span<const uint8_t> bytes, const wire::ImageRef& ref,
                                    const std::vector<TableSpec>& tables, const std::string& path) {
  DP_TRY(PartitionImage image, decode_image(bytes, tables, path, ref.offset));
  if (image_checksum(bytes) != ref.checksum || image.partition != ref.partition ||
      image.base != ref.base) {
    return not_the_one(ref, path);
  }
  return image;
}

}  // namespace

Result<PartitionImage> image_among(std::span<const uint8_t> bytes, const wire::ImageRef& ref,
                                   const std::vector<TableSpec>& tables,
                                   const std::string& source) {
  if (ref.offset > bytes.size() || ref.bytes > bytes.size() - ref.offset) {
    return Error{ErrorCode::kBadData,
                 str("the image ends after the ", bytes.size(), " bytes that were received"),
                 str(source, ':', ref.offset)};
  }
  return decode_named(bytes.subspan(ref.offset, ref.bytes), ref, tables, source);
}

Result<void> verify_image(Storage& storage, const std::string& folder, const wire::ImageRef& ref) {
  const std::string path = image_path(folder, ref);
  const ImagePlace place{path, ref.offset};
  DP_TRY(const ImageHead head, named_head(storage, path, ref));
  ContentCheck content(head, place);
  Checksum all;
  for (uint64_t at = 0; at < ref.bytes;) {
    const uint64_t wanted = std::min(ref.bytes - at, kVerifiedBytes);
    DP_TRY(const Bytes piece, storage.read_range(path, ref.offset + at, wanted));
    if (head.header.format < kImageFormat) all.add(piece.span());
    const uint64_t skipped = std::min(head.table_end() - std::min(head.table_end(), at), wanted);
    DP_TRY_VOID(content.add(piece.span().subspan(skipped)));
    at += wanted;
  }
  if (head.header.format >= kImageFormat || all.value() == ref.checksum) return {};
  return not_the_one(ref, path);
}

Result<void> verify_image_head(Storage& storage, const std::string& folder,
                               const wire::ImageRef& ref) {
  DP_TRY_VOID(named_head(storage, image_path(folder, ref), ref));
  return {};
}

Result<PartitionImage> read_image(Storage& storage, const std::string& folder,
                                  const wire::ImageRef& ref, const std::vector<TableSpec>& tables) {
  if (auto valid = validate_image_ref(ref); !valid) {
    valid.error().where = folder;
    return std::move(valid).error();
  }
  const std::string path = image_path(folder, ref);
  // Allocate memory only after the head has confirmed the size, because `ref` may claim any size.
  DP_TRY_VOID(named_head(storage, path, ref));
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
