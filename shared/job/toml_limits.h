// Limits of TOML text, checked before toml++ builds a tree: the library and the code that walks its
// tree recurse once for each level, and a tree takes hundreds of bytes for each value.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "shared/base/result.h"

namespace downpour {

/// Levels of tables, lists and dotted keys around a value. More are an error.
constexpr uint32_t kTomlDepthMax = 64;
/// Tables, lists and values in a text. More are an error: a tree of that many takes about 200 MiB.
constexpr uint32_t kTomlNodesMax = uint32_t{1} << 18;

/// Checks both limits in one pass, without allocating more than the levels of one value. Text that
/// is not TOML may pass: the parser rejects it at the place where this scan stops to understand it.
/// Errors: kConfig with path:line:column.
Result<void> check_toml_limits(std::string_view text, const std::string& path);

}  // namespace downpour
