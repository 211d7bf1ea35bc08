// The table of the C interface.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "shared/data/formats/memory/memory_table.h"
#include "tools/capi/downpour.h"

namespace downpour::capi {

/// Checks the columns, and makes them a table. Returns 0, or the exit status of the error.
int32_t share(data::MemoryTable memory, std::unique_ptr<dp_table> owner, dp_table** table);

}  // namespace downpour::capi

struct dp_table {
  std::vector<std::unique_ptr<uint8_t[]>> owned;  // columns that had to be converted
  std::function<void()> release;                  // returns borrowed memory; may be empty
  std::unique_ptr<downpour::data::SharedTable> shared;

  ~dp_table() {
    shared.reset();
    if (release) release();
  }
};
