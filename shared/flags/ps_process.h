// PsProcess: the ps of a process, as the worker that runs in the same process sees it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "shared/base/ids.h"
#include "shared/base/result.h"

namespace downpour {

/// The flags of a ps.
struct PsProcessOptions {
  std::string chief;                       // HOST:PORT, or an endpoint
  std::string bind = "tcp://127.0.0.1:*";  // HOST:PORT, or an endpoint; * chooses a port
  std::string advertise_host;              // host for others; empty: as bound
  uint32_t index = UINT32_MAX;             // UINT32_MAX: the chief gives one
  uint32_t threads = 1;                    // ps cores
  int64_t connect_s = 10;                  // without a Welcome in this time: exit 69
  std::string keys;                        // folder or file of keys
  bool insecure = false;
  bool local = false;         // started by `downpour train`: a signal stops the whole job
  Incarnation incarnation{};  // of the process
  bool in_worker = false;     // a worker of this process connects to thread_endpoint()
  // Called on a thread of the ps for each core that has ended with a code other than 0.
  std::function<void(int code, const std::string& reason)> on_failed;
};

/// A running ps.
class PsProcess {
 public:
  virtual ~PsProcess() = default;
  /// Reports a stop signal to the chief. Any thread may call it.
  virtual void leave(int signal) = 0;
  /// Waits until all cores have ended. It must be called once before the destructor.
  virtual void join() = 0;
};

/// Starts a ps. Errors: an address or the keys are wrong, or the port is in use.
using StartPs = Result<std::unique_ptr<PsProcess>> (*)(const PsProcessOptions& options);

}  // namespace downpour
