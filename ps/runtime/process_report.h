// ProcessReport: what only the process of a ps core knows about its work.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "shared/env/process.h"
#include "shared/transport/transport.h"
#include "shared/wire/member_messages.h"

namespace downpour::ps {

/// Fills in the heartbeats of the core.
class ProcessReport {
 public:
  /// Keeps the references.
  ProcessReport(const ProcessInfo& process, const transport::Transport& transport)
      : process_(process), transport_(transport) {}

  void received(uint64_t bytes) { pushed_bytes_ += bytes; }
  void sent(uint64_t bytes) { pulled_bytes_ += bytes; }
  void fill_in(wire::Heartbeat& heartbeat) {
    const ProcessUsage usage = process_.usage();
    heartbeat.rss_bytes_max = usage.rss_bytes_max;
    heartbeat.cpu_ns = usage.cpu_ns;
    heartbeat.pulled_bytes = pulled_bytes_;
    heartbeat.pushed_bytes = pushed_bytes_;
    if (heartbeat.load_ns > 0) fill_in_busy(heartbeat);
  }

 private:
  // The time in which the node did not wait for messages counts as busy. So a slow machine, or one
  // with other work, shows up like one with many requests.
  void fill_in_busy(wire::Heartbeat& heartbeat) {
    const int64_t waited_ns = transport_.stats().waited_ns;
    const int64_t rested_ns = waited_ns - std::exchange(waited_ns_, waited_ns);
    heartbeat.busy_ns =
        uint64_t(heartbeat.load_ns - std::clamp<int64_t>(rested_ns, 0, heartbeat.load_ns));
  }

  const ProcessInfo& process_;
  const transport::Transport& transport_;
  uint64_t pulled_bytes_ = 0, pushed_bytes_ = 0;  // of values
  int64_t waited_ns_ = 0;                         // of the transport, at the last load report
};

}  // namespace downpour::ps
