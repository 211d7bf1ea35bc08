// LeaseTable: the shards of one pass over the data, and whose hands they are in. A cache of what
// the partitions know: leases are for speed, never for correctness.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "shared/base/ids.h"
#include "shared/wire/messages.h"

namespace downpour::chief {

enum class ShardState : uint8_t { kFree, kLeased, kEnded };

/// One worker's lease on a shard.
struct Holder {
  Incarnation worker{};
  uint32_t attempt = 0;
  uint32_t first_batch = 0;
  uint32_t batches_acked = 0;  // most heard of from this worker
  uint64_t bytes_done = 0;
  uint64_t granted_order = 0;  // rises with every lease
  int64_t granted_ns = 0;
  int64_t heard_ns = 0;  // lease or newest word of progress
  int64_t moved_ns = 0;  // lease or newest batch acknowledged
};

/// What the chief knows of one shard.
struct ShardEntry {
  ShardState state = ShardState::kFree;
  std::vector<Holder> holders;  // kLeased: one, or two where a straggler has a backup; else none
  uint32_t attempt = 0;         // of the newest lease; the first is 1
  uint32_t first_batch = 0;     // hint for the next lease
  uint32_t batches_acked = 0;   // most heard of since the shard was last reopened
  uint32_t failures = 0;        // in a row without progress
  uint32_t failed_batch = 0;    // of the newest failure
  bool begun = false;           // some partition may hold something of it
  uint64_t bytes_done = 0;
  wire::ShardCounts counts;  // as its worker reported them
  bool has_counts = false;
};

constexpr size_t kHoldersMax = 2;  // workers at one shard

/// One pass: training of one epoch, one evaluation or one prediction run.
class LeaseTable {
 public:
  /// The fields that all leases of the pass share are taken from `pattern`.
  LeaseTable(const wire::Lease& pattern, uint32_t shard_count);
  LeaseTable() : LeaseTable(wire::Lease{}, 0) {}

  /// Before the first lease: the shards belong to `count` streams (stream_of[shard] < count), each
  /// for one worker at a time. It is his from his first lease of it until he has given the last one
  /// back; he keeps it to its end, also while he waits for nothing.
  void split(uint32_t count, const std::vector<uint32_t>& stream_of);
  /// Of a pass whose shards were not known all, and not split: so many more, which are free.
  void grow(uint32_t count);
  /// Of a table that was not split: whether its shards are for anybody, or (as one stream) for one
  /// worker at a time, from now on.
  void share(bool with_all);
  /// True unless the shards were split: then every shard is for anybody.
  bool shared() const { return stream_of_.empty(); }

  /// The first free shard below `limit` that is for this worker, now in his hands; none if there is
  /// none. Of several streams: one of his own; else, with empty hands, of a stream that is
  /// nobody's, number `index` modulo their count if it is one of those. Without `suspects` none
  /// that has failed since it last moved on; without `fresh` none that nobody has begun.
  std::optional<wire::Lease> grant(int64_t now_ns, Incarnation worker, uint32_t limit = UINT32_MAX,
                                   uint32_t index = 0, bool suspects = true, bool fresh = true);
  /// The worker is gone: its streams are anybody's.
  void leave(Incarnation worker);

  /// A worker speaks of a lease that another chief gave. If the shard was never leased here and has
  /// not ended, it is in that worker's hands.
  bool take_up(int64_t now_ns, Incarnation worker, const wire::Lease& lease);

  /// A second lease on a shard that one other worker holds, to be taken up where that one is.
  wire::Lease back_up(int64_t now_ns, uint32_t shard, Incarnation worker);

  /// True if `lease` is of this pass and names an existing shard.
  bool covers(const wire::Lease& lease) const;
  /// True if the shard is in this worker's hands. (An older attempt of the same worker is the same
  /// work: it lost the lease by silence and got it again.)
  bool holds(Incarnation worker, const wire::Lease& lease) const;
  /// The same, and no later attempt is in its hands: what failed is not an earlier one, told late.
  bool is_newest(Incarnation worker, const wire::Lease& lease) const;
  /// The lease that this worker has on the shard; null: none.
  const Holder* holder(uint32_t shard, Incarnation worker) const;
  /// A holder's lease as it was granted.
  wire::Lease lease_of(uint32_t shard, const Holder& holder) const;

  /// Progress of a lease that holds() is true for.
  void renew(int64_t now_ns, uint32_t shard, Incarnation worker, uint32_t batches_acked,
             uint64_t bytes_done);
  /// The shard is through, whoever said it. Returns false if it had ended already.
  bool end(uint32_t shard);
  /// The same, with the counts that its worker reported.
  bool end(uint32_t shard, const wire::ShardCounts& counts);
  /// A completion round found that a partition lacks it: free, to be taken up at `first_batch`.
  void reopen(uint32_t shard, uint32_t first_batch);
  /// Some partition holds something of the shard, whoever brought it there.
  void mark_begun(uint32_t shard);
  /// Whether a free shard has been begun, and so is to be brought to its end.
  bool begun_is_free() const { return begun_free_count_ > 0; }
  /// Gives this worker's lease back without blame; the shard is free again if nobody else is at it.
  void release(uint32_t shard, Incarnation worker);
  /// The same, counted as a failed attempt at `batch`. Returns failures in a row without progress.
  uint32_t fail(uint32_t shard, Incarnation worker, uint32_t batch);

  /// What failed at the shard is not at fault any more.
  void forgive(uint32_t shard) { entries_[shard].failures = 0; }

  /// All shards of a worker, in the order in which they were leased.
  std::vector<uint32_t> held_by(Incarnation worker) const;
  uint32_t held_count(Incarnation worker) const;
  /// Who holds which shards.
  const std::map<Incarnation, std::set<uint32_t>>& held() const { return held_; }
  /// Leases without a word of progress since before `since_ns`, or without a batch acknowledged
  /// since before `moved_since_ns` (a worker that lives but reaches some ps no more); where shards
  /// are read `in_order` only if that is so of all of them.
  struct Held {
    uint32_t shard = 0;
    Incarnation worker{};
    bool operator==(const Held&) const = default;
  };
  std::vector<Held> idle(int64_t since_ns, int64_t moved_since_ns, bool in_order = false) const;
  /// All shards that are in someone's hands, ascending.
  std::vector<uint32_t> leased() const;

  const ShardEntry& entry(uint32_t shard) const { return entries_[shard]; }
  uint32_t shard_count() const { return uint32_t(entries_.size()); }
  uint32_t ended_count() const { return ended_count_; }
  uint32_t leased_count() const { return leased_count_; }
  uint32_t free_count() const { return free_count_; }
  uint32_t attempts_repeated() const { return attempts_repeated_; }
  uint32_t backups() const { return backups_; }
  /// Batches of all shards that were acknowledged, as far as it was told.
  uint64_t batches_acked() const { return batches_acked_; }
  bool all_ended() const { return ended_count_ == entries_.size(); }
  /// First shard that has not ended; shard_count() if all have.
  uint32_t first_open() const;
  wire::Purpose purpose() const { return pattern_.purpose; }
  uint32_t epoch() const { return pattern_.shard.epoch; }
  uint32_t evaluation() const { return pattern_.evaluation; }

 private:
  struct Stream {
    std::set<uint32_t> free;  // taken from the front: what comes back goes before what never went
    std::optional<Incarnation> worker;
  };
  Stream& stream_of(uint32_t shard) { return streams_[stream_of_.empty() ? 0 : stream_of_[shard]]; }
  Stream* choose_stream(Incarnation worker, uint32_t index, bool fresh);
  bool is_begun(uint32_t shard) const { return entries_[shard].begun; }
  bool take_free(uint32_t shard);
  Holder& hand_out(int64_t now_ns, uint32_t shard, Incarnation worker);
  void leave_holder(uint32_t shard, Incarnation worker);
  void make_free(uint32_t shard);
  void count_acked(ShardEntry& entry, uint32_t batches);

  wire::Lease pattern_;
  std::vector<ShardEntry> entries_;
  std::vector<Stream> streams_{1};
  std::vector<uint32_t> stream_of_;  // by shard; empty: one stream, which is everybody's
  uint32_t free_count_ = 0;
  uint32_t begun_free_count_ = 0;  // of the free ones
  std::map<Incarnation, std::set<uint32_t>> held_;
  uint64_t granted_ = 0;
  uint32_t ended_count_ = 0;
  uint32_t leased_count_ = 0;
  uint32_t attempts_repeated_ = 0;
  uint32_t backups_ = 0;
  uint64_t batches_acked_ = 0;
  mutable uint32_t first_open_ = 0;  // no shard below it is open; moved up by first_open()
};

}  // namespace downpour::chief
