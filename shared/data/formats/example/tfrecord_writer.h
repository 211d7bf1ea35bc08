// TFRecord writer: frames, tf.train.Example and serialized tensors, byte for byte as TensorFlow
// writes them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "shared/base/result.h"
#include "shared/data/formats/example/tensor_proto.h"
#include "shared/env/storage.h"

namespace downpour::data {

/// Appends one record with its length and checksums.
void append_frame(std::string& out, std::string_view record);

/// Builds a tf.train.Example feature by feature. clear() starts a new one in the same memory.
/// Numbers are packed, as TensorFlow writes them.
class ExampleBuilder {
 public:
  void clear() { features_.clear(); }
  void add(std::string_view name, std::span<const int64_t> values);
  void add(std::string_view name, std::span<const float> values);
  void add(std::string_view name, std::span<const std::string_view> values);
  /// Returns the serialized Example. Valid until the next call.
  const std::string& bytes();

 private:
  void add_list(std::string_view name, uint32_t kind);

  std::string features_, list_, example_;
};

/// Returns what tf.io.serialize_tensor writes for a tensor of numbers. `content` has the bytes of
/// its elements.
std::string serialized_tensor(TensorType type, std::span<const int64_t> dims,
                              std::string_view content);

/// Writes records to a file, 1 MiB at a time. Call flush() before the file is committed.
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
