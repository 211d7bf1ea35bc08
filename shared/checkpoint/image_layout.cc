#include "shared/checkpoint/image_layout.h"

#include <algorithm>
#include <cstring>

#include "shared/checkpoint/checksum.h"
#include "shared/checkpoint/paths.h"

namespace downpour::checkpoint {
namespace {

constexpr uint32_t kDimMax = 1 << 20;
constexpr uint64_t kElementsMax = uint64_t{1} << 40;
constexpr uint64_t kFileBytesMax = uint64_t{1} << 62;

Result<void> validate_dense(const VariableSpec& variable) {
  uint64_t elements = 1;
  for (const uint32_t d : variable.shape) {
    if (d == 0 || d > kElementsMax / elements)
      return bad(str("variable ", variable.name, " has an invalid shape"));
    elements *= d;
  }
  return {};
}

}  // namespace

Error bad(std::string what) { return Error{ErrorCode::kBadData, std::move(what)}; }

Result<void> validate_table(const TableSpec& table) {
  if (table.table_variables.empty()) return bad(str("table ", table.name, " has no variable"));
  if (table.kind == TableKind::kDense) {
    if (table.table_variables.size() != 1)
      return bad(str("dense table ", table.name, " has several variables"));
    return validate_dense(table.table_variables[0]);
  }
  for (const VariableSpec& table_variable : table.table_variables) {
    if (table_variable.dim == 0 || table_variable.dim > kDimMax) {
      return bad(
          str("variable ", table_variable.name, " has ", table_variable.dim, " floats per row"));
    }
  }
  return {};
}

Result<void> validate_image_ref(const wire::ImageRef& ref) {
  if (!is_plain_name(ref.file)) {
    return bad(str("partition ", ref.partition, ": its file name is not a plain name"));
  }
  if (ref.offset % kImageAlignment != 0 || ref.offset > kFileBytesMax ||
      ref.bytes > kFileBytesMax || ref.bytes < sizeof(ImageHeader)) {
    return bad(str("partition ", ref.partition, ": an image can't have ", ref.bytes,
                   " bytes at offset ", ref.offset));
  }
  return {};
}

Result<void> validate_chain(std::span<const wire::ImageRef> chain) {
  if (chain.empty() || chain[0].base != 0) return bad("a chain of images without a complete image");
  for (size_t i = 1; i < chain.size(); ++i) {
    const wire::ImageRef& ref = chain[i];
    if (ref.base == 0 || ref.base != chain[i - 1].checksum ||
        ref.partition != chain[i - 1].partition) {
      return bad(str("image ", i, " of partition ", chain[0].partition,
                     " does not build on the one before it"));
    }
  }
  return {};
}

uint64_t row_slots_of(const TableSpec& table, size_t m) {
  return downpour::row_slots_of(table.table_variables[m].optimizer);
}

size_t chain_length(std::span<const wire::ImageRef> images) {
  const auto next = std::find_if(images.begin() + (images.empty() ? 0 : 1), images.end(),
                                 [](const wire::ImageRef& ref) { return ref.base == 0; });
  return size_t(next - images.begin());
}

uint64_t image_checksum(const ImageHeader& header, std::span<const SectionEntry> entries) {
  Checksum sum;
  sum.add({reinterpret_cast<const uint8_t*>(&header), sizeof(header)});
  sum.add({reinterpret_cast<const uint8_t*>(entries.data()), entries.size_bytes()});
  return sum.value();
}

uint64_t image_checksum(std::span<const uint8_t> image) {
  ImageHeader header{};
  if (image.size() < sizeof(header)) return checksum_of(image);
  std::memcpy(&header, image.data(), sizeof(header));
  const uint64_t sections = (image.size() - sizeof(header)) / sizeof(SectionEntry);
  if (header.format < kImageFormat || header.sections > sections) return checksum_of(image);
  return checksum_of(image.first(sizeof(header) + header.sections * sizeof(SectionEntry)));
}

Result<uint32_t> stored_copies(const TableSpec& table, size_t m, std::span<const uint64_t> keys,
                               uint64_t floats) {
  // cannot overflow: a file has fewer than 2^60 keys, and a variable at most 2^40 floats
  uint64_t weights = 0;
  if (table.kind == TableKind::kEmbedding) {
    if (keys.size() > floats) return bad(str(floats, " floats for ", keys.size(), " rows"));
    weights = keys.size() * uint64_t{table.table_variables[m].dim};
  } else {
    for (const uint64_t key : keys) {
      if (key >= table.block_count())
        return bad(
            str("block ", key, " of a variable with only this many blocks: ", table.block_count()));
      weights += table.row_floats(m, key);
    }
  }
  const uint64_t in_rows = keys.size() * row_slots_of(table, m);
  if (weights == 0)
    return floats == 0 ? Result<uint32_t>(1) : bad(str(floats, " floats, but no rows"));
  const uint64_t of_weights = floats < in_rows ? 0 : floats - in_rows;
  if (of_weights % weights != 0 || of_weights / weights == 0 || of_weights / weights > kCopiesMax) {
    return bad(str(floats, " floats for ", keys.size(), " rows of ", weights, " weights"));
  }
  return uint32_t(of_weights / weights);
}

}  // namespace downpour::checkpoint
