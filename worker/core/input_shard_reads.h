// InputShardReads: which shards an input process reads for which workers, and how far ahead. A
// deterministic state machine without socket, file, thread or clock (time is an argument). A shard
// read has no state that must survive: a worker that loses one asks again, here or elsewhere.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "shared/base/units.h"
#include "shared/wire/messages.h"
#include "shared/wire/peer_identity.h"

namespace downpour::worker {

/// One connection of a worker, numbered as in the shell's transport.
enum class InputPeer : uint64_t {};

struct InputConfig {
  uint64_t run = 0;
  uint64_t plan_hash = 0;
  // Beyond it, the shard read that is idle for longest is dropped, or the new one is refused.
  uint32_t shard_reads_max = 1024;
  uint32_t open_max = 8;     // read at the same time; the others wait for their turn
  uint32_t window_max = 64;  // unacknowledged batches per shard read, whatever a worker requests
  uint64_t window_bytes = 8 * kMiB;  // per shard read; one batch is always allowed
  uint64_t bytes_max = 512 * kMiB;   // of all shard reads
  int64_t idle_ns = 60 * kSecond;    // dropped after this time without a message of its worker
  int64_t spare_ns = 10 * kSecond;   // the same when shard_reads_max is reached
};

/// The result of reading, ready to send: a batch, the end of the shard, or a failure.
struct InputItem {
  uint64_t id = 0;
  std::vector<wire::Message> messages;
  uint64_t bytes = 0;
  bool last = false;  // nothing follows
};

struct InputEffects {
  struct Send {
    InputPeer to{};
    wire::Message message;
  };
  /// Read one batch. Answered by an InputItem. The first Read of a shard read holds the request to
  /// open.
  struct Read {
    uint64_t id = 0;
    std::optional<wire::ReadShard> open;
  };
  std::vector<Send> sends;
  std::vector<Read> reads;
  std::vector<uint64_t> closes;  // shard reads that are no longer needed

  void clear() { *this = {}; }
};

class InputShardReads {
 public:
  explicit InputShardReads(InputConfig config) : config_(config) {}

  /// `identity`: what the connection proves. Only workers may request shard reads.
  void on_read_shard(int64_t now_ns, InputPeer peer, const wire::ReadShard& request,
                     InputEffects& fx, const wire::PeerIdentity& identity = {});
  void on_read_more(int64_t now_ns, InputPeer peer, const wire::ReadMore& more, InputEffects& fx);
  void on_item(InputItem&& item, InputEffects& fx);
  void on_peer_gone(InputPeer peer, InputEffects& fx);
  void on_tick(int64_t now_ns, InputEffects& fx);

  size_t size() const { return shard_reads_.size(); }
  /// Bytes of batches that no worker has acknowledged.
  uint64_t bytes() const { return bytes_; }

 private:
  using Name = std::pair<InputPeer, uint64_t>;  // number given by the worker
  struct ShardRead {
    Name name;
    wire::ReadShard request;
    uint32_t next = 0;          // batch to read next
    std::deque<uint64_t> sent;  // bytes of each unacknowledged batch
    uint64_t bytes = 0;         // their sum
    bool open = false;
    bool busy = false;  // one of its batches is being read
    int64_t heard_ns = 0;
  };
  using ShardReads = std::map<uint64_t, ShardRead>;  // by id, which is the order of arrival

  void send(InputPeer to, wire::Body body, InputEffects& fx) const;
  void refuse(const Name& name, ErrorCode code, std::string what, InputEffects& fx) const;
  bool make_room(int64_t now_ns, InputEffects& fx);
  void take(ShardRead& shard_read, uint32_t next);
  bool may_read(const ShardRead& shard_read) const;
  void advance(InputEffects& fx);
  ShardReads::iterator drop(ShardReads::iterator at, bool tell, InputEffects& fx);

  InputConfig config_;
  uint64_t last_id_ = 0;
  uint64_t bytes_ = 0;
  uint32_t open_ = 0;
  ShardReads shard_reads_;
  std::map<Name, uint64_t> ids_;
};

}  // namespace downpour::worker
