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

/// How an apply treats its partitions. The arrays have one entry per partition.
struct ApplyOptions {
  // admitted[p] == 0: the keys of partition p are skipped. Null: all keys are applied.
  const uint8_t* admitted = nullptr;
  // Number of this step, starting at 1. Required if an optimizer is Adam or has a schedule.
  const uint64_t* steps = nullptr;
  // Steps that the slots have seen before step 1. Null: none.
  const uint64_t* steps_before = nullptr;
  uint32_t rate_reductions = 0;  // by the schedule `plateau`, as in wire::Push
};

/// What a pull reads: the weights that training updates, or those that a model predicts with. These
/// are the averages if the rows have them.
enum class Weights : uint8_t { kTrained, kOfModel };

/// Returns the learning rate of partition `partition` in this step.
inline optim::StepRate rate_of(optim::StepRates& rates, const ApplyOptions& options,
                               uint32_t partition) {
  return rates(options.steps[partition], options.rate_reductions,
               options.steps_before == nullptr ? 0 : options.steps_before[partition]);
}

struct TableMemory {
  uint64_t index_bytes = 0;
  uint64_t row_bytes = 0;  // weights, slots and padding of all rows made so far
};

/// Scratch memory of a snapshot, reused for the next one.
struct SnapshotMemory {
  std::vector<RowRun> runs;  // rows (dense: blocks) to copy
  std::vector<RowRun> touched;
};

/// The rows of a table and of all its variables. An embedding table has one index for all
/// variables: row `r` of every variable belongs to the same key. The first apply to a key makes its
/// row; a pull stores nothing. Row numbers stay valid until their partition is dropped or imported.
///
/// In memory, each variable has one arena of rows (see optim::stored_floats()), padded to cache
/// lines. One more arena holds the keys by row. In a large table the rows of a partition lie
/// in runs of consecutive row numbers. So a copy of the partition reads memory in order and needs
/// no index.
///
/// Keys are little-endian uint64. Keys, values and gradients may lie at any address. Values and
/// gradients are stored variable by variable, each as [keys, dim] floats. For a dense variable they
/// are the blocks of the keys, one after the other. Only one thread may use the table. A pull
/// allocates nothing, nor does an apply that makes no row.
class Table final {
 public:
  /// `index_salt`: see RowIndex. No output of the table depends on it.
  Table(TableId id, const TableSpec& spec, uint64_t seed, uint32_t partition_bits,
        const ArenaOptions& arenas = {}, uint64_t index_salt = 0);

  /// Starts recording which rows have been touched since they were last copied. It costs two bits
  /// per row and one store per row of a push. Call it before any row is made.
  void track_touched();

  TableId id() const { return id_; }
  const TableSpec& spec() const { return spec_; }

  /// Returns true if every key is valid and its partition p is owned (owned[p] != 0). A key of a
  /// dense variable is valid if the block exists; every key of an embedding is valid. Check it
  /// before pull() and apply().
  bool keys_in(const void* keys, size_t n, const uint8_t* owned) const;
  /// Number of floats of values or gradients for these keys. The keys must have passed keys_in().
  uint64_t value_floats(const void* keys, size_t n) const;

  /// Reads weights. A key without a row reads as initialized. rows_out: null, or n row numbers
  /// (kNoRow: no row).
  void pull(const void* keys, size_t n, void* values, uint32_t* rows_out,
            Weights weights = Weights::kTrained) const;

  /// Applies gradients in the order of the keys; a repeated key is applied each time. rows: null,
  /// or the row numbers from an earlier pull of the same keys (kNoRow is looked up again).
  void apply(const void* keys, size_t n, const uint32_t* rows, const void* gradients,
             const ApplyOptions& options);

  /// Returns the partition's rows, with ascending keys.
  checkpoint::TableImage export_partition(PartitionId partition) const;
  /// Copies the partition's rows for a checkpoint into `image`, whose memory is reused. Keys are
  /// not sorted, which makes the copy several times faster. `touched_only`: copies only the rows
  /// touched since the newest published image (see track_touched()). Returns the number of rows of
  /// the partition.
  size_t snapshot_partition(PartitionId partition, bool touched_only, SnapshotMemory& memory,
                            checkpoint::TableImage& image);
  /// Settles all snapshots since the last call. `published`: whether their checkpoint was
  /// published. If not, the rows that they copied count as touched again.
  void settle_snapshots(bool published);
  /// Replaces the partition's rows. On an error (the image is of another table or partition, or not
  /// valid) nothing changes.
  Result<void> import_partition(PartitionId partition, const checkpoint::TableImage& image);
  void drop_partition(PartitionId partition);

  /// Upper bound of the rows (blocks) that an apply of these keys makes. rows: as in apply().
  uint64_t rows_to_make(const void* keys, size_t n, const uint32_t* rows) const;
  /// Upper bound of the memory of a row (block) in arenas and index, in bytes.
  uint64_t row_bytes_max() const { return row_bytes_max_; }
  /// Reserves memory for `rows` further rows without touching it, so that an apply that adds them
  /// cannot fail. Returns false if the system refuses address space or if row numbers are used up.
  [[nodiscard]] bool reserve(uint64_t rows);

  /// Number of stored rows (blocks).
  uint64_t rows() const;
  TableMemory memory() const;

 private:
  struct TableVariable {
    VariableSpec spec;
    uint64_t seed;
    uint32_t stored_floats;
    uint32_t pull_lines;   // cache lines of a row to prefetch for its weights
    uint32_t model_lines;  // of the weights that a model predicts with
    uint32_t apply_lines;  // of the whole row
    optim::UpdateRows update;
    optim::StepRates rates;
    Arena arena;
  };
  class RowFetcher;
  void pull_rows(const void* keys, size_t n, void* values, uint32_t* rows_out,
                 Weights weights) const;
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
  /// Lists the partition's rows, or its stored blocks. Returns their number.
  size_t rows_of(PartitionId partition, std::vector<RowRun>& runs) const;
  /// Number of floats of a stored row under `key`, as in images.
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
  PartitionRows partition_rows_;  // used when the table is no longer small
  // Rows touched since they were last copied, and rows in snapshots that are not settled.
  struct Touched {
    RowMarks since_snapshot, in_snapshot;
  };
  std::unique_ptr<Touched> touched_;
  std::unique_ptr<DenseBlocks> dense_;  // TableKind::kDense only; then table_variables_ is empty
};

}  // namespace downpour::ps
