// PsCore: the deterministic state machine of one ps thread. It owns partitions, answers pulls and
// pushes, and does what the chief says. No socket, file, thread or clock: events in, effects out.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ps/core/buffer_pool.h"
#include "ps/core/events.h"
#include "ps/core/handles.h"
#include "ps/core/load_meter.h"
#include "ps/core/memory_budget.h"
#include "ps/core/partition.h"
#include "ps/core/staging.h"
#include "shared/base/result.h"
#include "shared/wire/messages.h"
#include "shared/wire/peer_identity.h"

namespace downpour::ps {

/// One core. The same events in the same order give the same effects, bit for bit. Nothing that a
/// peer sends stops it or grows it beyond PsLimits; what cannot be served is answered by a typed
/// Reject.
class PsCore {
 public:
  /// `config` comes from this process's own job: 1 <= partition_bits <= 16 is checked here.
  explicit PsCore(PsConfig config);

  /// A message from a peer, and what its connection proves: only a chief directs a ps, and only a
  /// worker pulls and pushes. Replies echo its request id and carry the run and the newest view.
  void on_message(int64_t now_ns, PeerKey from, const wire::Message& message, Effects& effects,
                  const wire::PeerIdentity& identity = {});
  /// The images of Load effect `id`, or why they could not be read. They may come in several calls;
  /// `more`: others follow.
  void on_loaded(uint64_t id, Result<std::vector<checkpoint::PartitionImage>> images,
                 Effects& effects, bool more = false);
  /// While true the shell calls continue_save() between messages: a partition is copied at a time,
  /// so that nothing waits longer than that.
  bool saves() const;
  /// Copies the next partition of the checkpoint under way.
  void continue_save(Effects& effects);
  /// The image of one Store effect is written. Its memory may be given back for the next copy.
  void on_image_written(ViewId checkpoint, checkpoint::PartitionImage&& image);
  /// Where all images of `checkpoint` lie now, or why one of them could not be written.
  void on_stored(ViewId checkpoint, Result<std::vector<wire::ImageRef>> images, Effects& effects);
  /// Where the images of the Export effect of `since` lie, or why they could not be written. With
  /// `inlined` they lie there, and no file was made.
  void on_exported(ViewId ownership_generation, Result<std::vector<wire::ImageRef>> images,
                   Bytes inlined, Effects& effects);
  /// The machine has `free_bytes` for this core's tables beyond what they hold.
  void on_free_memory(uint64_t free_bytes);
  /// Asks the chief to move away what this core holds, and to stop it then.
  void leave(int signal, Effects& effects);
  /// A chief that was started anew may want more epochs, of other data.
  void set_plan(const PlanExtent& plan) { config_.plan = plan; }
  /// And may have the run folder under another path.
  void set_run_dir(std::string run_dir) { config_.run_dir = std::move(run_dir); }
  /// Some time has passed: heartbeats, ages, the chief's silence. Call it every 100 ms or so.
  void on_tick(int64_t now_ns, Effects& effects);

  const wire::View& view() const { return view_; }
  const Partitions& partitions() const { return partitions_; }
  const Handles& handles() const { return handles_; }
  const Staging& staging() const { return staging_; }
  wire::Heartbeat heartbeat() const;
  /// The partitions it holds, ascending: what a new chief goes on with.
  std::vector<wire::PartitionClaim> claims() const;

 private:
  /// Partitions that wait for their images.
  struct Loading {
    uint64_t id = 0;
    RequestId request{};
    ViewId ownership_generation;
    uint32_t sealed_epochs = 0;
    std::vector<wire::QuarantineMarker> markers;
    bool markers_known = true;
    uint64_t plan_hash = 0;
    Bits parts;   // asked for
    Bits wanted;  // not given to others meanwhile
    Bits has_image;
    Bits taken;  // of those: what has come so far
  };
  /// The checkpoint under way. A new one, and any change of what is owned, takes its place.
  struct Saving {
    ViewId checkpoint;
    ViewId base;
    uint32_t partial_epoch = 0, partial_shards = 0;  // as in the Save
    std::string folder;
    RequestId request{};
    Bits parts;    // of the checkpoint
    Bits waiting;  // of these, not yet copied
    uint64_t rows = 0;
    uint64_t unwritten_bytes = 0;  // copied
    bool beyond_partial_epoch = false;
    uint32_t sealed_epochs = 0;  // of the images, the most
  };
  /// An image in a checkpoint that is published. What was touched since is marked in the tables.
  struct Base {
    ViewId checkpoint;
    uint64_t checksum = 0;
  };
  /// Copied for a checkpoint that may be published or not; the next Save tells.
  struct Unpublished {
    ViewId checkpoint;
    Bits parts;                          // copied, and since then neither dropped nor restored
    std::vector<wire::ImageRef> images;  // of all, once they are written
  };
  /// Partitions that stand still until a view says whose they are.
  struct Freezing {
    ViewId ownership_generation;
    RequestId request{};
    std::string folder;
    Bits parts;
    std::optional<wire::Frozen> done;
    Bytes inlined;
  };
  /// What becomes of each part of one push.
  struct Admission {
    PeerKey from = kChiefPeer;
    Bits covered;
    Bits apply;  // watermark == batch
    uint32_t gaps = 0;
    bool refused = false;                 // a part is not ours, or not under the sender\'s view
    std::vector<wire::PartReply> others;  // ascending
  };
  /// Checked pointers of one message's payload, ready to be applied.
  struct Piece {
    const std::vector<wire::Section>* sections = nullptr;
    const uint8_t* keys = nullptr;
    const uint32_t* rows = nullptr;  // null: look the keys up
    const uint8_t* values = nullptr;
    const std::vector<uint64_t>* versions = nullptr;
    bool versions_of_owned = false;  // else of the covered partitions
  };

  // ps_core.cc: membership, checkpoints, completion
  std::optional<Error> check_folder(const std::string& folder) const;
  std::optional<Error> fence(PeerKey from, const wire::Envelope& envelope) const;
  void refuse_role(int64_t now_ns, PeerKey from, const wire::Envelope& envelope,
                   const wire::PeerIdentity& identity, Effects& effects);
  void from_chief(const wire::Message& message, Effects& effects);
  void on_adopt(const wire::Envelope& envelope, const wire::Adopt& adopt, const Bytes& inlined,
                Effects& effects);
  void on_view(const wire::Envelope& envelope, const wire::View& view, Effects& effects);
  void on_save(const wire::Envelope& envelope, const wire::Save& save, Effects& effects);
  void answer_save(Result<std::vector<wire::ImageRef>> images, Effects& effects);
  void settle_snapshots(ViewId published);
  void on_status(const wire::Envelope& envelope, const wire::StatusRequest& status,
                 Effects& effects);
  void take_markers(const Bits& parts, const std::vector<wire::QuarantineMarker>& markers,
                    bool known);
  void on_stop(const wire::Envelope& envelope, const wire::Stop& stop, Effects& effects);
  void release(const Bits& parts);
  Result<void> take_images(Loading& loading, const std::vector<checkpoint::PartitionImage>& images,
                           bool more);
  void send(PeerKey to, RequestId request, wire::Body body, Bytes values, Effects& effects);
  void reject(PeerKey to, RequestId request, Error error, Effects& effects);

  // moves.cc: partitions on their way to another core
  void on_freeze(const wire::Envelope& envelope, const wire::Freeze& freeze, Effects& effects);
  void settle_frozen(const wire::View& view, Bits& lost, Effects& effects);
  bool names_me(const wire::View& view, PartitionId p) const;

  // memory.cc: room for rows to come
  Result<void> make_room(const std::vector<Piece>& pieces);
  Result<void> make_room(const checkpoint::PartitionImage& image);
  Result<void> make_room(const std::vector<uint64_t>& rows);
  Error out_of_memory(uint64_t held_bytes, uint64_t bytes) const;
  Error no_address_space(const Table& table, uint64_t rows) const;

  // serve.cc: pulls and pushes
  void on_pull(int64_t now_ns, PeerKey from, const wire::Message& message, const wire::Pull& pull,
               Effects& effects);
  void count_load(const wire::Pull& pull, const Bytes& keys);
  void on_push(int64_t now_ns, PeerKey from, const wire::Message& message, const wire::Push& push,
               Effects& effects);
  Result<uint64_t> value_bytes(const std::vector<wire::Section>& sections, const Bytes& keys) const;
  bool keys_in(const std::vector<wire::Section>& sections, const uint8_t* keys,
               const uint8_t* mask) const;
  Result<void> check_push(const wire::Push& push, const Bytes& keys, const Bytes& values);
  Result<void> check_planned(BatchId batch) const;
  void admit(ViewId worker_view, const wire::Push& push);
  void admit_one_by_one(ViewId worker_view, const wire::Push& push);
  bool agrees(const wire::Push& push, PartitionId p) const;
  Result<bool> resolve(const wire::Push& push, const Bytes& keys, const Bytes& values,
                       Piece& piece);
  Result<void> apply_fragment(int64_t now_ns, const wire::Message& message, const wire::Push& push);
  Result<void> apply_whole(const wire::Push& push, const std::vector<Piece>& pieces);
  void apply_piece(const Piece& piece, const uint8_t* admitted);
  void check_sums(const wire::Push& push);
  void count_staleness(const Piece& piece);
  void answer_others(wire::PartStatus status, uint32_t watermark);
  /// A refused worker must know a view that is no older.
  ViewId view_to_reach() const;
  const uint8_t* bytes_of(const Bits& bits, std::vector<uint8_t>& scratch) const;

  PsConfig config_;
  Partitions partitions_;
  Handles handles_;
  LoadMeter load_meter_;
  Staging staging_;
  MemoryBudget budget_;
  BufferPool buffers_;
  wire::View view_;
  uint32_t term_ = 0;  // newest a chief has shown
  std::vector<Loading> loading_;
  uint64_t next_load_id_ = 1;
  std::vector<Freezing> freezing_;
  std::optional<Saving> saving_;
  std::vector<Base> bases_;  // by partition; none before its first published image
  std::optional<Unpublished> unpublished_;
  std::vector<checkpoint::PartitionImage> spare_images_;  // memory for the next copies
  std::optional<wire::Saved> saved_;                      // the last one, for a repeated Save
  std::optional<Error> failure_;                          // the job must end
  bool is_full_ = false;  // for want of memory: no part is applied any more
  int leave_signal_ = 0;  // reported with every heartbeat; 0: none received
  uint64_t roles_refused_ = 0;
  int64_t role_notice_at_ns_ = INT64_MIN;
  bool stopped_ = false;
  std::optional<int64_t> chief_heard_ns_;
  std::optional<int64_t> heartbeat_sent_ns_;
  uint64_t heartbeats_ = 0;
  int64_t load_since_ns_ = 0;
  std::vector<uint64_t> staleness_;
  uint64_t pulled_bytes_ = 0, pushed_bytes_ = 0, duplicate_parts_ = 0, gaps_ = 0;

  Admission admission_;  // scratch of on_push, kept for its memory
  std::vector<Piece> pieces_;
  std::vector<uint8_t> covered_bytes_, admitted_bytes_;
};

}  // namespace downpour::ps
