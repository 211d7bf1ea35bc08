// PsCore: the deterministic state machine of one ps thread. It owns partitions, answers pulls and
// pushes, and carries out the requests of the chief. It uses no socket, file, thread or clock: it
// receives events and returns effects, which its shell carries out. docs/glossary.md has the terms
// of the project, such as claim, view and ownership generation.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "ps/core/commits.h"
#include "ps/core/events.h"
#include "ps/core/freezing.h"
#include "ps/core/handles.h"
#include "ps/core/load_meter.h"
#include "ps/core/loading.h"
#include "ps/core/partition.h"
#include "ps/core/ps_stats.h"
#include "ps/core/pulls.h"
#include "ps/core/pushes.h"
#include "ps/core/row_memory.h"
#include "ps/core/saving.h"
#include "ps/core/session.h"
#include "ps/core/staging.h"
#include "ps/core/turn.h"
#include "shared/base/result.h"
#include "shared/wire/messages.h"
#include "shared/wire/peer_identity.h"

namespace downpour::ps {

/// One ps core. The same events in the same order give the same effects, bit for bit. No message
/// can crash the core or make it grow beyond PsLimits. Of all peers, only the chief can stop it, by
/// Stop or Refused. Invalid or forbidden requests get a Reject; others that cannot be served get a
/// status in the reply.
class PsCore {
 public:
  /// The shell makes `config` from the job in the chief's Welcome and from its own options, and has
  /// validated it. Aborts the process if partition_bits is not in [1, 16].
  explicit PsCore(PsConfig config);
  PsCore(const PsCore&) = delete;  // its members refer to one another
  PsCore& operator=(const PsCore&) = delete;

  /// Handles a message from a peer. `identity` is what the connection proves about the peer: only a
  /// chief directs a ps, and only a worker pulls and pushes. A reply carries the id of its request,
  /// the run and the newest view; a Reject to another run carries only the id.
  void on_message(int64_t now_ns, PeerKey from, const wire::Message& message, Effects& effects,
                  const wire::PeerIdentity& identity = {});
  /// Completes the Load effect `id`. `images` holds the images of partitions that the core adopts,
  /// or the read error. The images may arrive in several calls; `more` means that others follow.
  void on_loaded(uint64_t id, Result<std::vector<checkpoint::PartitionImage>> images,
                 Effects& effects, bool more = false);
  /// Returns true if the shell must call continue_save() between messages, because a checkpoint is
  /// in progress. Each call copies only a few partitions, so that a request waits at most for one
  /// call.
  bool saves() const { return saving_.copies(); }
  /// Copies the next partitions of the checkpoint in progress.
  void continue_save(Effects& effects);
  /// Answers one pull that has waited for a synchronous step, of a worker for which `takes` returns
  /// true: no message waits to be sent to it. Returns false if there is none. The shell calls it
  /// until then, and carries out the effects after each call, so that the answers of a step do not
  /// wait for one another.
  bool answer_pull(int64_t now_ns, const std::function<bool(PeerKey)>& takes, Effects& effects);
  /// Reports that the image of one Store effect has been written. The core reuses the image's
  /// memory for the next copy.
  void on_image_written(ViewId checkpoint, checkpoint::PartitionImage&& image);
  /// Completes the Store effects of `checkpoint`. `images` holds references to all its images, or
  /// the write error.
  void on_stored(ViewId checkpoint, Result<std::vector<wire::ImageRef>> images, Effects& effects);
  /// Completes the Export effect of `ownership_generation`, which hands out the images of
  /// partitions that move to another core. `images` holds references to the images, or the write
  /// error. They are in a file if `inlined` is empty; otherwise `inlined` contains them, and there
  /// is no file.
  void on_exported(ViewId ownership_generation, Result<std::vector<wire::ImageRef>> images,
                   Bytes inlined, Effects& effects);
  /// Reports that the tables of this core may take `free_bytes` more memory than they hold.
  void on_free_memory(uint64_t free_bytes);
  /// Reports a stop signal to the chief. The chief stops the job, or moves the partitions of this
  /// process away and then stops the process.
  void leave(int signal, Effects& effects);
  /// Sets how many epochs and shards the plan has, and whether steps are synchronous. A restarted
  /// chief may want more epochs or another mode, or may have other data.
  void set_plan(const PlanExtent& plan, const std::optional<StepRules>& steps) {
    config_.plan = plan;
    config_.steps = steps;
  }
  /// Sets the run folder. A restarted chief may have it under another path.
  void set_run_dir(std::string run_dir) { config_.run_dir = std::move(run_dir); }
  /// Sends heartbeats, and ends the process if the chief is silent for too long. Drops old handles
  /// (rows that a pull found, kept for the push) and old fragments of parts that never became
  /// complete. Must be called about every 100 ms.
  void on_tick(int64_t now_ns, Effects& effects);

  const wire::View& view() const { return session_.view(); }
  const Partitions& partitions() const { return partitions_; }
  const Handles& handles() const { return handles_; }
  const Staging& staging() const { return staging_; }
  const PsStats& stats() const { return stats_; }
  const StepStage& step_stage() const { return commits_.stage(); }
  wire::Heartbeat heartbeat() const { return session_.heartbeat(); }
  /// Returns a claim for each partition that the core holds, in ascending order. The Hello carries
  /// the claims. A new chief accepts or rejects each of them, and continues with the accepted ones.
  std::vector<wire::PartitionClaim> claims() const { return session_.claims(); }

 private:
  Turn turn_with(Effects& effects) const { return {config_.run, session_.view(), effects}; }
  void from_chief(const wire::Message& message, Turn& turn);
  void on_view(const wire::Envelope& envelope, const wire::View& view, Turn& turn);
  void on_status(const wire::Envelope& envelope, const wire::StatusRequest& status, Turn& turn);

  PsConfig config_;
  PsStats stats_;
  Partitions partitions_;
  Handles handles_;
  Staging staging_;
  LoadMeter load_meter_;
  Session session_;
  RowMemory memory_;
  Saving saving_;
  Commits commits_;
  Loading loading_;
  Freezing freezing_;
  Pulls pulls_;
  Pushes pushes_;
};

}  // namespace downpour::ps
