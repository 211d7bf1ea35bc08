#include "tools/export/onnx_file.h"

#include <bit>
#include <cstring>

#include "shared/base/str.h"

namespace downpour::tools {
namespace {

static_assert(std::endian::native == std::endian::little, "raw data of a tensor is little-endian");

constexpr uint64_t kIrVersion = 8, kOpsetVersion = 17;
// Values of onnx.proto.
constexpr uint64_t kFloat = 1, kInt64 = 7;  // TensorProto.DataType
constexpr uint64_t kAttributeFloat = 1, kAttributeInt = 2, kAttributeInts = 7;  // AttributeType

// A protocol buffer is a sequence of fields: the number of the field with the type of its value,
// then the value.

void put_varint(std::string& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) out.push_back(char(value | 0x80));
  out.push_back(char(value));
}

void put_number(std::string& out, uint32_t field, uint64_t value) {
  put_varint(out, field << 3);
  put_varint(out, value);
}

void put_float(std::string& out, uint32_t field, float value) {
  put_varint(out, field << 3 | 5);
  char bytes[sizeof(value)];
  std::memcpy(bytes, &value, sizeof(value));
  out.append(bytes, sizeof(value));
}

/// Puts a text, bytes or an encoded message.
void put_text(std::string& out, uint32_t field, std::string_view text) {
  put_varint(out, field << 3 | 2);
  put_varint(out, text.size());
  out += text;
}

std::string number_field(uint32_t field, uint64_t value) {
  std::string out;
  put_number(out, field, value);
  return out;
}

std::string text_field(uint32_t field, std::string_view text) {
  std::string out;
  put_text(out, field, text);
  return out;
}

/// Returns a ValueInfoProto: float32 [records, width].
std::string value_info(const std::string& name, uint32_t width, const std::string& doc) {
  const std::string records = text_field(2, "records");  // Dimension.dim_param
  const std::string columns = number_field(1, width);    // Dimension.dim_value
  const std::string shape = text_field(1, records) + text_field(1, columns);
  const std::string tensor = number_field(1, kFloat) + text_field(2, shape);
  const std::string type = text_field(1, tensor);
  const std::string info = text_field(1, name) + text_field(2, type);
  return doc.empty() ? info : info + text_field(3, doc);
}

template <typename T>
std::string tensor(const std::string& name, const std::vector<int64_t>& shape, uint64_t type,
                   std::span<const T> values) {
  std::string out;
  for (const int64_t d : shape) put_number(out, 1, uint64_t(d));
  put_number(out, 2, type);
  put_text(out, 8, name);
  put_text(out, 9, {reinterpret_cast<const char*>(values.data()), values.size_bytes()});
  return out;
}

std::string encoded(const OnnxAttribute& attribute) {
  std::string out;
  put_text(out, 1, attribute.name);
  switch (attribute.type) {
    case OnnxAttribute::Type::kFloat:
      put_float(out, 2, attribute.number);
      put_number(out, 20, kAttributeFloat);
      break;
    case OnnxAttribute::Type::kInt:
      put_number(out, 3, uint64_t(attribute.integers.at(0)));
      put_number(out, 20, kAttributeInt);
      break;
    case OnnxAttribute::Type::kInts:
      for (const int64_t i : attribute.integers) put_number(out, 8, uint64_t(i));
      put_number(out, 20, kAttributeInts);
      break;
  }
  return out;
}

}  // namespace

std::string OnnxFile::name(std::string wanted) {
  while (!names_.insert(wanted).second) wanted += '_';
  return wanted;
}

void OnnxFile::add_input(const std::string& name, uint32_t width, const std::string& doc) {
  put_text(inputs_, 11, value_info(name, width, doc));
}

void OnnxFile::add_output(const std::string& name, uint32_t width, const std::string& doc) {
  put_text(outputs_, 12, value_info(name, width, doc));
}

std::string OnnxFile::add_floats(const std::string& wanted, const std::vector<int64_t>& shape,
                                 std::span<const float> values) {
  std::string weights = name(wanted);
  put_text(weights_, 5, tensor(weights, shape, kFloat, values));
  weight_bytes_ += values.size_bytes();
  return weights;
}

std::string OnnxFile::add_integers(const std::string& wanted, std::span<const int64_t> values) {
  std::string integers = name(wanted);
  put_text(weights_, 5, tensor(integers, {int64_t(values.size())}, kInt64, values));
  return integers;
}

std::string OnnxFile::add_node(const std::string& op, const std::vector<std::string>& inputs,
                               const std::vector<OnnxAttribute>& attributes,
                               const std::string& result) {
  const std::string output = result.empty() ? name(str("/", op, "/", names_.size())) : result;
  std::string node;
  for (const std::string& input : inputs) put_text(node, 1, input);
  put_text(node, 2, output);
  put_text(node, 3, output);
  put_text(node, 4, op);
  for (const OnnxAttribute& attribute : attributes) put_text(node, 5, encoded(attribute));
  put_text(nodes_, 1, node);
  return output;
}

void OnnxFile::add_metadata(const std::string& key, const std::string& text) {
  put_text(metadata_, 14, text_field(1, key) + text_field(2, text));
}

std::string OnnxFile::encode(const std::string& graph_name, const std::string& producer,
                             const std::string& version) const {
  std::string graph = nodes_;
  put_text(graph, 2, graph_name);
  graph += weights_ + inputs_ + outputs_;
  const std::string standard = text_field(1, "");  // the domain of the standard's own operators
  return number_field(1, kIrVersion) + text_field(2, producer) + text_field(3, version) +
         text_field(7, graph) + text_field(8, standard + number_field(2, kOpsetVersion)) +
         metadata_;
}

}  // namespace downpour::tools
