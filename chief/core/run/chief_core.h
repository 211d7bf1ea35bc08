// ChiefCore: the chief's decisions as a deterministic state machine. It receives events and returns
// effects. It uses no socket, file, thread or clock.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "chief/core/cluster/admission.h"
#include "chief/core/cluster/moves.h"
#include "chief/core/cluster/ownership.h"
#include "chief/core/cluster/recovery.h"
#include "chief/core/events.h"
#include "chief/core/run/lifecycle.h"
#include "chief/core/run/report.h"
#include "chief/core/turn.h"
#include "shared/wire/peer_identity.h"

namespace downpour::chief {

/// Runs one job from the first Hello to the end. `now_ns` never decreases. on_start() comes first,
/// and on_tick() is called often (every 50 ms), because it checks all time limits. Events after
/// Finish are ignored. Passes each event first to the cluster layer, which updates members and
/// owners, and then to the run and work layers, which decide what follows for the job.
class ChiefCore {
 public:
  explicit ChiefCore(ChiefConfig config);
  ChiefCore(const ChiefCore&) = delete;
  ChiefCore& operator=(const ChiefCore&) = delete;

  /// Starts the job. Finishes at once if there is nothing to do (`already_finished`), so call it
  /// before starting processes.
  void on_start(int64_t now_ns, Effects& effects);
  /// Handles a message from a control connection. `identity` is what the connection proves about
  /// the sender. No message can crash the core, and a sender acts only in the role of its key.
  void on_message(int64_t now_ns, PeerKey peer, wire::Message&& message, Effects& effects,
                  const wire::PeerIdentity& identity = {});
  /// Checks time limits, and begins whatever is due.
  void on_tick(int64_t now_ns, Effects& effects);
  /// Handles the result of PublishManifest.
  void on_published(int64_t now_ns, ViewId checkpoint, Result<void> result, Effects& effects);
  /// Handles the result of FindOlder.
  void on_older(int64_t now_ns, Result<ResumeState> older, Effects& effects);
  /// Call when a message could not be sent: records that the connection is broken. The peer may
  /// return on another connection.
  void on_peer_gone(int64_t now_ns, PeerKey peer, Effects& effects);
  /// Handles SIGINT (2) or SIGTERM (15): stops leasing, saves, and ends the job with 128 + signal.
  /// Has no effect if a stop was requested before, by this call or by a member, or if the job is
  /// ending.
  void request_stop(int64_t now_ns, int signal, Effects& effects);
  /// Fails the job with `error`, because the shell cannot continue (for example, a local ps did not
  /// start).
  void on_fatal(int64_t now_ns, Error error, Effects& effects);
  /// Records that a process has ended, as its launcher reports, so that the core need not wait for
  /// its silence. Stops the job if a stop signal ended the process.
  void on_process_ended(int64_t now_ns, const EndedProcess& ended, Effects& effects);
  /// Ends this chief, because a newer chief has taken a term of this run. The ps and workers keep
  /// running.
  void on_newer_term(int64_t now_ns, uint32_t term, Effects& effects);

  Phase phase() const { return lifecycle_.phases().current(); }
  bool finished() const { return lifecycle_.finished(); }
  /// Returns a number that grows with the batches that all partitions have applied, and with the
  /// ended shards of evaluations and predictions. Batches that are trained again after the loss of
  /// a ps do not count.
  uint64_t progress() const { return lifecycle_.pass().progress(); }
  /// Returns the floor of bounded staleness.
  uint64_t staleness_floor() const { return lifecycle_.staleness_floor(); }
  /// Returns the training leases that a worker holds, each as its shard and attempt.
  std::vector<std::pair<uint32_t, uint32_t>> training_leases(Incarnation worker) const {
    std::vector<std::pair<uint32_t, uint32_t>> leases;
    const Pass& pass = lifecycle_.pass();
    if (!pass.trains()) return leases;
    for (const uint32_t shard : pass.table().held_by(worker))
      leases.emplace_back(shard, pass.table().holder(shard, worker)->attempt);
    return leases;
  }
  /// Returns the number of shards of a training pass; for an open stream (pass.h), the largest
  /// number allowed. For --dry-run and messages.
  uint32_t train_shards() const { return lifecycle_.pass().train_shards(); }

 private:
  bool ending() const { return lifecycle_.ending(); }
  bool gathering() const { return lifecycle_.phases().gathering(); }
  const RestorePoint& restore_point() { return lifecycle_.checkpoints().newest(); }

  // messages
  void handle(Turn& turn, Member& member, wire::Message&& message);
  bool handle_of_worker(Turn& turn, Member& member, wire::Message& message);
  bool handle_of_ps(Turn& turn, Member& member, wire::Message& message);
  void on_heartbeat(Turn& turn, Member& member, wire::Heartbeat&& heartbeat);
  void on_goodbye(Turn& turn, Member& member, wire::Goodbye&& goodbye);
  void on_leave(Turn& turn, Member& member, const wire::Leave& leave);

  // members
  void on_hello(Turn& turn, PeerKey peer, const wire::Hello& hello, const wire::Envelope& envelope,
                const wire::PeerIdentity& identity);
  Result<Member*> admit(Turn& turn, PeerKey peer, wire::Hello hello,
                        const wire::PeerIdentity& identity);
  void on_back(Turn& turn, Member& member);
  void on_silent(Turn& turn, Member& member);
  void on_inputs_changed(Turn& turn);
  void replace(Turn& turn, Member& member);
  void check_silence(Turn& turn);
  void check_workers(Turn& turn);

  // owners
  void place(Turn& turn);
  void publish_view(Turn& turn);
  void on_adopted(Turn& turn, Member& member, const wire::Adopted& adopted);
  void on_ps_lost(Turn& turn, Member& member, const std::string& why);
  void on_ps_returned(Turn& turn, Member& member);
  void return_all(Turn& turn);
  void restore(Turn& turn);
  void check_ps(Turn& turn);
  void check_moves(Turn& turn);
  void cancel_move(Turn& turn, const std::string& why);

  ChiefConfig config_;
  Membership members_;
  Report report_;
  Ownership ownership_;
  Moves moves_;
  TurnState turn_state_;
  Admission admission_;
  Recovery recovery_;
  Lifecycle lifecycle_;
};

}  // namespace downpour::chief
