// LeaseTable: the shards of one pass over the data, and which workers hold them. It is a cache of
// what the partitions know, so leases affect speed, never correctness.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "shared/base/ids.h"
#include "shared/base/units.h"
#include "shared/wire/messages.h"

namespace downpour::chief {

enum class ShardState : uint8_t { kFree, kLeased, kEnded };

/// A worker's lease on a shard.
struct Holder {
  Incarnation worker{};
  uint32_t attempt = 0;
  uint32_t first_batch = 0;
  uint32_t batches_acked = 0;  // highest number reported; at first `first_batch`
  uint64_t bytes_done = 0;
  uint64_t granted_order = 0;  // ascends with every lease
  int64_t granted_ns = 0;
  int64_t heard_ns = 0;  // time of the lease or of the newest progress report
  int64_t moved_ns = 0;  // time of the lease or of the newest acknowledged batch
};

/// State of one shard, as the chief knows it.
struct ShardEntry {
  ShardState state = ShardState::kFree;
  std::vector<Holder> holders;  // kLeased: one worker, or two with a backup lease; otherwise empty
  uint32_t attempt = 0;         // number of the newest lease, starting at 1
  uint32_t first_batch = 0;     // hint for the next lease
  uint32_t batches_acked = 0;   // highest number of all leases since it was reopened
  uint32_t failures = 0;        // failed attempts in a row without progress
  uint32_t failed_batch = 0;    // batch of the newest failure
  // A partition may have begun it. For the shard of a replica: a step has one of its batches.
  bool begun = false;
  uint64_t bytes_done = 0;
  std::optional<uint32_t> batches;  // known if a worker has read the end of the shard
  wire::ShardCounts counts;         // as reported by the worker that ended it
  bool has_counts = false;
};

constexpr size_t kHoldersMax = 2;  // workers per shard
// How long the first open shard of a replica is reserved: for the worker that holds the replica,
// or, if none does, for workers with fewer replicas than their share. Then any worker may take it.
constexpr int64_t kReplicaWaitNs = 3 * kSecond;

/// The shards of one pass: training of one epoch, one evaluation or one prediction run.
class LeaseTable {
 public:
  /// Takes the fields that all leases of the pass share from `pattern`.
  LeaseTable(const wire::Lease& pattern, uint32_t shard_count);
  LeaseTable() : LeaseTable(wire::Lease{}, 0) {}

  /// Divides the shards into `count` streams (stream_of[shard] < count), before the first lease.
  /// One worker at a time reads a stream. A stream belongs to a worker from the worker's first
  /// lease on it until the worker gives back its last lease on any shard, or until leave() is
  /// called. A shard that ends does not count as given back.
  void split(uint32_t count, const std::vector<uint32_t>& stream_of);
  /// Divides the shards among `count` replicas as split() does. A replica is a stream whose shards
  /// are leased in ascending order, at most two at a time, to one worker. A worker may hold several
  /// replicas.
  void split_among_replicas(uint32_t count, const std::vector<uint32_t>& replica_of);
  /// Does the same in turn: shard s belongs to replica s modulo `count`.
  void split_among_replicas(uint32_t count);
  /// As split_among_replicas(), but a replica gets its next shard only when a worker leases it: the
  /// lowest one that no replica has. So a replica that is often left out has fewer shards.
  void share_among_replicas(uint32_t count);
  /// Leases one shard, the first of these: the first open shard of a replica that this worker
  /// holds; the first open shard of a replica that no worker holds, if this worker holds fewer than
  /// `replicas_max` or the replica has waited for kReplicaWaitNs; a second shard of a replica that
  /// this worker holds, so that it can read ahead. A worker may hold one replica more than
  /// `replicas_max` if give_away() has taken that replica from another worker. If the worker holds
  /// more than `replicas_max` replicas, it loses the first of them that has an open shard and no
  /// lease, and the call grants nothing. A shard that has failed since its last progress is not
  /// read ahead. If `ahead` is false, no shard is.
  std::optional<wire::Lease> grant_of_replica(int64_t now_ns, Incarnation worker,
                                              uint32_t replicas_max, bool ahead = true);
  /// Returns whether the first open shard of some replica has failed since its last progress.
  bool has_suspects() const;
  /// Returns the number of workers other than `worker` that hold more than `count` replicas.
  uint32_t others_above(uint32_t count, Incarnation worker) const;
  /// Takes away each replica whose worker has not requested its first open shard for
  /// kReplicaWaitNs. Returns the leased shards of these replicas. The caller must revoke them, so
  /// that any worker may take the replicas. Must be called regularly: it measures the wait.
  std::vector<uint32_t> neglected(int64_t now_ns);
  /// Decides whether replicas may begin shards. After close(true), first_open_of() and
  /// grant_of_replica() consider only shards that have been begun.
  void close(bool closed) { closed_ = closed; }
  bool is_closed() const { return closed_; }
  /// Returns the first shard of a replica that has not ended; none if all have ended.
  std::optional<uint32_t> first_open_of(uint32_t replica) const;
  /// Returns the replica that has the shard, after the shards were divided among replicas.
  uint32_t replica_of(uint32_t shard) const { return stream_of_[shard]; }
  /// Returns the leased shards of a replica, ascending.
  std::vector<uint32_t> leased_of(uint32_t replica) const;
  /// Returns the number of replicas that have a shard which has not ended, or can still get one.
  uint32_t active_replicas() const;
  /// Takes a replica away from its worker. For kReplicaWaitNs only other workers may get it, then
  /// any worker. The caller must revoke leased_of(replica).
  void give_away(int64_t now_ns, uint32_t replica);
  /// Appends `count` free shards to a pass whose length is not known yet. Requires at most one
  /// stream, or shards that are divided among replicas in turn or one by one.
  void grow(uint32_t count);
  /// Returns the number of free shards of the replica that has the fewest. UINT32_MAX if shards are
  /// not divided among replicas, or are assigned to them one by one.
  uint32_t fewest_free() const;
  /// For a table that was not split: if `with_all`, every worker may lease every shard from now on;
  /// otherwise the shards form one stream. Does nothing if shards are divided among replicas.
  void share(bool with_all);
  /// Returns true if every worker may lease every shard. False after split() or share(false).
  bool shared() const { return stream_of_.empty() && replicas_ == 0; }

  /// Leases the first free shard below `limit` to this worker; returns none if no shard qualifies.
  /// If there are several streams, the worker's own stream comes first. A worker without leases
  /// gets a stream without owner, preferably number `index` modulo the number of streams. If
  /// `suspects` is false, shards that have failed since their last progress are not leased. If
  /// `fresh` is false, only shards that have been begun are leased.
  std::optional<wire::Lease> grant(int64_t now_ns, Incarnation worker, uint32_t limit = UINT32_MAX,
                                   uint32_t index = 0, bool suspects = true, bool fresh = true);
  /// Releases the streams of a worker that is gone.
  void leave(Incarnation worker);

  /// Registers a lease that an earlier chief granted. Returns false, and does nothing, if the shard
  /// is not free or was leased by this chief before.
  bool take_up(int64_t now_ns, Incarnation worker, const wire::Lease& lease);

  /// Grants a backup lease on a shard that one other worker holds. It starts after the batches
  /// that all partitions have acknowledged; in an evaluation it covers the whole shard.
  wire::Lease back_up(int64_t now_ns, uint32_t shard, Incarnation worker);

  /// Returns true if `lease` belongs to this pass and names an existing shard.
  bool covers(const wire::Lease& lease) const;
  /// Returns true if this worker holds the shard. An earlier attempt of the same worker counts as
  /// well: the worker lost the lease by silence and got it again.
  bool holds(Incarnation worker, const wire::Lease& lease) const;
  /// Returns true if this worker holds the shard under exactly this attempt. Detects late reports
  /// of an earlier attempt.
  bool is_newest(Incarnation worker, const wire::Lease& lease) const;
  /// Returns the lease of this worker on the shard; null if there is none.
  const Holder* holder(uint32_t shard, Incarnation worker) const;
  /// Returns a holder's lease as it was granted.
  wire::Lease lease_of(uint32_t shard, const Holder& holder) const;

  /// Records progress of a lease for which holds() is true.
  void renew(int64_t now_ns, uint32_t shard, Incarnation worker, uint32_t batches_acked,
             uint64_t bytes_done);
  /// Ends the shard for all its holders. Returns false if it had ended already.
  bool end(uint32_t shard);
  /// Does the same, and stores the counts that its worker reported.
  bool end(uint32_t shard, const wire::ShardCounts& counts);
  /// Records that some partition lacks the shard from `first_batch` on. A shard that had ended
  /// becomes free; a leased shard keeps its holders.
  void reopen(uint32_t shard, uint32_t first_batch);
  /// Records that some partition has begun the shard, or that a step has a batch of it.
  void mark_begun(uint32_t shard);
  /// Returns true if a free shard has been begun, and therefore must be ended.
  bool begun_is_free() const { return begun_free_count_ > 0; }
  /// Ends this worker's lease without a failed attempt. The shard becomes free if it has no other
  /// holder.
  void release(uint32_t shard, Incarnation worker);
  /// Does the same, and counts a failed attempt at `batch`. Returns the number of failed attempts
  /// in a row without progress.
  uint32_t fail(uint32_t shard, Incarnation worker, uint32_t batch);

  /// Call when it was decided whether to quarantine a batch of the shard. Resets the failed
  /// attempts and forgets the number of batches, which a quarantined batch can change.
  void forgive(uint32_t shard) {
    entries_[shard].failures = 0;
    entries_[shard].batches.reset();
  }
  /// Records the number of the shard's batches.
  void note_batches(uint32_t shard, uint32_t batches) { entries_[shard].batches = batches; }

  /// Returns the shards of a worker, in the order in which they were leased.
  std::vector<uint32_t> held_by(Incarnation worker) const;
  uint32_t held_count(Incarnation worker) const;
  /// Returns the shards of each worker.
  const std::map<Incarnation, std::set<uint32_t>>& held() const { return held_; }
  struct Held {
    uint32_t shard = 0;
    Incarnation worker{};
    bool operator==(const Held&) const = default;
  };
  /// Returns the leases without a report since `since_ns`, and those without an acknowledged batch
  /// since `moved_since_ns`: their workers are alive but cannot reach some ps. With `in_order`,
  /// shards wait for each other, so the second kind counts only if no leased shard has had an
  /// acknowledged batch since `moved_since_ns`.
  std::vector<Held> idle(int64_t since_ns, int64_t moved_since_ns, bool in_order = false) const;
  /// Returns all leased shards, ascending.
  std::vector<uint32_t> leased() const;

  const ShardEntry& entry(uint32_t shard) const { return entries_[shard]; }
  uint32_t shard_count() const { return uint32_t(entries_.size()); }
  uint32_t ended_count() const { return ended_count_; }
  uint32_t leased_count() const { return leased_count_; }
  uint32_t free_count() const { return free_count_; }
  uint32_t attempts_repeated() const { return attempts_repeated_; }
  uint32_t backups() const { return backups_; }
  /// Returns the number of acknowledged batches of all shards, as far as reported.
  uint64_t batches_acked() const { return batches_acked_; }
  bool all_ended() const { return ended_count_ == entries_.size(); }
  /// Returns the first shard that has not ended; shard_count() if all have ended.
  uint32_t first_open() const;
  wire::Purpose purpose() const { return pattern_.purpose; }
  uint32_t epoch() const { return pattern_.shard.epoch; }
  uint32_t evaluation() const { return pattern_.evaluation; }

 private:
  struct Stream {
    std::set<uint32_t> free;  // leased in ascending order, so returned shards come before new ones
    std::optional<Incarnation> worker;
    uint32_t leased = 0;  // shards
    // Of a replica: its shards, ascending. All below `open` have ended; first_open_of() advances
    // it.
    std::vector<uint32_t> shards;
    mutable size_t open = 0;
    // Of a replica: since when its first open shard is known to wait for a worker.
    std::optional<int64_t> waits_since_ns;
    std::optional<Incarnation> given_away_by;  // of a replica: see give_away()
    bool waits_long(int64_t now_ns) const {
      return waits_since_ns && now_ns - *waits_since_ns >= kReplicaWaitNs;
    }
  };
  Stream& stream_of(uint32_t shard) { return streams_[stream_of_.empty() ? 0 : stream_of_[shard]]; }
  Stream* choose_stream(Incarnation worker, uint32_t index, bool fresh);
  bool shares_among_replicas() const { return replicas_ > 0 && streams_.size() > replicas_; }
  /// Returns the number of shards that no replica has yet, after share_among_replicas().
  size_t undealt_count() const;
  /// Returns the first free shard of a stream that may be leased now.
  std::optional<uint32_t> next_of(const Stream& stream) const;
  bool is_done(uint32_t replica) const;
  bool may_take(const Stream& stream, int64_t now_ns, Incarnation worker, uint32_t held,
                uint32_t replicas_max) const;
  void deal(uint32_t replica);
  bool is_begun(uint32_t shard) const { return entries_[shard].begun; }
  bool take_free(uint32_t shard);
  void begin_lease(uint32_t shard);
  Holder& hand_out(int64_t now_ns, uint32_t shard, Incarnation worker);
  void leave_holder(uint32_t shard, Incarnation worker);
  void make_free(uint32_t shard);
  void count_acked(ShardEntry& entry, uint32_t batches);

  wire::Lease pattern_;
  std::vector<ShardEntry> entries_;
  std::vector<Stream> streams_{1};
  std::vector<uint32_t> stream_of_;  // by shard; empty: one stream that all workers share
  // The first `replicas_` streams are replicas. After share_among_replicas(), one more stream has
  // the shards that no replica has yet. 0: streams are not replicas.
  uint32_t replicas_ = 0;
  bool closed_ = false;
  uint32_t free_count_ = 0;
  uint32_t begun_free_count_ = 0;  // how many of them have been begun
  std::map<Incarnation, std::set<uint32_t>> held_;
  uint64_t granted_ = 0;
  uint32_t ended_count_ = 0;
  uint32_t leased_count_ = 0;
  uint32_t attempts_repeated_ = 0;
  uint32_t backups_ = 0;
  uint64_t batches_acked_ = 0;
  mutable uint32_t first_open_ = 0;  // every shard below it has ended; advanced by first_open()
};

}  // namespace downpour::chief
