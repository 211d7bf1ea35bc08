#include "shared/objects/object_path.h"

#include <algorithm>

namespace downpour::objects {
namespace {

constexpr size_t kBucketBytesMax = 255;  // 63 for new buckets, 255 for old ones

/// Returns whether `name` may be the name of a bucket. Rejects all other characters, because the
/// name becomes a part of a host name.
bool is_bucket(std::string_view name) {
  return !name.empty() && name.size() <= kBucketBytesMax && name != "." && name != ".." &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  c == '.' || c == '-' || c == '_';
         });
}

}  // namespace

Result<ObjectName> parse_object_path(std::string_view path) {
  const std::string text(path);
  DP_CHECK(is_object_path(path), text);
  path.remove_prefix(kObjectScheme.size());
  const size_t slash = path.find('/');
  const std::string_view bucket = path.substr(0, slash);
  if (!is_bucket(bucket)) {
    return Error{ErrorCode::kConfig, str("the path has no valid bucket name: ", text), text,
                 "write s3://BUCKET/KEY, where KEY may be a glob: s3://logs/2024/*.tsv"};
  }
  if (slash == std::string_view::npos || slash + 1 == path.size()) {
    return Error{ErrorCode::kConfig, str("the path names a bucket, but no objects: ", text), text,
                 str("give its objects: s3://", bucket, "/*")};
  }
  if (path.back() == '/') {
    return Error{ErrorCode::kNoInput, str("the path is a folder, not an object: ", text), text,
                 str("give its objects: ", text, "*")};
  }
  return ObjectName{std::string(bucket), std::string(path.substr(slash + 1))};
}

}  // namespace downpour::objects
