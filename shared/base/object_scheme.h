// Schemes of data sources that are not file paths.
#pragma once

#include <string_view>

namespace downpour {

inline constexpr std::string_view kObjectScheme = "s3://";
inline constexpr std::string_view kMemoryScheme = "memory:";

/// Returns true if `path` names an object of a store, or a glob of objects, and not a file.
inline bool is_object_path(std::string_view path) { return path.starts_with(kObjectScheme); }

/// Returns true if `path` names a table in the memory of this process, and not a file.
inline bool is_memory_path(std::string_view path) { return path.starts_with(kMemoryScheme); }

}  // namespace downpour
