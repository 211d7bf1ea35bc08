// EnumName: a value and its name in job files.
#pragma once

#include <string_view>
#include <utility>

namespace downpour {

template <typename E>
using EnumName = std::pair<std::string_view, E>;

}  // namespace downpour
