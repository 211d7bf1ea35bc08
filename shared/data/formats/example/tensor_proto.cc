#include "shared/data/formats/example/tensor_proto.h"

#include <algorithm>

namespace downpour::data {
namespace {

constexpr uint64_t kElementsMax = uint64_t{1} << 32;
// A tensor may have more elements than bytes only up to this number. One listed value may stand for
// all elements.
constexpr uint64_t kSplatMax = uint64_t{1} << 16;

constexpr const char* kNoTensor = "is not a serialized tensor";

/// Parses a TensorShapeProto: dim = 2 { size = 1 }, unknown_rank = 3. Returns null or the reason
/// why the bytes are not a valid shape.
const char* parse_shape(std::string_view bytes, TensorView& tensor) {
  tensor.rank = 0;
  tensor.elements = 1;
  const char* p = bytes.data();
  const char* const end = p + bytes.size();
  while (p < end) {
    WireField field;
    if ((p = parse_wire_field(p, end, field)) == nullptr) return kNoTensor;
    if (field.tag == tag_of(3, WireType::kVarint) && field.number != 0)
      return "is a tensor of unknown rank";
    if (field.tag != tag_of(2, WireType::kBytes)) continue;
    if (tensor.rank == TensorView::kRankMax) return "is a tensor of more than 16 dimensions";
    uint64_t size = 0;
    const char* q = field.bytes.data();
    const char* const stop = q + field.bytes.size();
    while (q < stop) {
      WireField dim;
      if ((q = parse_wire_field(q, stop, dim)) == nullptr) return kNoTensor;
      if (dim.tag == tag_of(1, WireType::kVarint)) size = dim.number;
    }
    if (size > kElementsMax / std::max<uint64_t>(tensor.elements, 1))
      return "is a tensor of more than 4 billion elements";
    tensor.dims[tensor.rank++] = int64_t(size);
    tensor.elements *= size;
  }
  return nullptr;
}

}  // namespace

const char* tensor_type_name(uint64_t type) {
  static constexpr const char* kNames[] = {
      "nothing",   "float32", "float64",    "int32",   "uint8",    "int16",   "int8",     "string",
      "complex64", "int64",   "bool",       "qint8",   "quint8",   "qint32",  "bfloat16", "qint16",
      "quint16",   "uint16",  "complex128", "float16", "resource", "variant", "uint32",   "uint64"};
  return type < std::size(kNames) ? kNames[type] : "an unknown type";
}

const char* parse_tensor(std::string_view bytes, TensorView& tensor) {
  tensor.type = 0;
  tensor.rank = 0;
  tensor.elements = 1;
  tensor.content = {};
  tensor.message = bytes;
  const char* p = bytes.data();
  const char* const end = p + bytes.size();
  while (p < end) {
    WireField field;
    if ((p = parse_wire_field(p, end, field)) == nullptr) return kNoTensor;
    switch (field.tag) {
      case tag_of(1, WireType::kVarint):
        tensor.type = field.number;
        break;
      case tag_of(2, WireType::kBytes):
        if (const char* const reason = parse_shape(field.bytes, tensor)) return reason;
        break;
      case tag_of(4, WireType::kBytes):
        tensor.content = field.bytes;
        break;
      default:
        break;
    }
  }
  if (tensor.type == 0) return kNoTensor;
  if (tensor.elements > std::max<uint64_t>(bytes.size(), kSplatMax))
    return "is a tensor whose shape has more elements than it contains";
  return nullptr;
}

}  // namespace downpour::data
