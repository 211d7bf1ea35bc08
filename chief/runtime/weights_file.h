// WeightsFile: the arrays of an .npz or .safetensors file, such as `downpour export` writes.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "shared/base/result.h"
#include "shared/data/bytes/file.h"
#include "shared/data/bytes/zip.h"
#include "shared/data/formats/numpy/npy.h"

namespace downpour::chief {

class WeightsFile {
 public:
  struct Entry {
    data::NpyType type;
    std::vector<uint64_t> shape;
    data::ZipMember member;   // of safetensors: only the place and the bytes
    uint64_t head_bytes = 0;  // before the first element

    uint64_t elements() const;
  };

  /// Reads the names, types and shapes. Its ending says which format the file has. Errors: those of
  /// File::open(), list_zip() and parse_npy(); kBadData if a header is damaged; kUnsupported for
  /// an array of another type than integers and floats.
  static Result<WeightsFile> open(const std::string& path);

  const std::string& path() const { return file_->path(); }
  const std::map<std::string, Entry>& arrays() const { return arrays_; }
  /// Returns the job that the file has as "job.toml"; empty if it has none.
  const std::string& job() const { return job_; }
  /// Read an array. Keys are integers of at least 0. Errors: kIo; kBadData names the array.
  Result<std::vector<float>> floats(const std::string& name) const;
  Result<std::vector<uint64_t>> keys(const std::string& name) const;

 private:
  explicit WeightsFile(data::File file) : file_(std::make_shared<data::File>(std::move(file))) {}
  Result<void> list_npz();
  Result<void> list_safetensors();
  Result<std::string> member(const data::ZipMember& member, uint64_t bytes_max) const;
  /// Returns the text of a member that NumPy wrote from the bytes that it had read as `job.toml`.
  Result<std::string> saved_text(const data::ZipMember& member) const;
  Result<void> read(uint64_t offset, char* to, size_t bytes) const;
  Result<std::string> bytes_of(const std::string& name) const;
  Error damaged(const std::string& what) const;

  std::shared_ptr<data::File> file_;
  std::map<std::string, Entry> arrays_;
  std::string job_;
};

/// Returns whether a path is that of such a file, by its ending.
bool names_weights(const std::string& path);

}  // namespace downpour::chief
