// raise_descriptor_limit: raises the number of files that this process may open.
#pragma once

#include <cstdint>

namespace downpour {

/// Raises the limit of descriptors to the largest that the system allows this process, because
/// connections and files share it. Called once by each main, at the start. Returns the limit; 0 if
/// it is not known.
uint64_t raise_descriptor_limit();

}  // namespace downpour
