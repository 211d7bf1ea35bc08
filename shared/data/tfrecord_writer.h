// Writing TFRecord: frames, tf.train.Example, serialized tensors; the same bytes as TensorFlow's.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "shared/base/result.h"
#include "shared/data/tensor_proto.h"
#include "shared/env/storage.h"

namespace downpour::data {

/// Appends one record with its length and checksums.
void append_frame(std::string& out, std::string_view record);

/// A tf.train.Example, feature by feature; made anew after clear(), in the same memory. Numbers are
/// packed, as TensorFlow writes them.
class ExampleBuilder {
 public:
  void clear() { features_.clear(); }
  void add(std::string_view name, std::span<const int64_t> values);
  void add(std::string_view name, std::span<const float> values);
  void add(std::string_view name, std::span<const std::string_view> values);
  /// The serialized Example, until the next call.
  const std::string& bytes();

 private:
  void add_list(std::string_view name, uint32_t kind);

  std::string features_, list_, example_;
};

/// What tf.io.serialize_tensor makes of a tensor of numbers; `content` are its elements' bytes.
std::string serialized_tensor(TensorType type, std::span<const int64_t> dims,
                              std::string_view content);

/// Writes records to a file, a mebibyte at a time. flush() before the file is committed.
class TfrecordWriter {
 public:
  explicit TfrecordWriter(OutputFile& file) : file_(file) {}
  Result<void> write(std::string_view record);
  Result<void> flush();

 private:
  OutputFile& file_;
  std::string buffer_;
};

}  // namespace downpour::data
