// s3://: the prefix that distinguishes the name of an object from a file path.
#pragma once

#include <string_view>

namespace downpour {

inline constexpr std::string_view kObjectScheme = "s3://";

/// Returns true if `path` names an object of a store, or a glob of objects, and not a file.
inline bool is_object_path(std::string_view path) { return path.starts_with(kObjectScheme); }

}  // namespace downpour
