// KeyIndex: numbers the distinct keys of a batch in the order of their first appearance.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace downpour::data {

/// An open-addressing table that is kept between batches. A slot counts only if it bears the
/// batch's stamp, so that nothing is cleared but when the stamps run out; memory is reused, and
/// grows only when a batch has more distinct keys than any before. Four bytes a slot: of a batch of
/// 40,000 distinct keys the table is 1 MiB, and stays in a core's cache.
class KeyIndex {
 public:
  KeyIndex();
  /// Forgets all keys.
  void begin_batch();
  /// Writes to indices[i] the number of keys[i]; keys not seen in this batch yet are appended to
  /// `unique`, which must be what earlier calls of the batch left there. `indices` has room for
  /// keys.size().
  void add(std::span<const uint64_t> keys, uint32_t* indices, std::vector<uint64_t>& unique);

 private:
  void grow(std::span<const uint64_t> unique);
  uint32_t index_bits() const;

  std::vector<uint32_t> slots_;  // a stamp, and below it index_bits() of a key's number
  uint32_t shift_;               // 64 - log2(slots)
  uint32_t stamp_ = 0;           // 0: no batch
};

}  // namespace downpour::data
