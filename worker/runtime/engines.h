// Interfaces for the work of a worker or an input process outside its core: reading shards and
// computing batches. Threads of the process implement them (ReaderPool, ComputePool, InputPool);
// the simulator has implementations of its own.
#pragma once

#include <functional>
#include <memory>

#include "shared/model/graph.h"
#include "worker/core/events.h"
#include "worker/core/input_shard_reads.h"
#include "worker/core/reader_tuner.h"
#include "worker/runtime/ready_items.h"
#include "worker/runtime/shard_read.h"

namespace downpour::worker {

/// Reads, parses and plans shards ahead of the core. Call it on the worker's thread only.
class Readers {
 public:
  virtual ~Readers() = default;
  virtual void read(const ReadTask& task) = 0;
  virtual void stop(uint64_t shard_read) = 0;
  /// Sets the view for which batches are planned. Before the first call, batches have no plan.
  virtual void set_placements(std::shared_ptr<const Placements> placements) = 0;
  /// Takes the next item; takes a batch only if `wants` it.
  virtual bool try_pop(const WantsBatch& wants, ReadItem& item) = 0;
  virtual uint64_t bytes_read() const = 0;
  /// Sets other limits. Returns false if these readers keep the limits that they were made with.
  virtual bool set_limits(const ReaderLimits&) { return false; }
  /// Number of ready batches, and how many have room (0: not known).
  struct Queue {
    uint32_t ready = 0, room = 0;
  };
  virtual Queue queue() const { return {}; }
  /// Times of all readers, summed.
  struct Times {
    int64_t full_ns = 0;      // waited for room
    int64_t reading_ns = 0;   // reading, including waits inside the read
    int64_t runnable_ns = 0;  // of that: running or runnable; 0 if the system does not say
  };
  virtual Times times() const { return {}; }
};

/// Runs the model on pulled batches. Call it on the worker's thread only.
class Computers {
 public:
  virtual ~Computers() = default;
  virtual void start(WorkerEffects::Compute&& compute) = 0;
  virtual bool try_pop(Computed& computed) = 0;
};

/// Makes readers and computers when the job is known. They may call `wake` from any thread when
/// something can be popped.
class Engines {
 public:
  virtual ~Engines() = default;
  /// Returns an error if these engines cannot compute the model. Those of a process compute models
  /// of layers.
  virtual Result<void> check(const model::Graph& graph) const;
  virtual std::unique_ptr<Readers> make_readers(ReaderOptions options,
                                                std::function<void()> wake) = 0;
  /// Computes `threads` batches at once, each with `threads_per_batch` threads.
  virtual std::unique_ptr<Computers> make_computers(const model::Graph& graph, uint32_t threads,
                                                    uint32_t threads_per_batch,
                                                    std::function<void()> wake) = 0;
};

/// Returns engines that use threads of this process.
std::unique_ptr<Engines> make_thread_engines();

/// Reads for workers what the core of an input process requests. Call it on the process's thread
/// only.
class InputReaders {
 public:
  virtual ~InputReaders() = default;
  virtual void read(InputEffects::Read&& read) = 0;
  virtual void close(uint64_t id) = 0;
  virtual bool try_pop(InputItem& item) = 0;
  /// Bytes read from files so far.
  virtual uint64_t bytes_read() const = 0;
};

/// Makes the readers of an input process when the job is known. They may call `wake` from any
/// thread when something can be popped.
class InputEngines {
 public:
  virtual ~InputEngines() = default;
  /// Reads `threads` batches at once.
  virtual std::unique_ptr<InputReaders> make_readers(ReaderOptions options, uint32_t threads,
                                                     std::function<void()> wake) = 0;
};

/// Returns engines that use threads of this process.
std::unique_ptr<InputEngines> make_thread_input_engines();

}  // namespace downpour::worker
