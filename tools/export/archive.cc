#include "tools/export/archive.h"

#include <algorithm>
#include <array>
#include <bit>
#include <utility>
#include <zlib.h>

#include <nlohmann/json.hpp>

#include "shared/base/bytes.h"
#include "shared/base/check.h"
#include "shared/data/formats/numpy/npy_header.h"

namespace downpour::tools {
namespace {

static_assert(std::endian::native == std::endian::little, "both formats are little-endian");

std::span<const uint8_t> bytes_of(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

/// Appends `value` in `bytes` bytes.
void put(std::string& out, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i, value >>= 8) out.push_back(char(value));
}

/// A zip archive without compression (PKWARE, APPNOTE 6.3.10). All sizes are in the fields of
/// ZIP64, so that arrays of any size have the same form.
class NpzArchive final : public Archive {
 public:
  NpzArchive(std::unique_ptr<OutputFile> file, std::vector<ArraySpec> arrays)
      : file_(std::move(file)), arrays_(std::move(arrays)) {}

  Result<void> begin(const std::string& text_name, const std::string& text) {
    DP_TRY_VOID(begin_member(text_name, text.size()));
    if (!text.empty()) DP_TRY_VOID(write_member(bytes_of(text)));
    return begin_arrays();
  }

  Result<void> append(std::span<const uint8_t> bytes) override {
    while (!bytes.empty()) {
      DP_CHECK(written_ < members_.back().bytes, "more bytes than the arrays have");
      const size_t now = std::min<uint64_t>(bytes.size(), members_.back().bytes - written_);
      DP_TRY_VOID(write_member(bytes.first(now)));
      bytes = bytes.subspan(now);
      DP_TRY_VOID(begin_arrays());
    }
    return {};
  }

  Result<void> finish() override {
    const uint64_t begin = at_;
    for (const Member& member : members_) DP_TRY_VOID(write(directory_entry(member)));
    return finish_directory(begin, at_ - begin);
  }

 private:
  struct Member {
    std::string name;
    uint64_t bytes = 0, offset = 0;
    uint32_t crc32 = 0;
  };
  static constexpr uint16_t kZip64 = 45;            // version of the format
  static constexpr uint16_t kSizesFollow = 1 << 3;  // the data descriptor after a member
  static constexpr uint16_t kUtf8 = 1 << 11;
  static constexpr uint32_t kIn64 = UINT32_MAX;  // the ZIP64 field has the value

  /// Begins the next arrays, up to one that has elements.
  Result<void> begin_arrays() {
    while (written_ == members_.back().bytes && next_ < arrays_.size()) {
      const ArraySpec& array = arrays_[next_++];
      const data::ArrayForm form{.descr = array.type == ElementType::kFloat32 ? "<f4" : "<u8",
                                 .row_shape = {array.shape.begin() + 1, array.shape.end()}};
      const std::string header = data::npy_header(form, array.shape[0]);
      DP_TRY_VOID(begin_member(array.name + ".npy", header.size() + array.bytes()));
      DP_TRY_VOID(write_member(bytes_of(header)));
    }
    return {};
  }

  Result<void> begin_member(const std::string& name, uint64_t bytes) {
    members_.push_back({.name = name, .bytes = bytes, .offset = at_});
    written_ = 0;
    std::string header;
    put(header, 0x04034b50, 4);
    put(header, kZip64, 2);
    put(header, kSizesFollow | kUtf8, 2);
    put(header, 0, 2);           // stored
    put(header, 0x00210000, 4);  // 1980-01-01, so that equal models give equal files
    put(header, 0, 4);           // the checksum follows
    put(header, kIn64, 4);
    put(header, kIn64, 4);
    put(header, name.size(), 2);
    put(header, 20, 2);
    header += name;
    put(header, 1, 2);  // the ZIP64 field
    put(header, 16, 2);
    put(header, bytes, 8);
    put(header, bytes, 8);
    DP_TRY_VOID(write(header));
    return end_member_if_done();
  }

  Result<void> write_member(std::span<const uint8_t> bytes) {
    Member& member = members_.back();
    member.crc32 = uint32_t(::crc32_z(member.crc32, bytes.data(), bytes.size()));
    written_ += bytes.size();
    DP_TRY_VOID(file_->append(bytes));
    at_ += bytes.size();
    return end_member_if_done();
  }

  Result<void> end_member_if_done() {
    const Member& member = members_.back();
    if (written_ < member.bytes) return {};
    std::string descriptor;
    put(descriptor, 0x08074b50, 4);
    put(descriptor, member.crc32, 4);
    put(descriptor, member.bytes, 8);
    put(descriptor, member.bytes, 8);
    return write(descriptor);
  }

  static std::string directory_entry(const Member& member) {
    std::string entry;
    put(entry, 0x02014b50, 4);
    put(entry, kZip64, 2);
    put(entry, kZip64, 2);
    put(entry, kSizesFollow | kUtf8, 2);
    put(entry, 0, 2);
    put(entry, 0x00210000, 4);
    put(entry, member.crc32, 4);
    put(entry, kIn64, 4);
    put(entry, kIn64, 4);
    put(entry, member.name.size(), 2);
    put(entry, 28, 2);
    put(entry, 0, 2 + 2 + 2 + 4);  // no comment, disk 0, no attributes
    put(entry, kIn64, 4);
    entry += member.name;
    put(entry, 1, 2);
    put(entry, 24, 2);
    put(entry, member.bytes, 8);
    put(entry, member.bytes, 8);
    put(entry, member.offset, 8);
    return entry;
  }

  Result<void> finish_directory(uint64_t begin, uint64_t bytes) {
    std::string end;
    put(end, 0x06064b50, 4);
    put(end, 44, 8);
    put(end, kZip64, 2);
    put(end, kZip64, 2);
    put(end, 0, 4 + 4);
    put(end, members_.size(), 8);
    put(end, members_.size(), 8);
    put(end, bytes, 8);
    put(end, begin, 8);
    put(end, 0x07064b50, 4);
    put(end, 0, 4);
    put(end, at_, 8);  // of the record above
    put(end, 1, 4);
    put(end, 0x06054b50, 4);
    put(end, 0, 2 + 2);
    put(end, UINT16_MAX, 2);
    put(end, UINT16_MAX, 2);
    put(end, kIn64, 4);
    put(end, kIn64, 4);
    put(end, 0, 2);
    DP_TRY_VOID(write(end));
    return file_->commit();
  }

  Result<void> write(const std::string& text) {
    at_ += text.size();
    return file_->append(bytes_of(text));
  }

  std::unique_ptr<OutputFile> file_;
  std::vector<ArraySpec> arrays_;
  std::vector<Member> members_;
  size_t next_ = 0;       // array that begins after the current member
  uint64_t written_ = 0;  // bytes of the current member
  uint64_t at_ = 0;       // bytes of the file
};

/// https://huggingface.co/docs/safetensors: the size of the header, the header as JSON, and the
/// bytes of all arrays.
class SafetensorsArchive final : public Archive {
 public:
  explicit SafetensorsArchive(std::unique_ptr<OutputFile> file) : file_(std::move(file)) {}

  Result<void> begin(const std::vector<ArraySpec>& arrays, const std::string& text_name,
                     const std::string& text) {
    nlohmann::ordered_json header;
    header["__metadata__"] = {{text_name, text}};
    uint64_t at = 0;
    for (const ArraySpec& array : arrays) {
      header[array.name] = {{"dtype", array.type == ElementType::kFloat32 ? "F32" : "U64"},
                            {"shape", array.shape},
                            {"data_offsets", {at, at + array.bytes()}}};
      at += array.bytes();
    }
    std::string json = header.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    json.append((8 - json.size() % 8) % 8, ' ');  // aligns the arrays
    std::string size;
    put(size, json.size(), 8);
    return file_->append(bytes_of(size + json));
  }

  Result<void> append(std::span<const uint8_t> bytes) override { return file_->append(bytes); }
  Result<void> finish() override { return file_->commit(); }

 private:
  std::unique_ptr<OutputFile> file_;
};

}  // namespace

uint64_t ArraySpec::bytes() const {
  uint64_t product = type == ElementType::kFloat32 ? sizeof(float) : sizeof(uint64_t);
  for (const uint64_t d : shape) product *= d;
  return product;
}

Result<std::unique_ptr<Archive>> create_archive(Storage& storage, const std::string& path,
                                                ArchiveFormat format, std::vector<ArraySpec> arrays,
                                                const std::string& text_name,
                                                const std::string& text) {
  DP_TRY(auto file, storage.create(path));
  if (format == ArchiveFormat::kNpz) {
    auto archive = std::make_unique<NpzArchive>(std::move(file), std::move(arrays));
    DP_TRY_VOID(archive->begin(text_name, text));
    return std::unique_ptr<Archive>(std::move(archive));
  }
  auto archive = std::make_unique<SafetensorsArchive>(std::move(file));
  DP_TRY_VOID(archive->begin(arrays, text_name, text));
  return std::unique_ptr<Archive>(std::move(archive));
}

}  // namespace downpour::tools
