// Prefetches rows of an arena.
#pragma once

#include <cstddef>
#include <cstdint>

namespace downpour::ps {

/// Prefetches the first `lines` cache lines of a row.
// Must be inlined: g++ 12 assumes that a function that only prefetches has no effect, and deletes
// calls of it.
[[gnu::always_inline]] inline void prefetch_lines(const float* row, uint32_t lines) {
  const auto* line = reinterpret_cast<const uint8_t*>(row);
  for (uint32_t l = 0; l < lines; ++l) __builtin_prefetch(line + size_t(l) * 64, 1);
}

}  // namespace downpour::ps
