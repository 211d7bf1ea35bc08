// ObjectName: parses the names of objects in jobs and plans, "s3://bucket/key".
#pragma once

#include <string>
#include <string_view>

#include "shared/base/object_scheme.h"
#include "shared/base/result.h"

namespace downpour::objects {

struct ObjectName {
  std::string bucket, key;  // the key may be a glob; not encoded
  std::string path() const { return std::string(kObjectScheme) + bucket + "/" + key; }
};

/// Parses an object path. Errors: kConfig if the bucket or the key is missing, or if the bucket's
/// name is not valid; kNoInput if the key ends in '/'.
Result<ObjectName> parse_object_path(std::string_view path);

}  // namespace downpour::objects
