// s3://bucket/key: names of objects as they stand in jobs and plans.
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

/// Errors: kConfig where there is no bucket or no key, or the bucket's name can't be one; kNoInput
/// where the key ends like a folder.
Result<ObjectName> parse_object_path(std::string_view path);

}  // namespace downpour::objects
