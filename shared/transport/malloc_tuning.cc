#include <malloc.h>

#include "shared/env/process.h"
#include "shared/transport/transport.h"

namespace downpour::transport {

void tune_malloc_for_frames() {
  // one arena per thread would take 64 MiB of it each
  if (address_space_limited()) {
    mallopt(M_ARENA_MAX, 2);
    return;
  }
  mallopt(M_MMAP_THRESHOLD, 32 << 20);   // maximum that glibc accepts; frames have at most 1 MiB
  mallopt(M_TRIM_THRESHOLD, 512 << 20);  // kept for the next frames
  mallopt(M_TOP_PAD, 16 << 20);
}

}  // namespace downpour::transport
