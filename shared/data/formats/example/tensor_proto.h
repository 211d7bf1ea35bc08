// Parser for tensorflow.TensorProto as tf.io.serialize_tensor writes it, read in place.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

#include "shared/data/formats/example/proto_scan.h"

namespace downpour::data {

/// tensorflow.DataType: the types whose elements can be read.
enum class TensorType : uint32_t { kFloat = 1, kString = 7, kInt64 = 9 };

/// Returns "float32" for 1, "float64" for 2, ...
const char* tensor_type_name(uint64_t type);

struct TensorView {
  static constexpr uint32_t kRankMax = 16;
  uint64_t type = 0;
  uint32_t rank = 0;
  int64_t dims[kRankMax] = {};
  uint64_t elements = 1;
  std::string_view content;  // tensor_content: the elements' bytes; if empty, see `message`
  std::string_view message;
  std::span<const int64_t> shape() const { return {dims, rank}; }
};

/// Returns null, or the reason why these bytes are not a tensor. The view points into the bytes.
const char* parse_tensor(std::string_view bytes, TensorView& tensor);

constexpr const char* kTensorCutShort = "is a tensor with fewer values than its shape requires";
constexpr const char* kTensorTooLong = "is a tensor with more values than its shape allows";

/// Iterates over the elements that a tensor lists one by one, in the field of their type. The last
/// listed element repeats until the shape is full. Calls take(WireField), with a number or bytes,
/// until it returns false. Returns false if take() did, or if the tensor is invalid; `reason` then
/// says why.
template <typename Take>
bool each_listed_element(const TensorView& tensor, Take&& take, const char*& reason) {
  const uint32_t list = tensor.type == uint64_t(TensorType::kFloat)    ? 5
                        : tensor.type == uint64_t(TensorType::kString) ? 8
                                                                       : 10;
  const bool strings = list == 8;
  uint64_t count = 0;
  WireField last;
  const auto give = [&](const WireField& value) {
    if (++count > tensor.elements) {
      reason = kTensorTooLong;
      return false;
    }
    last = value;
    return take(value);
  };
  const char* p = tensor.message.data();
  const char* const end = p + tensor.message.size();
  while (p < end) {
    WireField field;
    if ((p = parse_wire_field(p, end, field)) == nullptr) break;
    if (field.tag >> 3 != list) continue;
    if (strings || WireType(field.tag & 7) != WireType::kBytes) {
      if (!give(field)) return false;
      continue;
    }
    const char *at = field.bytes.data(), *const stop = at + field.bytes.size();
    while (at != nullptr && at < stop) {
      WireField value;
      if (list == 10) {
        at = parse_varint(at, stop, value.number);
      } else if (stop - at >= 4) {
        std::memcpy(&value.number, at, 4);
        at += 4;
      } else {
        at = nullptr;
      }
      if (at != nullptr && !give(value)) return false;
    }
    if (at == nullptr) break;
  }
  if (count == 0 && tensor.elements > 0) {
    reason = kTensorCutShort;
    return false;
  }
  while (count < tensor.elements) {
    if (!give(last)) return false;
  }
  return true;
}

/// Calls take(float), take(int64_t) or take(std::string_view), depending on tensor.type (a
/// TensorType), for each element in row-major order, until it returns false. Returns false if
/// take() did, or if the tensor is invalid; `reason` then says why.
template <typename Take>
bool each_element(const TensorView& tensor, Take&& take, const char*& reason) {
  const auto from_content = [&]<typename T>(T value) {
    if (tensor.content.size() != tensor.elements * sizeof(T)) {
      reason = kTensorCutShort;
      return false;
    }
    for (uint64_t i = 0; i < tensor.elements; ++i) {
      std::memcpy(&value, tensor.content.data() + i * sizeof(T), sizeof(T));
      if (!take(value)) return false;
    }
    return true;
  };
  switch (TensorType(tensor.type)) {
    case TensorType::kFloat:
      if (!tensor.content.empty()) return from_content(float{});
      return each_listed_element(
          tensor,
          [&](const WireField& value) {
            const auto bits = uint32_t(value.number);
            float number;
            std::memcpy(&number, &bits, sizeof number);
            return take(number);
          },
          reason);
    case TensorType::kInt64:
      if (!tensor.content.empty()) return from_content(int64_t{});
      return each_listed_element(
          tensor, [&](const WireField& value) { return take(int64_t(value.number)); }, reason);
    case TensorType::kString:
      return each_listed_element(
          tensor, [&](const WireField& value) { return take(value.bytes); }, reason);
  }
  reason = "is a tensor of another type than the field";
  return false;
}

}  // namespace downpour::data
