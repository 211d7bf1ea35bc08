// Configuration and limits of a ps core, and the effects that it returns. The events are PsCore's
// on_... functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ps/core/arena.h"
#include "shared/base/ids.h"
#include "shared/base/units.h"
#include "shared/checkpoint/image.h"
#include "shared/job/job.h"
#include "shared/tensor/variables.h"
#include "shared/wire/messages.h"

namespace downpour::ps {

/// Key of a peer that sends messages and receives replies. The shell maps it to a connection.
using PeerKey = uint64_t;
constexpr PeerKey kChiefPeer = 0;

/// Limits on everything that a peer could make grow. Each comment says what happens beyond the
/// limit.
struct PsLimits {
  // A batch of a million keys takes about 70 messages, and several batches are in flight.
  uint32_t handles_per_worker_max = 1024;            // beyond: its oldest handle is dropped
  uint64_t handle_bytes_per_worker_max = 64 * kMiB;  // beyond: its oldest handles are dropped
  uint64_t handle_bytes_max = 512 * kMiB;    // of all workers; beyond: no new handle is kept
  int64_t handle_age_ns_max = 60 * kSecond;  // beyond: dropped
  uint64_t staged_bytes_per_worker_max = 256 * kMiB;  // beyond: its oldest stage is dropped
  uint64_t staged_bytes_max = kGiB;         // of all workers; beyond: the oldest stage is dropped
  uint32_t stages_max = 1024;               // of all workers; beyond: the oldest stage is dropped
  uint64_t step_bytes_max = kStepBytesMax;  // parts of a synchronous step; beyond: rejected
  uint32_t step_parts_max = 1024;           // their batches; beyond: the worker computes again
  // Parts of a step that have arrived before their turn, or as much as the dense variables of the
  // core. Beyond: the worker sends them again.
  uint64_t step_early_bytes_max = 16 * kMiB;
  uint32_t fragments_max = 4096;            // of one part; beyond: rejected
  int64_t stage_age_ns_max = 60 * kSecond;  // beyond: dropped
  uint32_t replies_max = 256;               // pull replies not yet sent; beyond: kOverloaded
  // Pulls that wait for a step, and the bytes of their keys. Beyond: kOverloaded.
  uint32_t pulls_waiting_max = 4096;
  uint64_t pulls_waiting_bytes_max = 16 * kMiB;
  uint32_t epochs_open_max = 16;     // unsealed epochs that have watermarks; beyond: rejected
  uint32_t shards_open_max = 65536;  // begun and not ended; beyond: rejected
  uint64_t shards_open_bytes_max = 512 * kMiB;  // memory of these shards; beyond: rejected
  // Shards that one peer has begun and that have not ended; a worker holds at most 64 leases.
  // Beyond: rejected.
  uint32_t shards_open_per_peer_max = 1024;
  uint32_t intervals_max = 32768;  // of ended shards, per partition and epoch; beyond: rejected
  // Limits of a StatusReply. With these limits it fits a header, even with 4096 partitions. The
  // first one must exceed intervals_max.
  uint32_t ended_told_max = 36864;        // intervals; beyond: later ones count as not ended
  uint32_t begun_told_max = 8192;         // intervals; beyond: the last one covers the rest
  uint32_t open_told_max = 12288;         // shards; beyond: later ones are read from their start
  uint32_t markers_max = 4096;            // quarantine markers; an image with more is refused
  uint32_t outputs_max = 256;             // metrics of a batch; beyond: rejected
  uint32_t loads_max = 64;                // adoptions in progress; beyond: refused
  uint32_t freezes_max = 64;              // moves in progress; beyond: refused
  uint64_t save_bytes_max = 24 * kMiB;    // copied, not yet written; beyond: copying pauses
  uint64_t save_copy_bytes = 256 * kKiB;  // copied per step, rounded up to whole partitions
};

/// Number of epochs and shards of the training plan, from the chief's Welcome. A push beyond them
/// is rejected.
struct PlanExtent {
  uint32_t epochs = UINT32_MAX;
  uint32_t shards = UINT32_MAX;  // of each epoch
};

/// What divides the sum of a step's gradients.
enum class StepDivisor : uint8_t {
  kNone,
  kWeight,        // the weight of the step's records
  kRecords,       // their number: the gradients are changes of replicas that have trained alone
  kRecordsOfRow,  // the same, but of each row: the records of the replicas that have touched it
};

/// The groups of variables whose gradients have a limited norm.
enum class ClipGroups : uint8_t {
  kNone,       // no norm is limited
  kAll,        // one group of all variables
  kVariables,  // one of each variable, in the order of the tables
};

/// Synchronous training: a step applies one batch of each replica.
struct StepRules {
  uint32_t replicas = 1;
  uint32_t backups = 0;  // replicas that a step may leave out
  bool in_turn = true;   // shard s belongs to replica s modulo `replicas`; otherwise as leased
  StepDivisor divisor = StepDivisor::kNone;
  float clip_value = 0;  // limits each element of the divided sum; 0: no limit
  ClipGroups clip_groups = ClipGroups::kNone;
  /// Returns the number under which the batch of a push is staged: of its replica. With backups it
  /// is the shard, because a shard may pass to another replica: two workers that compute the same
  /// batch then stage it once.
  uint32_t number_of(const wire::Push& push) const {
    return backups > 0 ? push.batch.shard : push.replica;
  }
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
  std::optional<StepRules> steps;  // none: each part is applied when it arrives
  /// Images are written and read only below this folder, whatever a message says. None: anywhere
  /// (tests and benchmarks of a core).
  std::optional<std::string> run_dir;
  int64_t heartbeat_ns = kSecond;
  int64_t chief_silence_ns_max = 0;  // beyond, the core exits with 180; 0: never
  PsLimits limits;
  bool incremental_saves = false;  // an image may hold only the rows touched since its base
  ArenaOptions arenas;             // of all tables
  uint64_t table_bytes_max = 0;    // of all tables; 0: PsCore::on_free_memory() sets it
};

struct Send {
  PeerKey to = kChiefPeer;
  wire::Message message;
};
/// Effect: append `image` to this core's file of `checkpoint` in `folder`, off the core's thread.
/// The first image of a checkpoint creates the file and drops an unfinished file of an older
/// checkpoint. The shell answers each image with on_image_written(). It also calls on_stored()
/// after the last image, or after the first one that fails.
struct Store {
  ViewId checkpoint;
  std::string folder;
  checkpoint::PartitionImage image;  // keys in no order; the writer sorts them
  bool last = false;
};
/// Effect: read the images off the core's thread, or take them from `inlined`. Answered by
/// on_loaded(id).
struct Load {
  uint64_t id = 0;
  std::string folder;
  std::vector<wire::ImageRef> images;
  Bytes inlined;  // if not empty, holds all images
};
/// Effect: hand out the images of frozen partitions. Small images are returned as bytes at once;
/// larger ones are written to a new file off the core's thread. The file need not survive a crash.
/// Answered by on_exported(ownership_generation).
struct Export {
  ViewId ownership_generation;
  std::string folder;
  std::vector<checkpoint::PartitionImage> images;
};
/// Effect: delete the file that an Export wrote.
struct Discard {
  ViewId ownership_generation;
  std::string folder;
};
/// Effect: end the process after the messages of all earlier Send effects have left it.
struct Exit {
  int32_t code = 0;
  std::string reason;
};

/// Requests of the core to its shell, in order within each kind. The shell carries them out, clears
/// the object, and passes it again.
struct Effects {
  std::vector<Send> sends;
  std::vector<Store> stores;
  std::vector<Load> loads;
  std::vector<Export> exports;
  std::vector<Discard> discards;
  std::vector<std::string> notices;  // for the log of the process; few, whatever peers do
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
