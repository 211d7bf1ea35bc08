#include "ps/core/session.h"

#include <algorithm>
#include <utility>

#include "shared/base/defence.h"
#include "shared/base/plain_name.h"

namespace downpour::ps {
namespace {

constexpr int64_t kRoleNoticeNs = 10 * kSecond;

/// The role that the peer of this connection must have.
wire::Role role_of(PeerKey from) {
  return from == kChiefPeer ? wire::Role::kChief : wire::Role::kWorker;
}

}  // namespace

bool Session::is_owner(PartitionId p) const {
  const uint32_t owner = view_.partitions[raw(p)].owner;
  return owner < view_.owners.size() && view_.owners[owner].incarnation == config_.incarnation &&
         view_.owners[owner].thread == config_.thread;
}

ViewId Session::view_to_reach() const {
  return std::max(view_.id, partitions_.ownership_generation_max());
}

std::string Session::why_superseded(ViewId ownership_generation) const {
  if (ownership_generation > view_.id && ownership_generation.term >= term_) return "";
  return str("superseded: view ", view_.id, " of term ", term_, " is already known");
}

std::optional<Error> Session::check_folder(const std::string& folder) const {
  if (!config_.run_dir || is_plain_path_beneath(*config_.run_dir, folder)) return std::nullopt;
  constexpr size_t kShownBytesMax = 256;
  return Error{ErrorCode::kPermission,
               str("the chief requests the folder \"", folder.substr(0, kShownBytesMax),
                   "\", which is not below the run folder \"", *config_.run_dir, "\" (DP-2722)")};
}

bool Session::admit(int64_t now_ns, PeerKey from, const wire::Envelope& envelope,
                    const wire::PeerIdentity& identity, Turn& turn) {
  if (envelope.run != config_.run) {  // only a peer that names the run learns about it
    defended(Defence::kPsOtherRun);
    turn.effects().sends.push_back(
        {from,
         {.envelope = {.request = envelope.request},
          .body = wire::Reject{ErrorCode::kUnavailable, "this ps serves another run"}}});
    return false;
  }
  if (!identity.may_be(role_of(from))) {
    refuse_role(now_ns, from, envelope, identity, turn);
    return false;
  }
  if (std::optional<Error> error = fence(from, envelope)) {
    turn.reject(from, envelope.request, *std::move(error));
    return false;
  }
  if (from == kChiefPeer) {
    chief_heard_ns_ = now_ns;
    term_ = std::max(term_, envelope.view.term);
  }
  return true;
}

/// Rejects a peer whose identity does not allow its role. A peer can repeat this as often as it
/// likes, so the notice appears at most once per kRoleNoticeNs.
void Session::refuse_role(int64_t now_ns, PeerKey from, const wire::Envelope& envelope,
                          const wire::PeerIdentity& identity, Turn& turn) {
  Error error = wire::wrong_role(identity, role_of(from));
  ++roles_refused_;
  if (now_ns >= role_notice_at_ns_) {
    role_notice_at_ns_ = now_ns + kRoleNoticeNs;
    turn.effects().notices.push_back(str("refused a message: ", error.what, " (", error.id, "); ",
                                         roles_refused_, " refused since the ps started"));
  }
  error.what += str(" (", error.id, ")");
  turn.reject(from, envelope.request, std::move(error));
}

std::optional<Error> Session::fence(PeerKey from, const wire::Envelope& envelope) const {
  if (from == kChiefPeer && envelope.view.term < term_) {
    defended(Defence::kPsOldTerm);
    return Error{ErrorCode::kUnavailable,
                 str("a chief of term ", term_, " has taken over from term ", envelope.view.term)};
  }
  return std::nullopt;
}

bool Session::accept_view(const wire::Envelope& envelope, const wire::View& view, Turn& turn) {
  if (view.id <= view_.id || view.id.term < term_) {  // repeated or late
    defended(Defence::kPsViewOld);
    return false;
  }
  if (view.partitions.size() != partitions_.count()) {
    turn.reject(kChiefPeer, envelope.request,
                {ErrorCode::kMalformed, str("view ", view.id, " has ", view.partitions.size(),
                                            " partitions, not ", partitions_.count())});
    return false;
  }
  term_ = std::max(term_, view.id.term);
  view_ = view;
  return true;
}

void Session::on_stop(const wire::Envelope& envelope, const wire::Stop& stop, Turn& turn) {
  stopped_ = true;
  turn.send(kChiefPeer, envelope.request, wire::Goodbye{.last = heartbeat()});
  turn.effects().exit = Exit{stop.code, stop.reason};
}

void Session::on_refused(const wire::Refused& refused, Turn& turn) {
  stopped_ = true;
  turn.effects().exit = Exit{exit_code(refused.code), str("refused by the chief: ", refused.what)};
}

void Session::leave(int signal, Turn& turn) {
  leave_signal_ = signal;
  turn.send(kChiefPeer, RequestId{},
            wire::Leave{.incarnation = config_.incarnation, .signal = uint32_t(signal)});
}

bool Session::on_tick(int64_t now_ns, Turn& turn) {
  if (!chief_heard_ns_) chief_heard_ns_ = now_ns;
  const int64_t silence_ns = now_ns - *chief_heard_ns_;
  if (config_.chief_silence_ns_max > 0 && silence_ns > config_.chief_silence_ns_max) {
    defended(Defence::kPsChiefSilent);
    stopped_ = true;
    turn.effects().exit = Exit{exit_code(ErrorCode::kPeersLost),
                               str("no message from the chief for ", silence_ns / kSecond,
                                   " s; run the job again: it resumes from the newest checkpoint")};
    return false;
  }
  if (heartbeat_sent_ns_ && now_ns - *heartbeat_sent_ns_ < config_.heartbeat_ns) return false;
  heartbeat_sent_ns_ = now_ns;
  wire::Heartbeat beat = heartbeat();
  constexpr uint64_t kBeatsPerLoad = 4;
  if (heartbeats_++ % kBeatsPerLoad == 0) {
    beat.loads = load_meter_.take(partitions_.owned());
    if (heartbeats_ > 1) {
      beat.load_ns = now_ns - load_since_ns_;
    } else {
      beat.loads.clear();  // the start of the interval is not known
    }
    load_since_ns_ = now_ns;
  }
  turn.send(kChiefPeer, RequestId{}, std::move(beat));
  if (leave_signal_ != 0) leave(leave_signal_, turn);  // the first Leave may be lost
  return true;
}

wire::Heartbeat Session::heartbeat() const {
  wire::Heartbeat beat;
  beat.incarnation = config_.incarnation;
  beat.rows = partitions_.rows();
  beat.table_bytes = partitions_.memory_bytes();
  beat.pulled_bytes = stats_.pulled_bytes;
  beat.pushed_bytes = stats_.pushed_bytes;
  beat.staleness = stats_.staleness;
  beat.duplicate_parts = stats_.duplicate_parts;
  beat.gaps = stats_.gaps;
  if (const std::optional<Error>& failure = stats_.failure)
    beat.failure = {failure->code, failure->what, failure->hint, failure->id};
  return beat;
}

std::vector<wire::PartitionClaim> Session::claims() const {
  std::vector<wire::PartitionClaim> claims;
  for_each(partitions_.owned(), [&](PartitionId p) {
    claims.push_back({p, partitions_.ownership_generation(p), partitions_.sealed(p)});
  });
  return claims;
}

}  // namespace downpour::ps
