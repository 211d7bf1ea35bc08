// KeyIndex: numbers the distinct keys of a batch in the order of their first appearance.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace downpour::data {

/// An open-addressing hash table that is reused for all batches. A slot is valid only if it has the
/// batch's stamp, so the table is cleared only when the stamps run out. The table grows only if a
/// batch has more distinct keys than any batch before. A slot takes 4 bytes: for 40,000 distinct
/// keys the table has 1 MiB and stays in a core's cache.
class KeyIndex {
 public:
  KeyIndex();
  /// Removes all keys.
  void begin_batch();
  /// Sets indices[i] to the number of keys[i] + salt. Appends keys that are new in this batch to
  /// `unique`, which must be unchanged since the previous call of the batch. `indices` must have
  /// room for keys.size() entries.
  void add(std::span<const uint64_t> keys, uint32_t* indices, std::vector<uint64_t>& unique,
           uint64_t salt = 0);

 private:
  void grow(std::span<const uint64_t> unique);
  uint32_t index_bits() const;

  std::vector<uint32_t> slots_;  // a stamp, and in the low index_bits() bits a key's number
  uint32_t shift_;               // 64 - log2(slots)
  uint32_t stamp_ = 0;           // 0: no batch
};

}  // namespace downpour::data
