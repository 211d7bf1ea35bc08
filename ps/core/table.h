// Table: the rows of one TableSpec that a ps core holds, with their optimizer slots.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "ps/core/arena.h"
#include "ps/core/dense_blocks.h"
#include "ps/core/partition_rows.h"
#include "ps/core/row_index.h"
#include "ps/core/row_marks.h"
#include "shared/base/ids.h"
#include "shared/base/result.h"
#include "shared/checkpoint/image.h"
#include "shared/optim/optimizer.h"
#include "shared/tensor/variables.h"

namespace downpour::ps {

/// How an apply treats its partitions. Both arrays have one entry per partition.
struct ApplyOptions {
  const uint8_t* admitted =
      nullptr;  // 0: the partition's keys are passed over; null: all are applied
  const uint64_t* steps =
      nullptr;  // number of this step, from 1; needed where an optimizer is Adam
};

struct TableMemory {
  uint64_t index_bytes = 0;
  uint64_t row_bytes = 0;  // weights, slots and padding of the rows made so far
};

/// What a snapshot works with, to be used again for the next.
struct SnapshotMemory {
  std::vector<RowRun> runs;  // rows (dense: blocks) to be copied
  std::vector<RowRun> touched;
};

/// Rows of a table and of all its members. An embedding table has one index for all members; row
/// `r` of every member belongs to the same key. A row is made by the first apply to its key; a pull
/// stores nothing. Row numbers stay valid until their partition is dropped or imported.
///
/// In memory: one arena a member, row = [weights dim][slot 0 dim][slot 1 dim] padded to cache
/// lines; and one of keys by row. Once the table is large, rows of a partition lie in runs, so that
/// a copy of the partition reads memory in order and asks no index. Keys are little-endian uint64;
/// keys, values and gradients may lie at any address. Values and gradients: for each member [keys,
/// dim] floats, one member after the other; dense: the keys' blocks one after the other. One
/// thread. Nothing is allocated by a pull, nor by an apply that makes no row.
class Table final {
 public:
  /// `index_salt`: see RowIndex; nothing that leaves the table depends on it.
  Table(TableId id, const TableSpec& spec, uint64_t seed, uint32_t partition_bits,
        const ArenaOptions& arenas = {}, uint64_t index_salt = 0);

  /// From now on it is known which rows were touched since they were copied, at a bit a row and a
  /// store a push of one. Before any row is made.
  void track_touched();

  TableId id() const { return id_; }
  const TableSpec& spec() const { return spec_; }

  /// Whether every key exists in the table and its partition p has owned[p] != 0. Ask before pull()
  /// and apply().
  bool keys_in(const void* keys, size_t n, const uint8_t* owned) const;
  /// Floats of values or gradients under these keys; they must pass keys_in() first.
  uint64_t value_floats(const void* keys, size_t n) const;

  /// Reads weights; a key without a row reads as initialized. rows_out: null, or n row numbers
  /// (kNoRow: no row).
  void pull(const void* keys, size_t n, void* values, uint32_t* rows_out) const;

  /// Applies gradients in the order of the keys, a repeated key repeatedly. rows: null, or as an
  /// earlier pull of the same keys gave them (kNoRow is looked up).
  void apply(const void* keys, size_t n, const uint32_t* rows, const void* gradients,
             const ApplyOptions& options);

  /// The partition's rows, keys ascending.
  checkpoint::TableImage export_partition(PartitionId partition) const;
  /// The same for a checkpoint, into an image whose memory is used again, with keys in no order:
  /// several times faster. All rows, or those touched since the newest published one
  /// (track_touched()). Returns how many rows the partition has.
  size_t snapshot_partition(PartitionId partition, bool touched_only, SnapshotMemory& memory,
                            checkpoint::TableImage& image);
  /// The snapshots since the last call belong to a checkpoint that is published now; or never will
  /// be, and their rows are still to be saved.
  void settle_snapshots(bool published);
  /// Replaces the partition's rows. On an error (an image that is not of this table or partition)
  /// nothing changes.
  Result<void> import_partition(PartitionId partition, const checkpoint::TableImage& image);
  void drop_partition(PartitionId partition);

  /// How many rows (blocks) an apply of these keys may make at most. rows: as in apply().
  uint64_t rows_to_make(const void* keys, size_t n, const uint32_t* rows) const;
  /// Memory that a row (a block) takes in arenas and index, at most.
  uint64_t row_bytes_max() const { return row_bytes_max_; }
  /// Reserves memory for `rows` further rows without touching it, so that an apply that adds them
  /// does not fail. False: the system refuses address space, or row numbers are used up.
  [[nodiscard]] bool reserve(uint64_t rows);

  /// Rows (blocks) stored.
  uint64_t rows() const;
  TableMemory memory() const;

 private:
  struct TableVariable {
    VariableSpec spec;
    uint64_t seed;
    uint32_t stored_floats;
    uint32_t pull_lines;   // cache lines to prefetch of a row, for its weights
    uint32_t apply_lines;  // and for weights and slots
    optim::UpdateRows update;
    optim::StepRates rates;
    Arena arena;
  };
  class RowFetcher;
  void pull_rows(const void* keys, size_t n, void* values, uint32_t* rows_out) const;
  template <bool kHaveRows>
  void apply_rows(const void* keys, size_t n, const uint32_t* rows, const void* gradients,
                  const ApplyOptions& options);
  void update_members(std::span<const optim::RowUpdate> updates, size_t n, const void* gradients,
                      const ApplyOptions& options);
  void apply_blocks(const void* keys, size_t n, const void* gradients, const ApplyOptions& options);
  void copy_runs(std::span<const RowRun> runs, checkpoint::TableImage& image) const;
  void copy_blocks(std::span<const RowRun> runs, checkpoint::TableImage& image) const;
  uint32_t add_row(uint64_t key, uint64_t hash);
  uint32_t take_row(uint64_t key, PartitionId partition);
  uint32_t find_row(PartitionId partition);
  uint32_t add_rows(uint32_t rows);
  uint32_t run_rows_at(uint64_t rows) const;
  void list_rows();
  /// The partition's rows, or its blocks that are stored. Returns their number.
  size_t rows_of(PartitionId partition, std::vector<RowRun>& runs) const;
  /// Floats of a stored row under `key`, as images have them.
  size_t stored_floats(size_t table_variable, uint64_t key) const;
  Result<void> check_image(PartitionId partition, const checkpoint::TableImage& image) const;

  TableId id_;
  TableSpec spec_;
  uint32_t partition_bits_;
  uint64_t row_bytes_max_ = 0;
  RowIndex index_;
  std::vector<TableVariable> table_variables_;
  std::vector<uint32_t> free_rows_;
  uint32_t rows_end_ = 0;         // rows [0, rows_end_) exist in the arenas
  Arena keys_{2};                 // by row
  PartitionRows partition_rows_;  // begun when the table is no longer small
  // Rows touched since their last snapshot; rows of snapshots that are not known to be published,
  // touched before them.
  struct Touched {
    RowMarks since_snapshot, in_snapshot;
  };
  std::unique_ptr<Touched> touched_;
  std::unique_ptr<DenseBlocks> dense_;  // TableKind::kDense only; then members_ is empty
};

}  // namespace downpour::ps
