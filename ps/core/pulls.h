// Pulls: answers the pulls of workers.
#pragma once

#include <cstdint>
#include <vector>

#include "ps/core/buffer_pool.h"
#include "ps/core/events.h"
#include "ps/core/handles.h"
#include "ps/core/load_meter.h"
#include "ps/core/partition.h"
#include "ps/core/ps_stats.h"
#include "ps/core/session.h"
#include "ps/core/turn.h"

namespace downpour::ps {

/// Part of the hot path. A pull changes no partition.
class Pulls {
 public:
  /// Keeps the references.
  Pulls(const PsConfig& config, Partitions& partitions, const Session& session, Handles& handles,
        LoadMeter& load_meter, PsStats& stats)
      : config_(config),
        partitions_(partitions),
        session_(session),
        handles_(handles),
        load_meter_(load_meter),
        stats_(stats),
        buffers_(config.limits.replies_max) {}

  /// Looks up the rows and answers with their values and the versions of all partitions.
  void on_pull(int64_t now_ns, PeerKey from, const wire::Message& message, const wire::Pull& pull,
               Turn& turn);

 private:
  void count_load(const wire::Pull& pull, const Bytes& keys);

  const PsConfig& config_;
  Partitions& partitions_;
  const Session& session_;
  Handles& handles_;
  LoadMeter& load_meter_;
  PsStats& stats_;
  BufferPool buffers_;
  std::vector<uint8_t> served_bytes_;  // scratch, kept for its memory
};

}  // namespace downpour::ps
