// Input readings: which shards an input process reads for whom, and how far ahead. A deterministic
// state machine: no socket, file, thread or clock (time is an argument). A reading holds nothing
// that cannot be lost: whoever wants it asks again, here or elsewhere.
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

/// One connection of a worker, as the shell's transport numbers them.
enum class InputPeer : uint64_t {};

struct InputConfig {
  uint64_t run = 0;
  uint64_t plan_hash = 0;
  uint32_t shard_reads_max =
      1024;                  // more: the one idle for longest goes, or the new one is refused
  uint32_t open_max = 8;     // read at once; the others wait for their turn
  uint32_t window_max = 64;  // batches under way of one reading, whatever a worker asks for
  uint64_t window_bytes = 8 * kMiB;  // of one reading; one batch may always be under way
  uint64_t bytes_max = 512 * kMiB;   // of all readings
  int64_t idle_ns = 60 * kSecond;    // without a word of its worker: dropped
  int64_t spare_ns = 10 * kSecond;   // the same where readings_max is reached
};

/// What was read, ready to be sent: a batch, the shard's end, or a failure.
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
  /// Read one batch; answered by an InputItem. The first of a reading says what to open.
  struct Read {
    uint64_t id = 0;
    std::optional<wire::ReadShard> open;
  };
  std::vector<Send> sends;
  std::vector<Read> reads;
  std::vector<uint64_t> closes;  // readings that nobody wants any more

  void clear() { *this = {}; }
};

class InputShardReads {
 public:
  explicit InputShardReads(InputConfig config) : config_(config) {}

  /// `identity`: what the connection proves. Only workers have shards read.
  void on_read_shard(int64_t now_ns, InputPeer peer, const wire::ReadShard& request,
                     InputEffects& fx, const wire::PeerIdentity& identity = {});
  void on_read_more(int64_t now_ns, InputPeer peer, const wire::ReadMore& more, InputEffects& fx);
  void on_item(InputItem&& item, InputEffects& fx);
  void on_peer_gone(InputPeer peer, InputEffects& fx);
  void on_tick(int64_t now_ns, InputEffects& fx);

  size_t size() const { return shard_reads_.size(); }
  /// Of batches that no worker has said to have.
  uint64_t bytes() const { return bytes_; }

 private:
  using Name = std::pair<InputPeer, uint64_t>;  // the worker's
  struct ShardRead {
    Name name;
    wire::ReadShard request;
    uint32_t next = 0;          // batch to be read
    std::deque<uint64_t> sent;  // bytes of each batch under way
    uint64_t bytes = 0;         // their sum
    bool open = false;
    bool busy = false;  // a batch of it is being read
    int64_t heard_ns = 0;
  };
  using ShardReads = std::map<uint64_t, ShardRead>;  // by id: in the order in which they came

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
