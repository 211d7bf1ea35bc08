// Columns: the buffers that a parser writes to.
#pragma once

#include <cstdint>
#include <vector>

#include "shared/data/values/key_buffer.h"
#include "shared/tensor/batch.h"

namespace downpour::data {

/// The columns of the batch being made. Floats have a fixed position for each record; keys are
/// appended after those of the previous records.
struct Columns {
  uint32_t record = 0;                         // index of the record within the batch
  uint64_t random = 0;                         // of the record in this epoch; 0: random ops do
                                               // nothing
  std::vector<FloatColumn>* floats = nullptr;  // as in the layout, sized for a whole batch
  std::vector<KeyBuffer>* keys = nullptr;      // one for each of RecordParser::key_shapes
};

}  // namespace downpour::data
