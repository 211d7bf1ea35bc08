// Partitions: the unit of ownership. Variables, slots, version, watermarks, counts and metrics of a
// partition are changed, saved, restored and moved together, and only here.
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

/// All P partitions as one core sees them. Partitions that it does not own are empty.
class Partitions {
 public:
  explicit Partitions(const PsConfig& config);

  uint32_t count() const { return count_; }
  const Bits& owned() const { return owned_; }
  bool owns(PartitionId p) const { return contains(owned_, p); }
  /// Owned partitions that apply whole steps, if the job has steps: all owned ones, or in a job
  /// with groups those of RowGroup::kSync.
  const Bits& stepped() const { return stepped_; }
  /// Whether a part for these partitions, which are all of one group, is applied when it arrives.
  bool apply_on_arrival(const Bits& parts) const {
    return grouped_ && !none(parts) && group_of(first(parts), count_) == RowGroup::kAsync;
  }
  /// Whether the partitions belong to both groups of a job with groups.
  bool are_mixed(const Bits& parts) const;
  /// Partitions that accept pulls and pushes: owned and not frozen.
  const Bits& serving() const { return serving_; }
  bool serves(PartitionId p) const { return contains(serving_, p); }
  /// One byte per partition, 1 if served, as Table::keys_in() takes it.
  const uint8_t* serving_bytes() const { return serving_bytes_.data(); }
  bool frozen(PartitionId p) const { return contains(frozen_, p); }
  /// Freezes an owned partition: it is not served and does not change until it is thawed or
  /// dropped.
  void freeze(PartitionId p);
  /// Serves a frozen partition again, under this ownership generation.
  void thaw(PartitionId p, ViewId ownership_generation);
  /// Ownership generation of an owned partition, and the highest of all owned partitions.
  ViewId ownership_generation(PartitionId p) const { return ownership_generations_[raw(p)]; }
  ViewId ownership_generation_max() const { return ownership_generation_max_; }

  /// By partition: the number of the next step, which is the number of applied steps plus one.
  const uint64_t* next_steps() const { return next_steps_.data(); }
  uint64_t version(PartitionId p) const { return next_steps_[raw(p)] - 1; }
  /// By partition: the number of steps of earlier runs, whose slots the partition has inherited.
  /// Null: 0 for all partitions.
  const uint64_t* steps_before() const {
    return steps_before_.empty() ? nullptr : steps_before_.data();
  }
  /// Writes the versions of `parts` to `out`, in ascending order of partitions.
  void versions(const Bits& parts, std::vector<uint64_t>& out) const;
  /// Raises the versions of the partitions in `parts` by one, because they have applied a batch,
  /// with or without keys.
  void step(const Bits& parts);
  /// Returns the step that all partitions with steps apply next; 0 if they differ, or if there are
  /// none.
  uint64_t next_step() const;

  /// Number of sealed epochs at the partition. sealed_max() is the highest of these numbers: no
  /// owned partition has sealed epoch sealed_max() or a later one, so such an epoch needs no check
  /// per partition.
  uint32_t sealed(PartitionId p) const { return sealed_[raw(p)]; }
  uint32_t sealed_max() const { return sealed_max_; }
  void seal(uint32_t epochs);

  /// Adopts a partition without rows. The core must not own it yet. The partition refuses pushes
  /// until take_markers() with `known`.
  void adopt(PartitionId p, ViewId ownership_generation, uint32_t sealed_epochs);
  /// Adopts a partition from an image. On an error the partition stays not owned and empty. Error
  /// kBadData: the image has more sealed epochs than `sealed_epochs`, holds batches of unsealed
  /// epochs of another plan than `plan_hash` (0: any plan), or is not valid.
  Result<void> adopt(const checkpoint::PartitionImage& image, ViewId ownership_generation,
                     uint32_t sealed_epochs, uint64_t plan_hash = 0);
  /// Hash of the plan under which pushes are accepted, from the newest view; 0: none yet.
  uint64_t plan_hash() const { return plan_hash_; }
  void set_plan(uint64_t plan_hash) { plan_hash_ = plan_hash; }
  /// Whether an owned partition holds anything of an epoch that it has not sealed.
  bool hold_unsealed() const;
  /// Stores quarantine markers at those of `parts` that the core owns. `known`: these are all
  /// markers that exist; an adopted partition refuses pushes until such a call. Error kBug: a
  /// marker is withdrawn although a partition has passed the batch without its gradient.
  Result<void> take_markers(const Bits& parts, const std::vector<wire::QuarantineMarker>& markers,
                            bool known);
  /// Owned partitions that may not know all quarantine markers yet.
  const Bits& awaiting_markers() const { return awaiting_markers_; }
  const QuarantineMarkers& markers() const { return markers_; }
  /// All markers, in the form of a StatusReply.
  std::vector<wire::QuarantineMarker> reported_markers() const;
  /// Drops partitions with everything that they hold.
  void drop(const Bits& parts);
  checkpoint::PartitionImage export_image(PartitionId p) const;
  /// Copies a partition for a checkpoint into `image`, whose memory is reused. Keys are in no
  /// order. `base` is 0, or the checksum of the partition's image in the newest published
  /// checkpoint. If it is not 0, the new image holds only the rows touched since the published one,
  /// and PartitionImage::base is set to `base`. If all rows were touched, the new image is a full
  /// one. Returns the number of embedding rows of the partition.
  uint64_t snapshot(PartitionId p, uint64_t base, checkpoint::PartitionImage& image);
  /// Frees the memory that snapshot() reuses, after all partitions of a checkpoint are copied.
  void end_snapshots();
  /// Reports what became of the snapshots since the last call. `published`: their checkpoint has
  /// been published. Otherwise it never will be, so their rows count as touched again.
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
  bool has_steps(PartitionId p) const {
    return !grouped_ || group_of(p, count_) == RowGroup::kSync;
  }
  /// Exports everything of an image but its rows.
  void export_state(PartitionId p, checkpoint::PartitionImage& image) const;
  /// Whether the partition has passed the batch, with or without its gradient.
  bool has_applied(BatchId batch, PartitionId p) const;

  uint32_t count_;
  std::vector<TableSpec> specs_;
  std::vector<std::unique_ptr<Table>> tables_;
  SnapshotMemory snapshot_memory_;
  bool grouped_;  // the job has groups
  Bits owned_;
  Bits stepped_;  // of the owned ones
  Bits frozen_;   // of the owned ones
  Bits serving_;  // owned and not frozen
  std::vector<uint8_t> serving_bytes_;
  std::vector<ViewId> ownership_generations_;
  ViewId ownership_generation_max_;
  std::vector<uint64_t> next_steps_;
  std::vector<uint64_t> steps_before_;  // empty until a partition has inherited slots
  std::vector<uint32_t> sealed_;
  uint32_t sealed_max_ = 0;
  uint64_t plan_hash_ = 0;
  Watermarks watermarks_;
  QuarantineMarkers markers_;
  Bits awaiting_markers_;
};

}  // namespace downpour::ps
