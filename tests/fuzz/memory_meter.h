// MemoryMeter: the bytes that this process has allocated, and the most it had at once.
#pragma once

#include <cstdint>

namespace downpour::fuzz {

/// Counts malloc and all that rests on it (operator new, what C libraries take), from start() on.
/// Pages that were asked for and never touched count as well.
void start_meter();
/// The most bytes at once since the last begin_peak(), above what there was then.
void begin_peak();
uint64_t peak_bytes();
/// Above so many more bytes than at begin_peak() the process ends with kMemoryExit: before it takes
/// the machine with it.
constexpr int kMemoryExit = 99;
void limit_memory(uint64_t bytes);

}  // namespace downpour::fuzz
