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
  StepSum(const Partitions& partitions, uint64_t salt) : partitions_(partitions), salt_(salt) {}

  /// Begins a sum of these replicas' gradients. `divisor`: divides the sum; 0: the sum stays as it
  /// is. `clip_value`: then limits the magnitude of each element; 0: no limit. Returns the sum as a
  /// payload with each key once; it is valid until the next call.
  const Piece& of(const std::vector<const StagedReplica*>& replicas, double divisor,
                  float clip_value);
  /// Returns the newest sum again.
  const Piece& piece() const { return sum_; }
  /// Returns the squared norms of the sum: by partition of `owned`, then by group. They do not
  /// depend on which other partitions the core owns.
  std::vector<double> squares(const Bits& owned, ClipGroups groups);
  /// Multiplies the sum by these factors: one for all variables, or one for each.
  void scale(const std::vector<float>& factors);

 private:
  /// The keys of one section of one payload, with their places among the unique keys.
  struct Run {
    const StagedPush* push = nullptr;
    const uint8_t* keys = nullptr;
    const uint8_t* values = nullptr;
    uint32_t count = 0;
    size_t first_place = 0;  // in places_
  };
  void collect(TableId table, const StagedPush& push, const StagedPush::Payload& payload);
  void add_runs(const TableSpec& spec, float factor, float clip_value);
  size_t variables_before(TableId table) const;
  uint32_t place_of(uint64_t key, uint32_t row);
  void grow_index();
  size_t first_slot(uint64_t key) const;

  const Partitions& partitions_;
  uint64_t salt_;
  std::vector<Run> runs_;         // of the current table
  std::vector<uint32_t> places_;  // of the keys of all runs; kNoPlace: not of the push's parts
  std::vector<uint32_t> index_;   // open addressing: place + 1 of a key; 0: free
  std::vector<uint64_t> unique_;  // of the current table, in the order of their first use
  std::vector<wire::Section> sections_;
  std::vector<uint64_t> keys_;
  std::vector<uint32_t> rows_;  // of keys_
  std::vector<float> values_;
  Piece sum_;
};

}  // namespace downpour::ps
