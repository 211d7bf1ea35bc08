// s3://: what tells the name of an object from that of a file.
#pragma once

#include <string_view>

namespace downpour {

inline constexpr std::string_view kObjectScheme = "s3://";

/// Whether this names an object of a store, or a glob of them, and no file.
inline bool is_object_path(std::string_view path) { return path.starts_with(kObjectScheme); }

}  // namespace downpour
