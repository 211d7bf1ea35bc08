// What a ps core is configured with, and the effects it returns. Events are PsCore's on_...
// functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ps/core/arena.h"
#include "shared/base/ids.h"
#include "shared/base/units.h"
#include "shared/checkpoint/image.h"
#include "shared/tensor/variables.h"
#include "shared/wire/messages.h"

namespace downpour::ps {

/// Who sent a message and who gets the reply; the shell maps it to a connection.
using PeerKey = uint64_t;
constexpr PeerKey kChiefPeer = 0;

/// Everything that a peer could make grow has its limit here.
struct PsLimits {
  // A batch of a million keys is some 70 messages, and several batches are in flight.
  uint32_t handles_per_worker_max = 1024;             // beyond: the worker's oldest goes
  uint64_t handle_bytes_per_worker_max = 64 * kMiB;   // beyond: the worker's oldest go
  uint64_t handle_bytes_max = 512 * kMiB;             // of all; beyond: no new handle is kept
  int64_t handle_age_ns_max = 60 * kSecond;           // beyond: dropped
  uint64_t staged_bytes_per_worker_max = 256 * kMiB;  // beyond: the worker's oldest stage goes
  uint64_t staged_bytes_max = kGiB;                   // of all; beyond: the oldest stage goes
  uint32_t stages_max = 1024;
  uint32_t fragments_max = 4096;                // of one part; more are rejected
  int64_t stage_age_ns_max = 60 * kSecond;      // beyond: dropped
  uint32_t replies_max = 256;                   // pulled values not yet sent; beyond: kOverloaded
  uint32_t epochs_open_max = 16;                // unsealed epochs with a part; beyond: rejected
  uint32_t shards_open_max = 65536;             // begun and not ended; beyond: rejected
  uint64_t shards_open_bytes_max = 512 * kMiB;  // of what is kept of them; beyond: rejected
  uint32_t shards_open_per_peer_max =
      1024;                        // begun by one peer, 64 of them leased; beyond: rejected
  uint32_t intervals_max = 32768;  // of ended shards, a partition and epoch; beyond: rejected
  // Of a StatusReply, which with 4096 partitions fits a header so; intervals_max, and some more.
  uint32_t ended_told_max = 36864;  // intervals; beyond: the later ones count as not ended
  uint32_t begun_told_max = 8192;   // intervals; beyond: the last one covers what follows
  uint32_t open_told_max = 12288;   // shards; beyond: the later ones are taken up at their start
  uint32_t markers_max = 4096;      // batches given up; an image with more is refused
  uint32_t outputs_max = 256;       // metrics of a batch; more are rejected
  uint32_t loads_max = 64;          // adoptions under way; beyond: refused
  uint32_t freezes_max = 64;        // moves under way; beyond: refused
  uint64_t save_bytes_max = 24 * kMiB;    // copied and not yet written; beyond: no further copy
  uint64_t save_copy_bytes = 256 * kKiB;  // copied at a time, rounded up to whole partitions
};

/// What of training there is at all, as the chief's Welcome says it. A push of anything else is
/// rejected.
struct PlanExtent {
  uint32_t epochs = UINT32_MAX;
  uint32_t shards = UINT32_MAX;  // of each
};

struct PsConfig {
  uint32_t index = 0;
  uint32_t thread = 0;
  Incarnation incarnation{};
  uint64_t run = 0;
  std::vector<TableSpec> tables;
  uint64_t seed = 0;
  uint32_t partition_bits = 8;
  PlanExtent plan;
  /// Images are written and read only below it, whatever a message says. None: anywhere (tests and
  /// benchmarks of a core).
  std::optional<std::string> run_dir;
  int64_t heartbeat_ns = kSecond;
  int64_t chief_silence_ns_max = 0;  // the core exits with 180 beyond; 0: never
  PsLimits limits;
  bool incremental_saves = false;  // images may hold only what was touched since another
  ArenaOptions arenas;             // of all tables
  uint64_t table_bytes_max = 0;    // of all tables; 0: what PsCore::on_free_memory() says
};

struct Send {
  PeerKey to = kChiefPeer;
  wire::Message message;
};
/// Add an image to this core's file of `checkpoint` in `folder`, off the core's thread. The first
/// one of a checkpoint makes the file; one of an older checkpoint that was not finished is dropped
/// then. Answered by on_image_written(), the last one, and any that fails, by on_stored().
struct Store {
  ViewId checkpoint;
  std::string folder;
  checkpoint::PartitionImage image;  // keys in no order: whoever writes it sorts them
  bool last = false;
};
/// Read the images off the core's thread, or where they came along take them from there; answered
/// by on_loaded(id).
struct Load {
  uint64_t id = 0;
  std::string folder;
  std::vector<wire::ImageRef> images;
  Bytes inlined;  // not empty: all images
};
/// Hand out the images of frozen partitions: small ones as bytes at once, others in a new file,
/// written off the core's thread; answered by on_exported(since). It need not survive a crash.
struct Export {
  ViewId ownership_generation;
  std::string folder;
  std::vector<checkpoint::PartitionImage> images;
};
/// What an Export wrote is not needed any more.
struct Discard {
  ViewId ownership_generation;
  std::string folder;
};
/// End the process, once what was sent has left.
struct Exit {
  int32_t code = 0;
  std::string reason;
};

/// What the core wants done, in order within each kind. The shell runs it, clears it and passes it
/// again.
struct Effects {
  std::vector<Send> sends;
  std::vector<Store> stores;
  std::vector<Load> loads;
  std::vector<Export> exports;
  std::vector<Discard> discards;
  std::vector<std::string> notices;  // for the process's log; few, whatever peers do
  std::optional<Exit> exit;
  void clear() {
    sends.clear();
    stores.clear();
    loads.clear();
    exports.clear();
    discards.clear();
    notices.clear();
    exit.reset();
  }
};

}  // namespace downpour::ps
