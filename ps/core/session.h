// Session: the chief and one ps core: who may send what, the newest view, heartbeats, and the end.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ps/core/events.h"
#include "ps/core/load_meter.h"
#include "ps/core/partition.h"
#include "ps/core/ps_stats.h"
#include "ps/core/turn.h"
#include "shared/wire/peer_identity.h"

namespace downpour::ps {

/// Begins when the chief has welcomed the core, and ends with the process.
class Session {
 public:
  /// Keeps the references.
  Session(const PsConfig& config, const Partitions& partitions, const PsStats& stats,
          LoadMeter& load_meter)
      : config_(config), partitions_(partitions), stats_(stats), load_meter_(load_meter) {}

  /// True after the core has asked its process to end. It then ignores every event.
  bool stopped() const { return stopped_; }
  /// Returns the newest view.
  const wire::View& view() const { return view_; }
  /// Returns the newest term of a chief's messages.
  uint32_t term() const { return term_; }
  /// Returns whether the newest view names this core as the owner. Requires that the view has `p`.
  bool is_owner(PartitionId p) const;
  /// Returns the lowest view that a refused worker must know before it repeats its request.
  ViewId view_to_reach() const;
  /// Returns why a change of owners comes too late; empty: it does not.
  std::string why_superseded(ViewId ownership_generation) const;
  /// Returns an error if a message names a folder that is not below the run folder. No image is
  /// written to or read from such a folder.
  std::optional<Error> check_folder(const std::string& folder) const;

  /// Returns whether the core may handle the message: its run, its sender's role and its chief's
  /// term are right. Answers any other message.
  bool admit(int64_t now_ns, PeerKey from, const wire::Envelope& envelope,
             const wire::PeerIdentity& identity, Turn& turn);
  /// Returns whether `view` is now the newest view. A repeated or late view changes nothing, and
  /// one with another number of partitions is rejected.
  bool accept_view(const wire::Envelope& envelope, const wire::View& view, Turn& turn);
  /// Says goodbye and ends the process.
  void on_stop(const wire::Envelope& envelope, const wire::Stop& stop, Turn& turn);
  /// Ends the process because the chief does not accept this ps.
  void on_refused(const wire::Refused& refused, Turn& turn);
  /// Asks the chief to move this core's partitions away and then to stop it.
  void leave(int signal, Turn& turn);
  /// Sends a heartbeat if it is due, and then returns true. Ends the process if the chief is silent
  /// for too long.
  bool on_tick(int64_t now_ns, Turn& turn);

  wire::Heartbeat heartbeat() const;
  /// Returns a claim for each held partition, in ascending order.
  std::vector<wire::PartitionClaim> claims() const;

 private:
  std::optional<Error> fence(PeerKey from, const wire::Envelope& envelope) const;
  void refuse_role(int64_t now_ns, PeerKey from, const wire::Envelope& envelope,
                   const wire::PeerIdentity& identity, Turn& turn);

  const PsConfig& config_;
  const Partitions& partitions_;
  const PsStats& stats_;
  LoadMeter& load_meter_;
  wire::View view_;
  uint32_t term_ = 0;
  bool stopped_ = false;
  int leave_signal_ = 0;  // reported with every heartbeat; 0: none received
  uint64_t roles_refused_ = 0;
  int64_t role_notice_at_ns_ = INT64_MIN;
  std::optional<int64_t> chief_heard_ns_;
  std::optional<int64_t> heartbeat_sent_ns_;
  uint64_t heartbeats_ = 0;
  int64_t load_since_ns_ = 0;
};

}  // namespace downpour::ps
