// ObjectReader: reads bytes of an object at any offset, with read-ahead for sequential reads.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "shared/base/result.h"
#include "shared/objects/object_store.h"

namespace downpour::objects {

/// Only one thread may use it at a time. Buffers up to 4 MiB.
class ObjectReader {
 public:
  /// Opens the object with one request, which also reads its first bytes. Errors: those of
  /// parse_object_path() and ObjectStore::read().
  static Result<std::unique_ptr<ObjectReader>> open(const std::string& path,
                                                    StoreSettings settings);
  const std::string& path() const { return path_; }
  /// Returns the object's size when it was opened. A later read fails with kBadData if the object
  /// has changed.
  uint64_t bytes() const { return bytes_; }
  const std::string& etag() const { return etag_; }
  /// Reads up to `size` bytes from `offset`; fewer only at the end of the object. Errors: those of
  /// ObjectStore::read().
  Result<size_t> read_at(uint64_t offset, char* to, size_t size);

 private:
  ObjectReader(ObjectName name, std::string path, StoreSettings settings)
      : name_(std::move(name)), path_(std::move(path)), store_(std::move(settings)) {}
  Result<size_t> fetch(uint64_t offset, char* to, size_t size);

  const ObjectName name_;
  const std::string path_;
  ObjectStore store_;
  uint64_t bytes_ = 0;
  std::string etag_;
  std::vector<char> held_;  // buffered bytes, from offset held_begin_ on
  uint64_t held_begin_ = 0;
  size_t ahead_;  // bytes that the next small read requests
};

}  // namespace downpour::objects
