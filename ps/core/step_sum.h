// StepSum: the sum of the gradients that the replicas contribute to a synchronous step.
#pragma once

#include <cstdint>
#include <vector>

#include "ps/core/partition.h"
#include "ps/core/payload.h"
#include "ps/core/step_stage.h"

namespace downpour::ps {

/// Adds gradients per key, in the order of the calls, so that the bits of the sum do not depend on
/// how the gradients were divided among messages.
class StepSum {
 public:
  /// Keeps the reference. `salt`: secret, so that no data file can be made whose keys collide. No
  /// sum depends on it.
  StepSum(const Partitions& partitions, uint64_t salt)
      : partitions_(partitions), salt_(salt), tables_(partitions.table_count()) {}

  /// Begins a new sum.
  void begin();
  /// Adds the gradients of a push. `row_weight` is added to the divisor of each of its rows.
  void add(const StagedPush& push, float row_weight);
  /// Ends the sum: divides it by `divisor` (0: by nothing), and each row by its own divisor, if
  /// that is above 0. `clip_value`: then limits the magnitude of each element; 0: no limit.
  void finish(double divisor, float clip_value);

  /// Returns the squared norms of the sum: by partition of `owned`, then by group. They do not
  /// depend on which other partitions the core owns.
  std::vector<double> squares(const Bits& owned, ClipGroups groups) const;
  /// Multiplies the sum by these factors: one for all variables, or one for each.
  void scale(const std::vector<float>& factors);
  /// Returns the sum as payloads that have each key once. They are valid until the next change.
  const std::vector<Piece>& pieces();
  /// Returns the memory of the gradients and keys of the sum.
  uint64_t bytes() const;

 private:
  /// The sum of one table. The place of a key is the number of keys that were used before it.
  struct TableSum {
    std::vector<uint32_t> index;             // open addressing: place + 1 of a key; 0: free
    std::vector<uint64_t> keys;              // by place
    std::vector<uint32_t> rows;              // by place; kNoRow: look the key up
    std::vector<uint64_t> starts;            // dense tables: of each place, in the values
    std::vector<float> divisors;             // by place; empty: no row has one
    std::vector<std::vector<float>> values;  // by variable: the rows by place
    std::vector<float> joined;               // the values of all variables
    std::vector<wire::Section> sections;
  };
  void add(const StagedPush& push, const StagedPush::Payload& payload, float row_weight);
  void find_places(const StagedPush& push, const wire::Section& section, const uint8_t* keys,
                   const uint32_t* rows);
  void divide_rows(TableId id);
  uint32_t place_of(TableId id, uint64_t key, uint32_t row);
  uint64_t start_of(TableId id, size_t variable, uint32_t place) const;
  size_t first_slot(const TableSum& table, uint64_t key) const;
  void grow_index(TableSum& table) const;
  size_t variables_before(TableId table) const;

  const Partitions& partitions_;
  uint64_t salt_;
  std::vector<TableSum> tables_;
  std::vector<uint32_t> places_;  // of the keys of a section; kNoPlace: not of the push's parts
  std::vector<Piece> pieces_;
};

}  // namespace downpour::ps
