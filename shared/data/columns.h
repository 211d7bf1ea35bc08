// Columns: where a parser writes.
#pragma once

#include <cstdint>
#include <vector>

#include "shared/data/scratch.h"
#include "shared/tensor/batch.h"

namespace downpour::data {

/// Floats at their place, keys behind those of the records before.
struct Columns {
  uint32_t record = 0;                         // index of the record within the batch
  uint64_t random = 0;                         // of the record and epoch; 0: random ops do nothing
  std::vector<FloatColumn>* floats = nullptr;  // as in the layout, sized for a whole batch
  std::vector<KeyBuffer>* keys = nullptr;      // as RecordParser::key_shapes
};

}  // namespace downpour::data
