// Requests: the numbers of a worker's requests, the time until each is repeated, and which batch
// awaits the answer.
#pragma once

#include <algorithm>
#include <cstdint>
#include <unordered_map>

#include "shared/base/ids.h"
#include "shared/base/rng.h"
#include "worker/core/worker_config.h"

namespace downpour::worker {

class Requests {
 public:
  /// A pull or push that is not answered.
  struct Pending {
    uint64_t slot = 0;
    bool push = false;
  };

  /// Keeps the reference.
  explicit Requests(const WorkerConfig& config)
      : config_(config), jitter_(raw(config.incarnation)) {}

  /// Returns the number of a new request.
  RequestId next() { return RequestId{++last_request_}; }
  /// Returns the time until a request is repeated for the `attempt`th time, from 0. It doubles,
  /// with jitter.
  int64_t backoff_ns(uint32_t attempt) {
    const int64_t base =
        std::min(config_.request_timeout_ns << std::min(attempt, 8U), config_.retry_max_ns);
    return base / 2 + int64_t(jitter_.below(uint64_t(base)));
  }

  void add(RequestId request, Pending pending) { pending_[raw(request)] = pending; }
  /// Returns null if no answer to this request is awaited. The pointer is valid until the next
  /// change.
  const Pending* find(RequestId request) const {
    const auto found = pending_.find(raw(request));
    return found == pending_.end() ? nullptr : &found->second;
  }
  void forget(RequestId request) { pending_.erase(raw(request)); }
  size_t pending_count() const { return pending_.size(); }

 private:
  const WorkerConfig& config_;
  Rng jitter_;
  uint64_t last_request_ = 0;
  std::unordered_map<uint64_t, Pending> pending_;  // by request id; never iterated
};

}  // namespace downpour::worker
