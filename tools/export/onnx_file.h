// OnnxFile: collects the nodes and weights of an ONNX model, and encodes them.
//
// The file is a protocol buffer (onnx.proto of ONNX 1.12: IR version 8, operators of version 17).
// Only the fields that an exported model has are written, so no library is needed.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace downpour::tools {

/// An attribute of a node: a float, an integer, or integers.
struct OnnxAttribute {
  std::string name;
  enum class Type : uint8_t { kFloat, kInt, kInts } type = Type::kInt;
  float number = 0;
  std::vector<int64_t> integers = {};
};

class OnnxFile {
 public:
  /// Returns `wanted`, or `wanted` with underscores if another value has that name.
  std::string name(std::string wanted);

  /// Adds an input or output, float32 [records, width], where the number of records is open.
  void add_input(const std::string& name, uint32_t width, const std::string& doc);
  void add_output(const std::string& name, uint32_t width, const std::string& doc);
  /// Adds weights. Return their name.
  std::string add_floats(const std::string& wanted, const std::vector<int64_t>& shape,
                         std::span<const float> values);
  std::string add_integers(const std::string& wanted, std::span<const int64_t> values);
  /// Adds a node of operator `op` with one result, and returns the name of the result. It is
  /// `result`, or chosen if that is empty.
  std::string add_node(const std::string& op, const std::vector<std::string>& inputs,
                       const std::vector<OnnxAttribute>& attributes = {},
                       const std::string& result = {});
  void add_metadata(const std::string& key, const std::string& text);

  /// Returns the bytes of the weights.
  uint64_t weight_bytes() const { return weight_bytes_; }
  /// Returns the file. `producer` and `version` name the program that has written it.
  std::string encode(const std::string& graph_name, const std::string& producer,
                     const std::string& version) const;

 private:
  std::string nodes_, weights_, inputs_, outputs_, metadata_;  // encoded
  std::set<std::string> names_;
  uint64_t weight_bytes_ = 0;
};

}  // namespace downpour::tools
