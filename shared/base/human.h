// Figures as people read them.
#pragma once

#include <cstdint>
#include <string>

namespace downpour {

/// "512 B", "1.5 KiB", "3.0 TiB".
std::string human_bytes(uint64_t bytes);

}  // namespace downpour
