// Limits of TOML text, checked before toml++ builds a tree. The library and the code that walks its
// tree recurse once per level, and a tree takes hundreds of bytes per value.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "shared/base/result.h"

namespace downpour {

/// Maximum number of levels (tables, lists and dotted keys) around a value.
constexpr uint32_t kTomlDepthMax = 64;
/// Maximum number of tables, lists and values in a text. A tree of that size takes about 200 MiB.
constexpr uint32_t kTomlNodesMax = uint32_t{1} << 18;

/// Checks both limits in one pass. It allocates memory only for the levels of one value. Text that
/// is not TOML may pass; then the parser rejects it at the place where this scan no longer
/// understands it. Errors: kConfig with path:line:column.
Result<void> check_toml_limits(std::string_view text, const std::string& path);

}  // namespace downpour
