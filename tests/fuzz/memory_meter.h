// Memory meter: counts the bytes that this process has allocated, and their peak.
#pragma once

#include <cstdint>

namespace downpour::fuzz {

/// Counts malloc and everything that uses it (operator new, C libraries), from this call on at the
/// latest. Allocated pages count even if they are never touched.
void start_meter();
/// Starts a new peak at the bytes that are allocated now.
void begin_peak();
/// Returns the peak since the last begin_peak(), in bytes above its starting point.
uint64_t peak_bytes();
constexpr int kMemoryExit = 99;
/// Ends the process with kMemoryExit when it has allocated `bytes` more than at begin_peak(), so
/// that it does not exhaust the memory of the machine.
void limit_memory(uint64_t bytes);

}  // namespace downpour::fuzz
