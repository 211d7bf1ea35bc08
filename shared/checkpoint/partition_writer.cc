#include "shared/checkpoint/partition_writer.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "shared/base/check.h"
#include "shared/base/page_vector.h"
#include "shared/base/units.h"
#include "shared/checkpoint/checksum.h"
#include "shared/checkpoint/image_layout.h"
#include "shared/checkpoint/schema_codec.h"

namespace downpour::checkpoint {
namespace {

static_assert(std::endian::native == std::endian::little, "images are little-endian");
static_assert(kLargeSectionBytes >= kPagedBytesMin && kLargeSectionAlignment % kPageBytes == 0,
              "large sections are written from where they are");

constexpr size_t kBufferBytes = kMiB;

using ByteSpan = std::span<const uint8_t>;

template <typename Values>
ByteSpan bytes_of(const Values& values) {
  return {reinterpret_cast<const uint8_t*>(values.data()),
          values.size() * sizeof(typename Values::value_type)};
}

/// A file in memory. Appending to it cannot fail.
class MemoryFile final : public OutputFile {
 public:
  explicit MemoryFile(std::vector<uint8_t>& bytes) : bytes_(bytes) {}
  Result<void> append(std::span<const uint8_t> bytes) override {
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
    return {};
  }
  Result<void> commit() override { return {}; }

 private:
  std::vector<uint8_t>& bytes_;
};

/// The sections of an image in the order in which they are written: state, markers, then for each
/// table its keys and its variables.
struct Plan {
  std::vector<SectionEntry> entries;
  std::vector<ByteSpan> contents;

  void add(SectionEntry entry, ByteSpan content) {
    entry.bytes = content.size();
    entry.checksum = checksum_of(content);
    entries.push_back(entry);
    contents.push_back(content);
  }
};

void plan_table(const TableImage& image, const std::vector<TableSpec>& tables, Plan* plan) {
  const uint32_t table = raw(image.table);
  DP_CHECK(table < tables.size(), table, tables.size());
  DP_CHECK(image.table_variables.size() == tables[table].table_variables.size(), table,
           image.table_variables.size());
  plan->add({.type = uint32_t(SectionType::kKeys), .table = table}, bytes_of(image.keys));
  for (size_t m = 0; m < image.table_variables.size(); ++m) {
    const auto copies =
        stored_copies(tables[table], m, image.keys, image.table_variables[m].size());
    DP_CHECK(copies.has_value(), tables[table].name, m, copies.error().what);
    plan->add({.type = uint32_t(SectionType::kRows),
               .table = table,
               .table_variable = uint32_t(m),
               .copies = *copies},
              bytes_of(image.table_variables[m]));
  }
}

ImageHeader header_of(const PartitionImage& image, Plan* plan) {
  ImageHeader header{};
  std::memcpy(header.magic, kImageMagic, sizeof(header.magic));
  header.format = kImageFormat;
  header.base = image.base;
  header.partition = raw(image.partition);
  header.sections = uint32_t(plan->entries.size());
  uint64_t end = sizeof(header) + plan->entries.size() * sizeof(SectionEntry);
  uint64_t widest = kImageAlignment;
  for (SectionEntry& entry : plan->entries) {
    const uint64_t alignment = section_alignment(kImageFormat, entry.bytes);
    entry.offset = align_up(end, alignment);
    end = entry.offset + entry.bytes;
    widest = std::max(widest, alignment);
  }
  header.bytes = align_up(end, widest);
  Checksum sum;
  sum.add({reinterpret_cast<const uint8_t*>(&header), kSummedImageHeaderBytes});
  sum.add(bytes_of(plan->entries));
  header.checksum = sum.value();
  return header;
}

}  // namespace

ImageFileWriter::ImageFileWriter(std::unique_ptr<OutputFile> file, std::string file_name,
                                 const std::vector<TableSpec>& tables)
    : file_(std::move(file)), file_name_(std::move(file_name)), tables_(&tables) {
  buffer_.reserve(kBufferBytes);
}

Result<ImageFileWriter> ImageFileWriter::create(Storage& storage, const std::string& folder,
                                                const std::string& file_name,
                                                const std::vector<TableSpec>& tables,
                                                ImageUse use) {
  DP_TRY_VOID(storage.make_dirs(folder));
  const std::string path = folder + "/" + file_name;
  DP_TRY(std::unique_ptr<OutputFile> file,
         use == ImageUse::kKept ? storage.create_large(path) : storage.create(path));
  return ImageFileWriter(std::move(file), file_name, tables);
}

Result<void> ImageFileWriter::add(const PartitionImage& image) {
  const std::vector<uint8_t> state = encode_state(image);
  Plan plan;
  plan.add({.type = uint32_t(SectionType::kState)}, state);
  std::vector<uint8_t> markers;
  if (!image.markers.empty()) {
    markers = encode_markers(image.markers);
    plan.add({.type = uint32_t(SectionType::kMarkers)}, markers);
  }
  for (size_t t = 0; t < image.tables.size(); ++t) {
    DP_CHECK(t == 0 || image.tables[t - 1].table < image.tables[t].table, t);
    plan_table(image.tables[t], *tables_, &plan);
  }
  const ImageHeader header = header_of(image, &plan);

  const uint64_t begin = position_;
  DP_TRY_VOID(put({reinterpret_cast<const uint8_t*>(&header), sizeof(header)}));
  DP_TRY_VOID(put(bytes_of(plan.entries)));
  for (size_t s = 0; s < plan.contents.size(); ++s) {
    DP_TRY_VOID(put_zeros(begin + plan.entries[s].offset));
    DP_TRY_VOID(put(plan.contents[s]));
  }
  DP_TRY_VOID(put_zeros(begin + header.bytes));
  refs_.push_back({.partition = image.partition,
                   .file = file_name_,
                   .offset = begin,
                   .bytes = header.bytes,
                   .checksum = image_checksum(header, plan.entries),
                   .base = image.base});
  return {};
}

Result<std::vector<wire::ImageRef>> ImageFileWriter::finish() {
  DP_TRY_VOID(flush());
  DP_TRY_VOID(file_->commit());
  return std::move(refs_);
}

Result<std::vector<wire::ImageRef>> ImageFileWriter::finish_volatile() {
  DP_TRY_VOID(flush());
  DP_TRY_VOID(file_->commit_volatile());
  return std::move(refs_);
}

Result<void> ImageFileWriter::put(ByteSpan bytes) {
  position_ += bytes.size();
  if (bytes.size() >= kPagedBytesMin || buffer_.size() + bytes.size() > kBufferBytes) {
    DP_TRY_VOID(flush());
  }
  if (bytes.size() >= kPagedBytesMin) return file_->append(bytes);
  buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
  return {};
}

/// Fills the file with zeros up to offset `end`.
Result<void> ImageFileWriter::put_zeros(uint64_t end) {
  static constexpr uint8_t kZeros[kLargeSectionAlignment] = {};
  DP_CHECK(position_ <= end && end - position_ <= sizeof(kZeros), position_, end);
  return put({kZeros, end - position_});
}

Result<void> ImageFileWriter::flush() {
  if (buffer_.empty()) return {};
  DP_TRY_VOID(file_->append(buffer_));
  buffer_.clear();
  return {};
}

EncodedImages encode_images(std::span<const PartitionImage> images, const std::string& file_name,
                            const std::vector<TableSpec>& tables) {
  std::vector<uint8_t> bytes;
  ImageFileWriter writer(std::make_unique<MemoryFile>(bytes), file_name, tables);
  for (const PartitionImage& image : images) {
    const Result<void> added = writer.add(image);
    DP_CHECK(added.has_value());
  }
  auto refs = writer.finish_volatile();
  DP_CHECK(refs.has_value());
  return {Bytes::of(std::move(bytes)), *std::move(refs)};
}

Result<std::vector<wire::ImageRef>> write_images(Storage& storage, const std::string& folder,
                                                 const std::string& file_name,
                                                 std::span<const PartitionImage> images,
                                                 const std::vector<TableSpec>& tables) {
  DP_TRY(ImageFileWriter writer, ImageFileWriter::create(storage, folder, file_name, tables));
  for (const PartitionImage& image : images) DP_TRY_VOID(writer.add(image));
  return writer.finish();
}

}  // namespace downpour::checkpoint
