// The limit of descriptors of this process.
#pragma once

#include <cstdint>

namespace downpour {

/// Raises the limit to the largest that the system allows this process, so that connections and
/// files do not compete. For mains to call once, at the start. Returns the limit.
uint64_t raise_descriptor_limit();

}  // namespace downpour
