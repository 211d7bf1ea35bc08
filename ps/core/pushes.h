// Pushes: applies the parts of workers' pushes: each part once, and a shard's parts in the order of
// its batches.
#pragma once

#include <cstdint>
#include <vector>

#include "ps/core/bits.h"
#include "ps/core/commits.h"
#include "ps/core/events.h"
#include "ps/core/handles.h"
#include "ps/core/partition.h"
#include "ps/core/payload.h"
#include "ps/core/ps_stats.h"
#include "ps/core/row_memory.h"
#include "ps/core/session.h"
#include "ps/core/staging.h"
#include "ps/core/turn.h"

namespace downpour::ps {

/// Part of the hot path. A push is checked completely before anything of it is applied. In
/// synchronous training, gradients are not applied when they arrive: Commits stages them, and
/// applies and answers them with their step. The exception are partitions of RowGroup::kAsync.
/// Shard-end markers are applied at once in every mode.
class Pushes {
 public:
  /// Keeps the references.
  Pushes(const PsConfig& config, Partitions& partitions, const Session& session, RowMemory& memory,
         Handles& handles, Staging& staging, Commits& commits, PsStats& stats)
      : config_(config),
        partitions_(partitions),
        session_(session),
        memory_(memory),
        handles_(handles),
        staging_(staging),
        commits_(commits),
        stats_(stats) {}

  /// Applies the admitted parts and answers with the status of every part. Once memory has run out,
  /// no push is applied or answered; the chief ends the job.
  void on_push(int64_t now_ns, PeerKey from, const wire::Message& message, const wire::Push& push,
               Turn& turn);

 private:
  /// The decision about each part of one push.
  struct Admission {
    PeerKey from = kChiefPeer;
    Bits covered;
    Bits apply;  // watermark == batch
    uint32_t gaps = 0;
    RequestId request{};
    bool refused = false;                 // some part was answered with a view mismatch
    bool of_step = false;                 // the parts are applied with a synchronous step
    bool waits = false;                   // the admitted parts are staged for it
    bool no_room = false;                 // the worker will be asked to send them again
    std::vector<wire::PartReply> others;  // parts that are not applied, ascending
  };

  Result<void> check_push(const wire::Push& push, const Bytes& keys, const Bytes& values);
  Result<void> check_planned(BatchId batch) const;
  void admit(ViewId worker_view, const wire::Push& push);
  void admit_one_by_one(ViewId worker_view, const wire::Push& push);
  bool agrees(const wire::Push& push, PartitionId p) const;
  Result<bool> resolve(const wire::Push& push, const Bytes& keys, const Bytes& values,
                       Piece& piece);
  Result<void> apply_fragment(int64_t now_ns, const wire::Message& message, const wire::Push& push,
                              Turn& turn);
  Result<void> apply_whole(const wire::Push& push, const std::vector<Piece>& pieces, Turn& turn);
  Result<void> stage(const wire::Push& push, const std::vector<Piece>& pieces, Turn& turn);
  void admit_step(const wire::Push& push);
  void check_sums(const wire::Push& push);
  void count_staleness(const Piece& piece);
  /// Returns whether the worker will not send the push again.
  bool is_over() const { return admission_.gaps == 0 && !admission_.no_room; }
  void answer_others(wire::PartStatus status, uint32_t watermark);

  const PsConfig& config_;
  Partitions& partitions_;
  const Session& session_;
  RowMemory& memory_;
  Handles& handles_;
  Staging& staging_;
  Commits& commits_;
  PsStats& stats_;
  bool is_full_ = false;  // out of memory: no further part is applied

  Admission admission_;  // scratch of on_push(), kept for its memory
  std::vector<Piece> pieces_;
  std::vector<uint8_t> covered_bytes_, admitted_bytes_;
};

}  // namespace downpour::ps
