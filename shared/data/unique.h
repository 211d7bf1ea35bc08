// KeyIndex: numbers the distinct keys of a batch in the order of their first appearance.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace downpour::data {

/// An open-addressing table that is kept between batches. A slot counts only if it bears the
/// batch's stamp, so nothing is ever cleared; memory is reused, and grows only when a batch has
/// more distinct keys than any before.
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
  struct Slot {
    uint32_t stamp;
    uint32_t index;
  };
  void grow(std::span<const uint64_t> unique);

  std::vector<Slot> slots_;
  uint32_t shift_;      // 64 - log2(slots)
  uint32_t stamp_ = 0;  // 0: no batch
};

}  // namespace downpour::data
