// Admission: which processes may join the job, which index each of them gets, and which of them
// have fallen silent.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "chief/core/cluster/ownership.h"
#include "chief/core/turn.h"
#include "shared/base/result.h"
#include "shared/wire/peer_identity.h"

namespace downpour::chief {

/// Returns what the Welcomes of all members have in common.
wire::Welcome common_welcome(const ChiefConfig& config);

class Admission {
 public:
  /// The decision about a Hello. The caller first removes the displaced members, then calls
  /// room_for(), then add().
  struct Verdict {
    bool waits = false;              // undecided: the process repeats its Hello
    Member* known = nullptr;         // it is a member already
    bool returned = false;           // and was silent or had left
    std::vector<Member*> displaced;  // members whose index it takes
  };
  struct Scope {
    bool gathering = false;      // claims to partitions count
    uint32_t sealed_epochs = 0;  // of the newest checkpoint
  };

  Admission(const ChiefConfig& config, Membership& members, const Ownership& ownership)
      : config_(config),
        members_(members),
        ownership_(ownership),
        had_input_(config.job.cluster.input_workers > 0) {}

  /// Answers a message that this chief must not handle: it belongs to another run, or names a newer
  /// chief. Returns false if it is none.
  bool turns_away(Turn& turn, PeerKey peer, const wire::Message& message);
  /// Checks a Hello, and assigns its index in it. Error if the process is refused.
  Result<Verdict> examine(Turn& turn, PeerKey peer, wire::Hello& hello,
                          const wire::PeerIdentity& identity, const Scope& scope);
  /// Returns the member that must be removed so that another one of the role fits: the one that has
  /// been gone longest and owns nothing. Returns null if there is room. Error kUnavailable if the
  /// limit is reached and no member can be removed.
  Result<Member*> room_for(wire::Role role);
  Member& add(const Turn& turn, PeerKey peer, wire::Hello hello);
  /// Sends the Welcome, and what the member must know next.
  void welcome(Turn& turn, Member& member, RequestId request, uint32_t train_shards);
  void refuse(Turn& turn, PeerKey peer, const Error& error, const wire::Envelope& envelope);
  /// Returns the worker or input process that sent this heartbeat or Goodbye on a new connection,
  /// and binds it to that connection. The incarnation identifies it, and its key must be the one of
  /// its Hello. A ps must send Hello instead, because its cores share an incarnation. A chief that
  /// knows only one of the cores could confuse their connections.
  Member* rebind(PeerKey peer, const wire::Body& body, const wire::PeerIdentity& identity);

  /// Sends the changed list of input processes to the workers. A worker that misses it gets it with
  /// the answer to its next heartbeat.
  void send_inputs(Turn& turn);
  /// Answers a heartbeat with a sign of life. For a ps, Sealed also replaces one that was lost.
  void answer_heartbeat(Turn& turn, Member& member, uint32_t sealed_epochs);

  /// Marks a member as silent if it has been quiet for too long. Returns true if it was not marked
  /// before.
  bool falls_silent(const Turn& turn, Member& member) const;
  void report_silence(Turn& turn, const Member& member) const;
  /// Reports that a silent member has sent a message.
  void report_return(Turn& turn, const Member& member);
  /// Returns the error that fails the job if it needs workers and there has been none for too long.
  std::optional<Error> check_workers(Turn& turn, bool needs_workers);
  /// Returns the stop signal that a worker reported before it left; 0: none of them did.
  int signal_of_departed_workers() const;

 private:
  enum class IndexConflict : uint8_t { kWait, kRefused, kReplaced };
  std::optional<Error> fault_of(const wire::Hello& hello, const wire::PeerIdentity& identity) const;
  Result<Verdict> examine_ps(Turn& turn, wire::Hello& hello, const Scope& scope);
  Result<Verdict> examine_worker(Turn& turn, wire::Hello& hello, const Scope& scope);
  IndexConflict index_conflict(Turn& turn, Member& old, const wire::Hello& hello,
                               const Scope& scope);
  wire::InputList input_list() const;

  const ChiefConfig& config_;
  Membership& members_;
  const Ownership& ownership_;
  bool had_input_;  // there was or will be an input process: workers get InputLists
  bool had_worker_ = false;
  int64_t no_worker_ns_ = -1;  // since when there is no live worker; -1: there is one
};

}  // namespace downpour::chief
