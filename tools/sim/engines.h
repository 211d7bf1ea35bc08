// What a process does beside its event loop, in virtual time and one thread: storing, reading,
// computing.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "shared/base/units.h"
#include "shared/env/background.h"
#include "shared/env/clock.h"
#include "shared/transport/transport.h"
#include "tools/sim/disk.h"
#include "tools/sim/scheduler.h"
#include "worker/runtime/engines.h"

namespace downpour::sim {

/// What a source that is not replayable adds to the largest key of a shard's first batch.
constexpr uint64_t kOtherRecord = 1'000'000'000;

/// What a batch does to the worker that computes it: it dies before the batch's pushes leave, or
/// right after; or the loss is NaN.
enum class Poison : uint8_t { kNone, kDeath, kLateDeath, kNan };

/// How a worker computes: how long it takes, and what kills it.
struct WorkerSpeed {
  int64_t batch_ns = 100 * kMicrosecond;  // for any batch, and
  int64_t record_ns = 2 * kMicrosecond;   // for each record: computing
  int64_t read_record_ns = 500;           // reading
  double read_byte_ns = 10;               // the same at an input process, for each byte of a batch
  uint32_t slow = 1;                      // a straggler takes this many times as long
  /// What a batch does to whoever computes it; empty: nothing.
  std::function<Poison(const Batch&)> poison;
  std::function<void(int64_t after_ns)> die;  // ends the process
  /// Asked when a shard begins to be read: whether its source gives other records than before.
  /// Empty: it never does.
  std::function<bool(ShardId)> gives_other_records;
};

/// Tasks are done when they are given; what follows comes when their operations on the disk would
/// have ended.
std::unique_ptr<Background> make_sim_background(Scheduler& scheduler, SimStorage& storage,
                                                std::function<void()> wake);

/// The process that engines work for. References are borrowed.
struct EngineHost {
  Scheduler& scheduler;
  const WorkerSpeed& speed;
  const Clock& clock;
  /// Makes another transport of the process; `wake` is called when something has come.
  std::function<std::unique_ptr<transport::Transport>(std::function<void()> wake)> make_transport;
  /// Returns true while the process is paused or about to end: its threads do nothing then.
  std::function<bool()> stands_still;
};

/// Real files, real batches, the real model; only the time they take is that of the host's speed.
/// Where input processes may read, as many shards are read at once as the limits allow, each over a
/// transport of its own; else one.
std::unique_ptr<worker::Engines> make_sim_engines(EngineHost host);
/// The same for an input process.
std::unique_ptr<worker::InputEngines> make_sim_input_engines(EngineHost host);

}  // namespace downpour::sim
