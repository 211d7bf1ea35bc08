// Pulls: answers the pulls of workers.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <variant>
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

  /// Looks up the rows and answers with their values and the versions of all partitions. Keeps the
  /// pull for answer_next() if it is for a later step than the next one.
  void on_pull(int64_t now_ns, PeerKey from, const wire::Message& message, const wire::Pull& pull,
               Turn& turn);
  /// Answers one pull whose step has come, of a worker for which `takes` returns true. Returns
  /// false if there is none.
  bool answer_next(int64_t now_ns, const std::function<bool(PeerKey)>& takes, Turn& turn);
  /// Drops the pulls of earlier views that wait for a step. Their workers pull again.
  void on_view(ViewId view);

 private:
  /// A pull that waits for its step, and until its worker can take the answer.
  struct Waiting {
    PeerKey from;
    wire::Message message;
    const wire::Pull& pull() const { return std::get<wire::Pull>(message.body); }
  };
  bool waits(const wire::Pull& pull, uint64_t next_step) const;
  bool keep(PeerKey from, const wire::Message& message);
  void count_load(const wire::Pull& pull, const Bytes& keys);

  const PsConfig& config_;
  Partitions& partitions_;
  const Session& session_;
  Handles& handles_;
  LoadMeter& load_meter_;
  PsStats& stats_;
  BufferPool buffers_;
  std::vector<uint8_t> served_bytes_;  // scratch, kept for its memory
  std::deque<Waiting> waiting_;
  uint64_t waiting_bytes_ = 0;
};

}  // namespace downpour::ps
