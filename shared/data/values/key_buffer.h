// KeyBuffer: where the parsers of a batch put the keys of a field.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace downpour::data {

/// Raw keys of one field of the current batch, before they are made unique.
struct KeyBuffer {
  std::vector<uint64_t> keys;     // sized for the expected keys; the first `count` are valid
  std::vector<float> values;      // one value per key, if the field has values
  std::vector<uint32_t> offsets;  // start of each record, and the end; empty: one key per record
  size_t count = 0;
  bool has_values = false;
  bool all_one = true;  // every value so far is exactly 1

  void ensure(size_t more) {
    if (count + more <= keys.size()) return;
    keys.resize((count + more) * 3 / 2);
    if (has_values) values.resize(keys.size());
  }
};

}  // namespace downpour::data
