// What a process does beside its event loop, in virtual time and one thread: storing, reading,
// computing.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "shared/base/units.h"
#include "shared/env/background.h"
#include "tools/sim/disk.h"
#include "tools/sim/scheduler.h"
#include "worker/runtime/engines.h"

namespace downpour::sim {

enum class Poison : uint8_t { kNone, kDeath, kNan };

/// How a worker computes: how long it takes, and what kills it.
struct WorkerSpeed {
  int64_t batch_ns = 100 * kMicrosecond;  // for any batch, and
  int64_t record_ns = 2 * kMicrosecond;   // for each record: computing
  int64_t read_record_ns = 500;           // reading
  uint32_t slow = 1;                      // a straggler takes this many times as long
  /// What a batch does to whoever computes it; empty: nothing.
  std::function<Poison(const Batch&)> poison;
  std::function<void()> die;  // ends the process
};

/// Tasks are done when they are given; what follows comes when their operations on the disk would
/// have ended.
std::unique_ptr<Background> make_sim_background(Scheduler& scheduler, SimStorage& storage,
                                                std::function<void()> wake);

/// Real files, real batches, the real model; only the time they take is `speed`'s. Both are
/// borrowed.
std::unique_ptr<worker::Engines> make_sim_engines(Scheduler& scheduler, const WorkerSpeed& speed);

}  // namespace downpour::sim
