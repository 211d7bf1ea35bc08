// The work that a process does outside its event loop (storing, reading, computing), in virtual
// time and one thread.
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

/// The number that a source that is not replayable adds to a key of a shard's first batch.
constexpr uint64_t kOtherRecord = 1'000'000'000;

/// The effect of a batch on the worker that computes it. The worker dies before the batch's pushes
/// leave (kDeath) or right after (kLateDeath), or the loss is NaN.
enum class Poison : uint8_t { kNone, kDeath, kLateDeath, kNan };

/// The speed of a worker or input process, and the batches and shards that harm it.
struct WorkerSpeed {
  int64_t batch_ns = 100 * kMicrosecond;  // computing: per batch
  int64_t record_ns = 2 * kMicrosecond;   // computing: in addition, per record
  int64_t read_record_ns = 500;           // reading: per record
  double read_byte_ns = 10;               // reading at an input process: per byte of a batch
  uint32_t slow = 1;                      // factor on all of these times
  /// Returns the effect of a batch; empty: no batch has an effect.
  std::function<Poison(const Batch&)> poison;
  std::function<void(int64_t after_ns)> die;  // ends the process
  /// Called when a read of a shard begins. Returns whether the source yields different records this
  /// time. Empty: it never does.
  std::function<bool(ShardId)> gives_other_records;
};

/// Makes an executor of background tasks. It runs each task at once, and calls its completion when
/// the task's disk operations would have ended.
std::unique_ptr<Background> make_sim_background(Scheduler& scheduler, SimStorage& storage,
                                                std::function<void()> wake);

/// The process that the engines work for. The references are borrowed.
struct EngineHost {
  Scheduler& scheduler;
  const WorkerSpeed& speed;
  const Clock& clock;
  /// Makes another transport of the process. `wake` is called when a message has arrived.
  std::function<std::unique_ptr<transport::Transport>(std::function<void()> wake)> make_transport;
  /// Returns true while the process is paused or about to end, so that its threads do nothing.
  std::function<bool()> stands_still;
};

/// Makes the engines of a worker. They use real files, real batches and the real model; only the
/// durations follow the host's speed. If input processes may read, or training is synchronous, the
/// engines read as many shards at once as the limits allow, input processes each over a transport
/// of its own. Otherwise they read one.
std::unique_ptr<worker::Engines> make_sim_engines(EngineHost host);
/// Makes the engines of an input process.
std::unique_ptr<worker::InputEngines> make_sim_input_engines(EngineHost host);

}  // namespace downpour::sim
