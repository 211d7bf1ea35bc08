// Partitions: the unit of ownership. Variables, slots, version, watermarks, counts and metrics of a
// partition are changed, saved, restored and moved together; this is where they are one.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "ps/core/bits.h"
#include "ps/core/events.h"
#include "ps/core/quarantine_markers.h"
#include "ps/core/table.h"
#include "ps/core/watermarks.h"
#include "shared/base/result.h"
#include "shared/checkpoint/image.h"

namespace downpour::ps {

/// All P partitions as one core sees them; those it does not own are empty.
class Partitions {
 public:
  explicit Partitions(const PsConfig& config);

  uint32_t count() const { return count_; }
  const Bits& owned() const { return owned_; }
  bool owns(PartitionId p) const { return contains(owned_, p); }
  /// Owned and not frozen: what is pulled from and pushed to.
  const Bits& serving() const { return serving_; }
  bool serves(PartitionId p) const { return contains(serving_, p); }
  /// One byte a partition, 1 where served: as Table::keys_in takes it.
  const uint8_t* serving_bytes() const { return serving_bytes_.data(); }
  bool frozen(PartitionId p) const { return contains(frozen_, p); }
  /// An owned partition is not served until it is thawed or dropped: nothing of it changes.
  void freeze(PartitionId p);
  /// It is served again, and the core's since this view.
  void thaw(PartitionId p, ViewId ownership_generation);
  /// The view in which the core took an owned partition, and the newest of them all.
  ViewId ownership_generation(PartitionId p) const { return ownership_generations_[raw(p)]; }
  ViewId ownership_generation_max() const { return ownership_generation_max_; }

  /// Steps applied to each partition so far, plus one: the step that comes next.
  const uint64_t* next_steps() const { return next_steps_.data(); }
  uint64_t version(PartitionId p) const { return next_steps_[raw(p)] - 1; }
  /// Of every owned partition, ascending.
  void versions(std::vector<uint64_t>& out) const;
  /// Ends a push: the parts' versions go up by one, whatever they held.
  void step(const Bits& parts);

  /// Epochs below this are sealed at the partition; the largest of all tells when nobody needs
  /// asking.
  uint32_t sealed(PartitionId p) const { return sealed_[raw(p)]; }
  uint32_t sealed_max() const { return sealed_max_; }
  void seal(uint32_t epochs);

  /// Takes a partition that is not owned: empty.
  void adopt(PartitionId p, ViewId ownership_generation, uint32_t sealed_epochs);
  /// The same, as the image says, which must not have sealed more epochs, nor hold batches of
  /// unsealed ones of another plan (0: any plan will do). On an error the partition stays not owned
  /// and empty.
  Result<void> adopt(const checkpoint::PartitionImage& image, ViewId ownership_generation,
                     uint32_t sealed_epochs, uint64_t plan_hash = 0);
  /// The plan under which pushes are taken, of the newest view; 0: none yet.
  uint64_t plan_hash() const { return plan_hash_; }
  void set_plan(uint64_t plan_hash) { plan_hash_ = plan_hash; }
  /// Whether an owned partition holds anything of an epoch that is not sealed there.
  bool hold_unsealed() const;
  /// The partitions hear of batches that are given up. Until they have heard of every one there
  /// may be (`known`) they take no push. Error kBug: a partition has done what contradicts a line.
  Result<void> take_markers(const Bits& parts, const std::vector<wire::QuarantineMarker>& markers,
                            bool known);
  /// Owned partitions that wait to hear of every line.
  const Bits& awaiting_markers() const { return awaiting_markers_; }
  const QuarantineMarkers& markers() const { return markers_; }
  /// All of them, as a StatusReply says them.
  std::vector<wire::QuarantineMarker> reported_markers() const;
  /// Forgets partitions and all they held.
  void drop(const Bits& parts);
  checkpoint::PartitionImage export_image(PartitionId p) const;
  /// The same for a checkpoint, into an image whose memory is used again, with keys in no order.
  /// `base`: 0, or the checksum of the partition's image in the newest published checkpoint: the
  /// image then holds only what was touched since, and says so, unless that is all of it. Returns
  /// how many embedding rows the partition has.
  uint64_t snapshot(PartitionId p, uint64_t base, checkpoint::PartitionImage& image);
  /// Gives back the memory that snapshots use again.
  void end_snapshots();
  /// The snapshots since the last call belong to a checkpoint that is published, or never will be.
  void settle_snapshots(bool published);

  size_t table_count() const { return tables_.size(); }
  const TableSpec& spec(TableId id) const { return specs_[raw(id)]; }
  Table& table(TableId id) { return *tables_[raw(id)]; }
  const Table& table(TableId id) const { return *tables_[raw(id)]; }
  uint64_t rows() const;
  uint64_t memory_bytes() const;

  Watermarks& watermarks() { return watermarks_; }
  const Watermarks& watermarks() const { return watermarks_; }

 private:
  void refresh();
  /// All of an image but its rows.
  void export_state(PartitionId p, checkpoint::PartitionImage& image) const;
  /// With its gradient, or past it without.
  bool has_applied(BatchId batch, PartitionId p) const;

  uint32_t count_;
  std::vector<TableSpec> specs_;
  std::vector<std::unique_ptr<Table>> tables_;
  SnapshotMemory snapshot_memory_;
  Bits owned_;
  Bits frozen_;   // of those
  Bits serving_;  // the others
  std::vector<uint8_t> serving_bytes_;
  std::vector<ViewId> ownership_generations_;
  ViewId ownership_generation_max_;
  std::vector<uint64_t> next_steps_;
  std::vector<uint32_t> sealed_;
  uint32_t sealed_max_ = 0;
  uint64_t plan_hash_ = 0;
  Watermarks watermarks_;
  QuarantineMarkers markers_;
  Bits awaiting_markers_;
};

}  // namespace downpour::ps
