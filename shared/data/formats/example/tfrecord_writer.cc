#include "shared/data/formats/example/tfrecord_writer.h"

#include "shared/base/units.h"
#include "shared/data/formats/example/example_scan.h"
#include "shared/data/formats/example/tfrecord.h"

namespace downpour::data {
namespace {

constexpr size_t kWriteBytes = kMiB;

void append_varint(std::string& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += char(value | 0x80);
  out += char(value);
}

void append_bytes(std::string& out, uint32_t tag, std::string_view bytes) {
  append_varint(out, tag);
  append_varint(out, bytes.size());
  out += bytes;
}

template <typename T>
void append_raw(std::string& out, const T& value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

}  // namespace

void append_frame(std::string& out, std::string_view record) {
  const uint64_t length = record.size();
  append_raw(out, length);
  append_raw(out, masked_crc32c(reinterpret_cast<const char*>(&length), sizeof length));
  out += record;
  append_raw(out, masked_crc32c(record.data(), record.size()));
}

void ExampleBuilder::add_list(std::string_view name, uint32_t kind) {
  std::string feature, entry;
  append_bytes(feature, kind, list_);
  append_bytes(entry, tag_of(1, WireType::kBytes), name);
  append_bytes(entry, tag_of(2, WireType::kBytes), feature);
  append_bytes(features_, tag_of(1, WireType::kBytes), entry);
}

void ExampleBuilder::add(std::string_view name, std::span<const int64_t> values) {
  std::string packed;
  for (const int64_t value : values) append_varint(packed, uint64_t(value));
  list_.clear();
  if (!values.empty()) append_bytes(list_, kListed, packed);
  add_list(name, kInt64List);
}

void ExampleBuilder::add(std::string_view name, std::span<const float> values) {
  list_.clear();
  if (!values.empty()) {
    append_bytes(list_, kListed,
                 {reinterpret_cast<const char*>(values.data()), values.size_bytes()});
  }
  add_list(name, kFloatList);
}

void ExampleBuilder::add(std::string_view name, std::span<const std::string_view> values) {
  list_.clear();
  for (const std::string_view value : values) append_bytes(list_, kListed, value);
  add_list(name, kBytesList);
}

const std::string& ExampleBuilder::bytes() {
  example_.clear();
  append_bytes(example_, tag_of(1, WireType::kBytes), features_);
  return example_;
}

std::string serialized_tensor(TensorType type, std::span<const int64_t> dims,
                              std::string_view content) {
  std::string shape;
  for (const int64_t d : dims) {
    std::string dim;
    if (d != 0) {
      append_varint(dim, tag_of(1, WireType::kVarint));
      append_varint(dim, uint64_t(d));
    }
    append_bytes(shape, tag_of(2, WireType::kBytes), dim);
  }
  std::string out;
  append_varint(out, tag_of(1, WireType::kVarint));
  append_varint(out, uint64_t(type));
  append_bytes(out, tag_of(2, WireType::kBytes), shape);
  if (!content.empty()) append_bytes(out, tag_of(4, WireType::kBytes), content);
  return out;
}

Result<void> TfrecordWriter::write(std::string_view record) {
  append_frame(buffer_, record);
  return buffer_.size() < kWriteBytes ? Result<void>() : flush();
}

Result<void> TfrecordWriter::flush() {
  DP_TRY_VOID(file_.append(as_bytes(buffer_)));
  buffer_.clear();
  return {};
}

}  // namespace downpour::data
