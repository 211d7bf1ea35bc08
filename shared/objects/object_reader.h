// ObjectReader: an object's bytes at any place, read ahead where they are read in order.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "shared/base/result.h"
#include "shared/objects/object_store.h"

namespace downpour::objects {

/// Belongs to one thread at a time. Holds up to 4 MiB.
class ObjectReader {
 public:
  /// One request, which brings the first bytes along. Errors: as ObjectStore::read().
  static Result<std::unique_ptr<ObjectReader>> open(const std::string& path,
                                                    StoreSettings settings);
  const std::string& path() const { return path_; }
  /// When it was opened; whatever is read later is of the same object, or an error (kBadData).
  uint64_t bytes() const { return bytes_; }
  const std::string& etag() const { return etag_; }
  /// Up to `size` bytes from `offset`; fewer only at the end.
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
  std::vector<char> held_;  // from held_begin_ on
  uint64_t held_begin_ = 0;
  size_t ahead_;  // what the next request for few bytes asks for
};

}  // namespace downpour::objects
