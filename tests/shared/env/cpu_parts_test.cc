// keep_to_part(): the processors of the processes of a local cluster.
#include <sched.h>
#include <thread>
#include <vector>

#include <catch2/catch.hpp>

#include "shared/env/process.h"

namespace downpour {
namespace {

std::vector<int> mask() {
  cpu_set_t set;
  CPU_ZERO(&set);
  REQUIRE(sched_getaffinity(0, sizeof set, &set) == 0);
  std::vector<int> cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  return cpus;
}

/// Returns the mask of a thread after keep_to_part().
std::vector<int> part(uint32_t index, uint32_t parts) {
  std::vector<int> cpus;
  std::thread([&] {
    keep_to_part(index, parts);
    cpus = mask();
  }).join();
  return cpus;
}

TEST_CASE("equal parts of the processors are disjoint and complete", "[env]") {
  const std::vector<int> all = mask();
  for (uint32_t parts = 1; parts <= all.size() + 1; ++parts) {
    CAPTURE(parts, all.size());
    std::vector<int> joined;
    for (uint32_t i = 0; i < parts; ++i) {
      const std::vector<int> cpus = part(i, parts);
      if (all.size() % parts != 0) {
        CHECK(cpus == all);
        continue;
      }
      CHECK(cpus.size() == all.size() / parts);
      CHECK(cpus == part(i + parts, parts));
      joined.insert(joined.end(), cpus.begin(), cpus.end());
    }
    if (all.size() % parts == 0) CHECK(joined == all);
  }
  CHECK(mask() == all);
}

}  // namespace
}  // namespace downpour
